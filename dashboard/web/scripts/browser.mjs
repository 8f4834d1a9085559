// Chromium, and the build served with made-up data, for scripts.
import { spawn } from "node:child_process";
import { mkdtempSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { chromium } from "playwright-core";

const root = join(import.meta.dirname, "..");

/** freePort of this machine. */
const freePort = () => new Promise((done, fail) => {
  const server = createServer().on("error", fail).listen(0, "127.0.0.1", () => {
    const { port } = server.address();
    server.close(() => done(port));
  });
});

/** serve the build with the mock, which reads env; ends with stop. */
export async function serve(env) {
  const mine = await freePort();
  const url = `http://127.0.0.1:${mine}`;
  const server = spawn(process.execPath, [join(root, "node_modules/vite/bin/vite.js"), "preview", "--host", "127.0.0.1", "--port", String(mine), "--strictPort"], { cwd: root, env: { ...process.env, ...env }, stdio: ["ignore", "ignore", "inherit"] });
  for (let i = 0; i < 100; i++) {
    if (await fetch(`${url}/icon.svg`).then((r) => r.ok, () => false)) return { url, stop: () => server.kill() };
    await new Promise((done) => setTimeout(done, 100));
  }
  server.kill();
  throw new Error("the preview does not start");
}

/** browser with an empty profile. CHROMIUM names another one. */
export function browser() {
  return chromium.launchPersistentContext(mkdtempSync(join(tmpdir(), "minifleet-web-")), {
    executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
    args: ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"],
  });
}
