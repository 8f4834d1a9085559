import { defineConfig } from "vitest/config";

const shared = {
  environment: "node" as const,
  testTimeout: 180_000,
  hookTimeout: 60_000,
  // A machine that is busy with other suites may be late. What the page must not do is not forgiven by another attempt.
  retry: 2,
  // Specs of a worker share what they know of sessions, and its connection to the browser.
  isolate: false,
};

// The page in a real browser before the real controller: fleet.ts says where both are.
export default defineConfig({
  root: import.meta.dirname,
  test: {
    globalSetup: "./setup.ts",
    reporters: [["verbose", { summary: false }]],
    projects: [
      { test: { ...shared, name: "page", include: ["*.spec.ts"], exclude: ["*.fault.spec.ts"], maxWorkers: 3, sequence: { groupOrder: 0 } } },
      // What breaks the fleet for all comes after them, one at a time.
      { test: { ...shared, name: "faults", include: ["*.fault.spec.ts"], maxWorkers: 1, sequence: { groupOrder: 1 } } },
    ],
  },
});
