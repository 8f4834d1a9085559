import { chromium } from "playwright-core";
import type { TestProject } from "vitest/node";
import { settings } from "./fleet.ts";

declare module "vitest" {
  interface ProvidedContext {
    /** Where the one browser of all specs listens. */
    browser: string;
  }
}

/** Starts the browser for all specs, and ends it after them. */
export default async function setup(project: TestProject) {
  if (!settings) throw new Error("MINIFLEET_E2E is not set: run make test-e2e E2E='shows the fleet in a browser' E2E_PROCS=1");
  const server = await chromium.launchServer({
    executablePath: settings.chromium,
    args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"],
  });
  project.provide("browser", server.wsEndpoint());
  return () => server.close();
}
