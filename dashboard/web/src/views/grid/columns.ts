import type { Commit, GridRow, Run } from "../../api/types";

/** Group is the columns of one member, or those of each row's first, second, … member where rows are packed. */
export interface Group {
  /** Empty where rows are packed. */
  member: string;
  staleSince?: string | undefined;
  /** Index of its first column. */
  first: number;
  count: number;
  /** Left edge of its first column in pixels. */
  left: number;
}

export interface Column {
  group: number;
  /** Place within the group, from 0. */
  slot: number;
  /** Revision that it is for; absent where columns are runs. */
  revision?: string;
}

export type By = "packed" | "runs" | "commits";

export interface Layout {
  groups: Group[];
  columns: Column[];
  /** Whether columns are revisions; or the latest runs, the last one rightmost; or these without room for where nothing has run. */
  by: By;
  width: number;
}

/** Cell is a run, with how many older ones it hides. */
export interface Cell {
  column: number;
  run: Run;
  more: number;
}

export const CELL = 26;
export const GAP = 10;
/** Least width of a member's columns, so that its name can be read. */
export const NAME = 3 * CELL;
/** Width of the name of a member in a row, where rows are packed. */
export const LABEL = 86;

export interface Member {
  member: string;
  staleSince?: string | undefined;
}

/**
 * layoutOf columns: for each member at most most revisions that have run there, oldest first, or as many runs as a MiniCluster
 * has had there.
 */
export function layoutOf(by: By, members: readonly Member[], rows: readonly GridRow[], revisions: readonly Commit[], most: number): Layout {
  const seen = new Map<string, { revisions: Set<string>; runs: number }>();
  for (const row of rows) {
    const counts = new Map<string, number>();
    for (const run of row.runs) {
      const of = seen.get(run.member) ?? { revisions: new Set<string>(), runs: 0 };
      seen.set(run.member, of);
      if (run.commit) of.revisions.add(run.commit.revision);
      const count = (counts.get(run.member) ?? 0) + 1;
      counts.set(run.member, count);
      of.runs = Math.max(of.runs, Math.min(most, count));
    }
  }
  if (by === "packed") return packed(rows, most);
  const widest = Math.max(1, ...[...seen.values()].map((s) => s.runs));
  const groups: Group[] = [];
  const columns: Column[] = [];
  let left = GAP;
  for (const { member, staleSince } of members) {
    const here = seen.get(member);
    const mine = by === "commits" ? revisions.filter((r) => here?.revisions.has(r.revision)).slice(0, most).reverse() : [];
    // Members of which nothing was read yet keep a place, so that columns stay where they are while rows come in.
    const count = by === "commits" ? Math.max(1, mine.length) : Math.max(3, widest);
    groups.push({ member, staleSince, first: columns.length, count, left });
    for (let slot = 0; slot < count; slot++) {
      const revision = mine[slot]?.revision;
      columns.push({ group: groups.length - 1, slot, ...(revision ? { revision } : {}) });
    }
    left += Math.max(count * CELL, NAME) + GAP;
  }
  return { groups, columns, by, width: left };
}

/** membersOf a row that have runs of it, by name. */
export function membersOf(row: GridRow): string[] {
  return [...new Set(row.runs.map((run) => run.member))].sort();
}

function packed(rows: readonly GridRow[], most: number): Layout {
  const counts: number[] = [];
  for (const row of rows) {
    membersOf(row).forEach((member, i) => (counts[i] = Math.max(counts[i] ?? 1, Math.min(most, row.runs.filter((run) => run.member === member).length))));
  }
  const groups: Group[] = [];
  const columns: Column[] = [];
  let left = GAP;
  counts.forEach((count, group) => {
    groups.push({ member: "", first: columns.length, count, left: left + LABEL });
    for (let slot = 0; slot < count; slot++) columns.push({ group, slot });
    left += LABEL + count * CELL + GAP;
  });
  return { groups, columns, by: "packed", width: left };
}

/** leftOf a column, in pixels. */
export function leftOf(layout: Layout, column: number): number {
  const at = layout.columns[column];
  const group = at && layout.groups[at.group];
  return group ? group.left + at.slot * CELL : 0;
}

/** cellsOf a row, by column from left to right. */
export function cellsOf(layout: Layout, row: GridRow): Cell[] {
  const groups = layout.by === "packed"
    ? new Map(membersOf(row).flatMap((member, i) => (layout.groups[i] ? [[member, layout.groups[i]] as const] : [])))
    : new Map(layout.groups.map((group) => [group.member, group]));
  const cells = new Map<number, Cell>();
  const placed = new Map<string, number>();
  const runs = [...row.runs].sort((a, b) => (timeOf(b) < timeOf(a) ? -1 : timeOf(b) > timeOf(a) ? 1 : 0));
  for (const run of runs) {
    const group = groups.get(run.member);
    if (!group) continue;
    let column = -1;
    if (layout.by !== "commits") {
      const before = placed.get(run.member) ?? 0;
      placed.set(run.member, before + 1);
      column = group.first + group.count - 1 - before;
    } else {
      for (let i = group.first; i < group.first + group.count; i++) if (layout.columns[i]?.revision === run.commit?.revision && run.commit) column = i;
    }
    if (column < group.first) continue;
    const there = cells.get(column);
    if (there) there.more++;
    else cells.set(column, { column, run, more: 0 });
  }
  return [...cells.values()].sort((a, b) => a.column - b.column);
}

const timeOf = (run: Run) => run.start ?? run.end ?? "";

/** visible says which columns are between two edges in pixels: the first and the one after the last. */
export function visible(layout: Layout, from: number, to: number): { first: number; last: number } {
  const groups = layout.groups;
  let low = 0;
  let high = groups.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    const group = groups[middle] as Group;
    if (group.left + group.count * CELL < from) low = middle + 1;
    else high = middle;
  }
  const start = groups[low];
  if (!start) return { first: layout.columns.length, last: layout.columns.length };
  const first = start.first + Math.max(0, Math.min(start.count - 1, Math.floor((from - start.left) / CELL)));
  let last = first;
  for (let i = low; i < groups.length; i++) {
    const group = groups[i] as Group;
    if (group.left > to) break;
    last = group.first + Math.min(group.count, Math.ceil((to - group.left) / CELL));
  }
  return { first, last: Math.max(first, last) };
}

/** nextRun is the nearest column with a run in a direction; the same one if there is none. */
export function nextRun(cells: readonly Cell[], column: number, step: 1 | -1): number {
  const found = step > 0 ? cells.find((c) => c.column > column) : cells.findLast((c) => c.column < column);
  return found?.column ?? column;
}
