import { describe, expect, it } from "vitest";
import { complete, parse, suggest } from "./query";

describe("parse", () => {
  it.each<[string, object[]]>([
    ["", []],
    ["  hpcg ", [{ kind: "word", value: "hpcg", start: 2, end: 6 }]],
    ["app=lammps", [{ kind: "label", key: "app", value: "lammps" }]],
    ["example.org/a=b:c", [{ kind: "label", key: "example.org/a", value: "b:c" }]],
    ["member:alpine", [{ kind: "member", value: "alpine" }]],
    ["State:Failed", [{ kind: "state", value: "Failed" }]],
    ["commit:1a2b3c4 ns:physics hpcg", [{ kind: "commit", value: "1a2b3c4" }, { kind: "ns", value: "physics" }, { kind: "word", value: "hpcg" }]],
    ["state:", [{ kind: "state", problem: "state: needs a value" }]],
    ["colour:red", [{ kind: "word", problem: expect.stringContaining("no such key: colour") }]],
    ["=x", [{ kind: "label", problem: expect.stringContaining("a label needs a name") }]],
    ["<script>alert(1)</script>", [{ kind: "word", value: "<script>alert(1)</script>", problem: "" }]],
  ])("%s", (query, want) => {
    const got = parse(query);
    expect(got).toHaveLength(want.length);
    want.forEach((term, i) => expect(got[i]).toMatchObject(term));
  });
});

describe("suggest and complete", () => {
  const values = (key: string) => (key === "member" ? ["alpine", "basalt", "alder"] : []);
  it("offers keys for a word", () => expect(suggest("me", 2, values)).toEqual(["member:"]));
  it("offers all keys where nothing is typed", () => expect(suggest("hpcg ", 5, values)).toContain("state:"));
  it("offers values of a key, those that begin so first", () => expect(suggest("hpcg member:al", 14, values)).toEqual(["member:alpine", "member:alder", "member:basalt"]));
  it("offers nothing for what is complete", () => expect(suggest("member:alpine", 13, values)).toEqual([]));
  it("puts a key and waits for its value", () => expect(complete("hpcg me", 7, "member:")).toEqual({ query: "hpcg member:", caret: 12 }));
  it("puts a value and goes on behind it", () => expect(complete("member:al ns:x", 9, "member:alpine")).toEqual({ query: "member:alpine ns:x", caret: 14 }));
});
