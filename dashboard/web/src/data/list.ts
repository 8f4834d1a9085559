import { batch, signal, type ReadonlySignal } from "@preact/signals";
import { Failure, RETRY } from "../api/client";
import type { Change, Facets, Row, Rows } from "../api/types";
import { serverNow } from "./clock";
import { throttle } from "./throttle";

/** How many rows are read at once. */
export const PAGE = 200;
/** At most one reading in so many milliseconds after changes. */
export const INTERVAL = 1000;

export interface ListOptions {
  /** read a page of what is listed. */
  read(offset: number, limit: number, signal: AbortSignal): Promise<Rows>;
  /** Whether a row that is different now may be elsewhere in the list, or no longer in it. */
  moved(before: Row, after: Row): boolean;
}

/** List is a list of MiniClusters that the server filters and sorts, of which only pages that are shown are read. */
export interface List {
  /** How many rows there are; null before that is known. */
  total: ReadonlySignal<number | null>;
  facets: ReadonlySignal<Facets | null>;
  failure: ReadonlySignal<Failure | null>;
  readAt: ReadonlySignal<number>;
  /** version is another one whenever at() may return something else. */
  version: ReadonlySignal<number>;
  at(index: number): Row | undefined;
  /** show says which rows are on the screen, so that their pages are read. */
  show(first: number, count: number): void;
  /** apply changes in place, and read again what they may have moved. */
  apply(changes: readonly Change[]): void;
  refresh(): void;
  close(): void;
}

const key = (row: { namespace: string; name: string }) => `${row.namespace}/${row.name}`;

/** createList reads its first page at once. */
export function createList(options: ListOptions): List {
  const total = signal<number | null>(null);
  const facets = signal<Facets | null>(null);
  const failed = signal<Failure | null>(null);
  const readAt = signal(0);
  const version = signal(0);
  const rows: (Row | undefined)[] = [];
  const places = new Map<string, number>();
  const fresh = new Set<number>(); // Pages that are as they were last read, or changed in place.
  const abort = new AbortController();
  let shown = { first: 0, count: 1 };
  let cursor = "";
  let again: ReturnType<typeof setTimeout> | undefined;

  function keep(page: number, read: Rows): void {
    // What a page held may be on another one now, or on none.
    for (let i = page * PAGE; i < (page + 1) * PAGE; i++) {
      const before = rows[i];
      if (before && places.get(key(before)) === i) places.delete(key(before));
      rows[i] = undefined;
    }
    read.items.forEach((row, i) => {
      const index = page * PAGE + i;
      const elsewhere = places.get(key(row));
      // A row is shown once: its old place is read again when it comes to be shown.
      if (elsewhere !== undefined && elsewhere !== index) fresh.delete(Math.floor(elsewhere / PAGE));
      rows[index] = row;
      places.set(key(row), index);
    });
    rows.length = Math.min(rows.length, read.total);
    fresh.add(page);
  }

  function wanted(): number[] {
    const last = Math.max(shown.first, Math.min(shown.first + shown.count, total.value ?? 1) - 1);
    const pages = [];
    for (let page = Math.floor(shown.first / PAGE); page <= Math.floor(last / PAGE); page++) if (!fresh.has(page)) pages.push(page);
    return pages;
  }

  async function readWanted(): Promise<void> {
    for (const page of wanted()) {
      try {
        const read = await options.read(page * PAGE, PAGE, abort.signal);
        batch(() => {
          keep(page, read);
          total.value = read.total;
          facets.value = read.facets;
          failed.value = null;
          readAt.value = serverNow();
          version.value++;
        });
        cursor = read.cursor;
      } catch (error) {
        if (abort.signal.aborted) return;
        const failure = error instanceof Failure ? error : new Failure(0, String(error));
        failed.value = failure;
        clearTimeout(again);
        if (failure.transient) again = setTimeout(changed, RETRY);
        return;
      }
    }
  }

  // Scrolling reads soon, changes at most once a second.
  const scrolled = throttle(readWanted, 50);
  const changed: () => void = throttle(async () => {
    fresh.clear();
    await readWanted();
  }, INTERVAL);

  function patch(change: Change): { any: boolean; moved: boolean } {
    let any = false;
    let moved = change.removed.length > 0;
    for (const row of change.miniClusters) {
      const index = places.get(key(row));
      const before = index === undefined ? undefined : rows[index];
      if (index === undefined || before === undefined) {
        moved = true; // It may have come to match, or be on a page that was not read.
        continue;
      }
      moved ||= options.moved(before, row);
      rows[index] = row;
      any = true;
    }
    return { any, moved };
  }

  const list: List = {
    total,
    facets,
    failure: failed,
    readAt,
    version,
    at: (index) => rows[index],
    show(first, count) {
      shown = { first, count };
      if (wanted().length > 0) scrolled();
    },
    apply(changes) {
      let any = false;
      let moved = false;
      for (const change of changes) {
        if (change.reset) {
          moved ||= change.cursor === "" || change.cursor !== cursor;
          continue;
        }
        const patched = patch(change);
        any ||= patched.any;
        moved ||= patched.moved;
      }
      if (any) version.value++;
      if (moved) changed();
    },
    refresh: changed,
    close() {
      clearTimeout(again);
      abort.abort();
    },
  };
  changed();
  return list;
}

/** What the server sorts by, as far as a row tells. */
const sortKeys: Record<string, (row: Row) => unknown> = {
  attention: (row) => `${row.state} ${row.since}`,
  name: () => "",
  namespace: () => "",
  state: (row) => row.state,
  pods: (row) => `${row.pods.ready} ${row.pods.succeeded} ${row.pods.desired}`,
  member: (row) => row.members.join(),
  commit: (row) => row.commit?.revision,
  since: (row) => row.since,
  created: (row) => row.created,
};

/** mayMove compares what a list is sorted and filtered by. */
export function mayMove(sort: string, filtered: boolean): (before: Row, after: Row) => boolean {
  const sortKey = sortKeys[sort] ?? (() => null);
  const filterKey = (row: Row) => [row.state, row.health, row.sync, row.source, row.members.join(), row.commit?.revision].join();
  return (before, after) => sortKey(before) !== sortKey(after) || before.state !== after.state || (filtered && filterKey(before) !== filterKey(after));
}
