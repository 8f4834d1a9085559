import { describe, expect, it } from "vitest";
import { compare, fold } from "./diff";
import { age, bytes, ordinal, refOf, shortHash } from "./format";
import { windowOf, MOST } from "./window";

const S = 1000, M = 60 * S, H = 60 * M, D = 24 * H;

describe("age", () => {
  it.each<[number, string]>([[-5 * S, "0 s"], [59 * S, "59 s"], [M, "1 min"], [59 * M + 59 * S, "59 min"], [H, "1 h 00"], [H + 5 * M, "1 h 05"], [12 * H, "12 h"], [47 * H, "47 h"], [2 * D, "2 d"]])("%d", (ms, want) => expect(age(ms)).toBe(want));
});

describe("formats", () => {
  it.each<[number, string]>([[1, "1st"], [2, "2nd"], [3, "3rd"], [4, "4th"], [11, "11th"], [13, "13th"], [21, "21st"], [112, "112th"]])("place %d", (n, want) => expect(ordinal(n)).toBe(want));
  it("bytes", () => expect([bytes(0), bytes(1536), bytes(2 ** 40)]).toEqual(["0 B", "1.5 KiB", "1 TiB"]));
  it("revisions", () => expect([shortHash("main@1a2b3c4d5e"), refOf("feature/a@b@1a2b3c4"), shortHash("1a2b3c4"), refOf("1a2b3c4")]).toEqual(["1a2b3c4", "feature/a@b", "1a2b3c4", ""]));
});

describe("window of a virtual list", () => {
  it.each<[string, [number, number, number, number], object]>([
    ["at the top", [0, 900, 46, 2000], { first: 0, count: 29 }],
    ["above the top", [-300, 900, 46, 2000], { first: 0, count: 29 }],
    ["in the middle", [46 * 1000, 900, 46, 2000], { first: 992, count: 37 }],
    ["at the end", [46 * 1990, 900, 46, 2000], { first: 1979, count: 21 }],
    ["of a short list", [0, 900, 46, 3], { first: 0, count: 3 }],
    ["of nothing", [0, 900, 46, 0], { first: 0, count: 0 }],
    ["scrolled beyond its end", [46 * 5000, 900, 46, 100], { first: 79, count: 21 }],
  ])("%s", (_, args, want) => expect(windowOf(...args)).toEqual(want));
  it("never has too many rows", () => {
    for (const height of [300, 900, 2160, 10_000]) {
      for (const top of [0, 12_345, 90_000]) expect(windowOf(top, height, 20, 10_000).count).toBeLessThanOrEqual(MOST);
    }
  });
});

describe("compare", () => {
  const kinds = (live: string, desired: string) => compare(live, desired).map((l) => ({ same: " ", live: "-", desired: "+" })[l.kind] + l.text);
  it("an edit", () => expect(kinds("a\nb\nc\n", "a\nB\nc\n")).toEqual([" a", "-b", "+B", " c"]));
  it("nothing there", () => expect(kinds("", "a\n")).toEqual(["+a"]));
  it("an insertion", () => expect(kinds("a\nc", "a\nb\nc")).toEqual([" a", "+b", " c"]));
  it("a move", () => expect(kinds("a\nb\nc", "c\na\nb")).toEqual(["+c", " a", " b", "-c"]));
  it("numbers lines", () => expect(compare("x\na\nb", "a\nb")).toEqual([{ kind: "live", text: "x", live: 1, desired: 0 }, { kind: "same", text: "a", live: 2, desired: 1 }, { kind: "same", text: "b", live: 3, desired: 2 }]));
  it("folds what is far from a difference", () => {
    const text = Array.from({ length: 20 }, (_, i) => `line ${i}`);
    const folded = fold(compare(text.join("\n"), [...text.slice(0, 10), "new", ...text.slice(10)].join("\n")), 2);
    expect(folded.map((l) => (l.kind === "fold" ? `fold ${l.count}` : l.kind))).toEqual(["fold 8", "same", "same", "desired", "same", "same", "fold 8"]);
  });
});
