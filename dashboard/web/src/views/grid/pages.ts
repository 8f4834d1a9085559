import { batch, signal, type ReadonlySignal } from "@preact/signals";
import { Failure } from "../../api/client";
import type { Change, Commit, Grid, GridRow } from "../../api/types";
import { serverNow } from "../../data/clock";
import { throttle } from "../../data/throttle";
import type { Member } from "./columns";

/** How many rows are read at once. */
export const PAGE = 100;

/** Pages are the rows of a grid, of which those that are shown are read. */
export interface Pages {
  total: ReadonlySignal<number | null>;
  failure: ReadonlySignal<Failure | null>;
  readAt: ReadonlySignal<number>;
  /** version is another one whenever rows may be different. */
  version: ReadonlySignal<number>;
  /** shape is another one when other members, revisions or numbers of runs came to be known. */
  shape: ReadonlySignal<number>;
  at(index: number): GridRow | undefined;
  rows(): GridRow[];
  members(): Member[];
  /** Latest first. */
  revisions(): Commit[];
  show(first: number, count: number): void;
  apply(changes: readonly Change[]): void;
  refresh(): void;
  close(): void;
}

/** createPages reads the first page at once. */
export function createPages(read: (offset: number, limit: number, signal: AbortSignal) => Promise<Grid>): Pages {
  const total = signal<number | null>(null);
  const failed = signal<Failure | null>(null);
  const readAt = signal(0);
  const version = signal(0);
  const shape = signal(0);
  const pages = new Map<number, Grid>();
  const fresh = new Set<number>();
  const abort = new AbortController();
  let shown = { first: 0, count: 1 };
  const shapes = new Map<number, string>();
  let cursor = "";

  const wanted = () => {
    const last = Math.max(shown.first, Math.min(shown.first + shown.count, total.value ?? 1) - 1);
    const list = [];
    for (let page = Math.floor(shown.first / PAGE); page <= Math.floor(last / PAGE); page++) if (!fresh.has(page)) list.push(page);
    return list;
  };

  async function readWanted(): Promise<void> {
    for (const page of wanted()) {
      try {
        const got = await read(page * PAGE, PAGE, abort.signal);
        if (abort.signal.aborted) return;
        cursor = got.cursor;
        pages.set(page, got);
        fresh.add(page);
        const key = shapeOf(got);
        const other = shapes.get(page) !== key;
        shapes.set(page, key);
        batch(() => {
          total.value = got.total;
          failed.value = null;
          readAt.value = serverNow();
          version.value++;
          if (other) shape.value++;
        });
      } catch (error) {
        if (!abort.signal.aborted) failed.value = error instanceof Failure ? error : new Failure(0, String(error));
        return;
      }
    }
  }
  const scrolled = throttle(readWanted, 60);
  const changed = throttle(readWanted, 1000);
  const refresh = () => {
    fresh.clear();
    changed();
  };

  /** holds a page one of the changed MiniClusters? */
  function touched(change: Change): number[] {
    const names = new Set(change.miniClusters.map((row) => `${row.namespace}/${row.name}`));
    return [...pages].filter(([, page]) => page.rows.some((row) => names.has(`${row.namespace}/${row.name}`))).map(([at]) => at);
  }
  refresh();
  return {
    total, failure: failed, readAt, version, shape,
    at: (index) => pages.get(Math.floor(index / PAGE))?.rows[index % PAGE],
    rows: () => [...pages.values()].flatMap((page) => page.rows),
    members: () => [...new Map([...pages.values()].flatMap((page) => page.columns).map((c) => [c.member, c])).values()].sort((a, b) => (a.member < b.member ? -1 : 1)),
    revisions: () => latestFirst([...pages.values()].flatMap((page) => page.revisions)),
    show(first, count) {
      shown = { first, count };
      if (wanted().length > 0) scrolled();
    },
    apply(changes) {
      let again = false;
      for (const change of changes) {
        if (change.reset ? change.cursor === "" || change.cursor !== cursor : change.removed.length > 0) {
          fresh.clear();
          again = true;
        }
        for (const page of touched(change)) again = fresh.delete(page) || again;
      }
      if (again) changed();
    },
    refresh,
    close: () => abort.abort(),
  };
}

function latestFirst(commits: readonly Commit[]): Commit[] {
  const known = new Map<string, Commit>();
  for (const commit of commits) if (!known.get(commit.revision)?.time) known.set(commit.revision, commit);
  return [...known.values()].sort((a, b) => ((a.time ?? "") < (b.time ?? "") ? 1 : (a.time ?? "") > (b.time ?? "") ? -1 : 0));
}

/** shapeOf a page: its members, revisions on each, and how many runs its rows have at most. */
function shapeOf(page: Grid): string {
  const seen = new Set<string>();
  let most = 0;
  for (const row of page.rows) {
    most = Math.max(most, row.runs.length);
    for (const run of row.runs) seen.add(`${run.member} ${run.commit?.revision}`);
  }
  return `${page.columns.map((column) => `${column.member} ${column.staleSince ?? ""}`).join()}|${[...seen].sort().join()}|${most}`;
}
