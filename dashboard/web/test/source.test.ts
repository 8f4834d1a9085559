import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";

const root = join(import.meta.dirname, "..");
const sources = readdirSync(join(root, "src"), { recursive: true, encoding: "utf8" }).filter((name) => /\.tsx?$/.test(name) && !/\.test\./.test(name));

describe("the source", () => {
  // What Trusted Types and the Content-Security-Policy of the server would refuse, and what would leave the origin.
  it.each(sources)("%s makes no markup and no code from text", (name) => {
    const text = readFileSync(join(root, "src", name), "utf8");
    expect(text).not.toMatch(/innerHTML|outerHTML|insertAdjacentHTML|dangerouslySetInnerHTML|document\.write|\beval\(|new Function|setAttribute\("style"|srcdoc/);
    if (name !== "api/schema.d.ts") expect(text).not.toMatch(/https?:\/\/(?!127\.0\.0\.1)/);
  });
  it("names no host in the lock file but those of funding", () => {
    const lock = JSON.parse(readFileSync(join(root, "package-lock.json"), "utf8")) as { packages: Record<string, { resolved?: string }> };
    expect(Object.entries(lock.packages).filter(([, p]) => p.resolved)).toEqual([]);
  });
});
