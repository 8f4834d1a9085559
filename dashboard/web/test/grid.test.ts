import { describe, expect, it } from "vitest";
import { CELL, cellsOf, leftOf, layoutOf, nextRun, visible } from "../src/views/grid/columns";
import type { GridRow, Run } from "../src/api/types";

const run = (member: string, id: string, start: string, revision?: string): Run => ({
  id, member, namespace: "physics", name: "hpcg", state: "Succeeded", digest: "", attempt: 0, start, ...(revision ? { commit: { revision } } : {}),
});
const row: GridRow = { namespace: "physics", name: "hpcg", state: "Running", runs: [run("alpine", "a3", "2026-01-03", "main@3"), run("alpine", "a2", "2026-01-02", "main@2"), run("alpine", "a1", "2026-01-01", "main@2"), run("cinder", "c1", "2026-01-01", "main@1")] };
const members = [{ member: "alpine" }, { member: "basalt" }, { member: "cinder" }];
const revisions = ["main@3", "main@2", "main@1"].map((revision) => ({ revision }));

describe("columns of the grid", () => {
  it("has the latest run rightmost where columns are runs", () => {
    const layout = layoutOf("runs", members, [row], revisions, 10);
    expect(layout.groups.map((g) => [g.member, g.first, g.count])).toEqual([["alpine", 0, 3], ["basalt", 3, 3], ["cinder", 6, 3]]);
    expect(cellsOf(layout, row).map((c) => [c.column, c.run.id])).toEqual([[0, "a1"], [1, "a2"], [2, "a3"], [8, "c1"]]);
  });

  it("has a column for each revision that has run on a member, and counts what it hides", () => {
    const layout = layoutOf("commits", members, [row], revisions, 10);
    expect(layout.columns.map((c) => c.revision)).toEqual(["main@2", "main@3", undefined, "main@1"]);
    expect(cellsOf(layout, row).map((c) => [c.column, c.run.id, c.more])).toEqual([[0, "a2", 1], [1, "a3", 0], [3, "c1", 0]]);
  });

  it("keeps no room for members without runs where rows are packed", () => {
    const layout = layoutOf("packed", [], [row], revisions, 2);
    expect(layout.groups.map((g) => [g.first, g.count])).toEqual([[0, 2], [2, 1]]);
    expect(cellsOf(layout, row).map((c) => [c.column, c.run.id])).toEqual([[0, "a2"], [1, "a3"], [2, "c1"]]);
  });

  it("shows only columns between two edges", () => {
    const many = Array.from({ length: 50 }, (_, i) => ({ member: `member-${i}` }));
    const layout = layoutOf("runs", many, [], [], 10);
    expect(layout.columns).toHaveLength(150);
    for (const from of [-50, 0, 137, 1000, layout.width - 10]) {
      const { first, last } = visible(layout, from, from + 300);
      expect(last - first).toBeLessThan(16);
      for (let column = 0; column < layout.columns.length; column++) {
        const left = leftOf(layout, column);
        if (left + CELL > from && left < from + 300) expect(column >= first && column < last).toBe(true);
      }
    }
  });

  it("finds the next run of a row", () => {
    const cells = cellsOf(layoutOf("runs", members, [row], revisions, 10), row);
    expect([nextRun(cells, 2, 1), nextRun(cells, 8, 1), nextRun(cells, 8, -1), nextRun(cells, -1, 1)]).toEqual([8, 8, 2, 0]);
  });
});
