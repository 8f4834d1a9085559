// Fails when the first view or a further one is larger than allowed, compressed.
import { readFileSync, statSync } from "node:fs";
import { join } from "node:path";

const KB = 1000;
const FIRST = 90 * KB;
const FURTHER = 40 * KB;
// What a person comes to first: the Fleet or, without a session, the login.
const FIRST_VIEWS = ["src/views/fleet/view.tsx", "src/views/login/view.tsx"];

const dist = join(import.meta.dirname, "../dist");
const manifest = JSON.parse(readFileSync(join(dist, ".vite/manifest.json"), "utf8"));
const size = (file) => statSync(join(dist, `${file}.br`)).size;

/** files of a chunk and of all that it imports at once. */
function files(key, seen = new Set()) {
  const chunk = manifest[key];
  if (!chunk || seen.has(key)) return new Set();
  seen.add(key);
  const found = new Set([chunk.file, ...(chunk.css ?? [])]);
  for (const next of chunk.imports ?? []) for (const file of files(next, seen)) found.add(file);
  return found;
}
const sum = (set) => [...set].reduce((total, file) => total + size(file), 0);
const kb = (bytes) => `${(bytes / KB).toFixed(1)} KB`;

const entry = files("index.html");
const views = Object.keys(manifest).filter((key) => manifest[key].isDynamicEntry);
let failed = 0;
function report(name, bytes, limit) {
  const over = bytes > limit;
  failed += over ? 1 : 0;
  console.log(`${over ? "too large" : "ok       "}  ${kb(bytes).padStart(8)} of ${kb(limit)}  ${name}`);
}

report("first view: index.html, the shell and the larger of " + FIRST_VIEWS.map((v) => v.replace("src/views/", "")).join(", "),
  size("index.html") + size("icon.svg") + sum(entry) +
    Math.max(...FIRST_VIEWS.map((view) => sum(new Set([...files(view)].filter((file) => !entry.has(file)))))), FIRST);
for (const view of views) {
  if (FIRST_VIEWS.includes(view)) continue;
  report(view, sum(new Set([...files(view)].filter((file) => !entry.has(file)))), FURTHER);
}
process.exit(failed ? 1 : 0);
