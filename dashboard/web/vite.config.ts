import { defineConfig } from "vitest/config";
import { compress } from "./dev/compress.ts";
import { mock } from "./dev/mock.ts";

// The address of a server to develop against; without one, made-up data answers.
const server = process.env.MINIFLEET_SERVER;

export default defineConfig({
  plugins: [server ? null : mock(), compress()],
  server: {
    host: "127.0.0.1",
    proxy: server ? { "/api": { target: server, changeOrigin: true, secure: false } } : {},
  },
  build: {
    target: "es2023",
    // light-dark() and nesting stay as they are.
    cssTarget: ["chrome123", "firefox120", "safari17.5"],
    assetsDir: "assets",
    // Inlined data: URLs would need a wider Content-Security-Policy.
    assetsInlineLimit: 0,
    manifest: true,
    modulePreload: { polyfill: false },
    sourcemap: false,
    reportCompressedSize: false,
  },
  test: {
    environment: "happy-dom",
    include: ["src/**/*.test.{ts,tsx}", "test/**/*.test.ts"],
  },
});
