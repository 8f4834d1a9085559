import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import type { Change, Row, Rows } from "../api/types";
import { createList, INTERVAL, mayMove, PAGE } from "./list";

const row = (name: string, more: Partial<Row> = {}): Row => ({
  namespace: "physics", name, uid: name, state: "Running", sync: "Synced", health: "Progressing", why: "", pods: { desired: 4, ready: 4, succeeded: 0, failed: 0 },
  members: ["alpine"], since: "2026-01-01T00:00:00Z", created: "2026-01-01T00:00:00Z", ...more,
});
const change = (more: Partial<Change>): Change => ({ cursor: "c", reset: false, miniClusters: [], removed: [], members: [], sources: [], queue: false, now: "", ...more });

function serve(all: Row[]) {
  const server = { all, reads: [] as [number, number][], fails: false, cursor: "1" };
  const read = (offset: number, limit: number): Promise<Rows> => {
    server.reads.push([offset, limit]);
    if (server.fails) return Promise.reject(new Error("no answer"));
    return Promise.resolve({ items: server.all.slice(offset, offset + limit), total: server.all.length, cursor: server.cursor, facets: { states: [], namespaces: [], sources: [], members: [] } });
  };
  return { server, read };
}
const flush = () => vi.advanceTimersByTimeAsync(INTERVAL + 10);
const many = (n: number) => Array.from({ length: n }, (_, i) => row(`mc-${i}`));

beforeEach(() => void vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "performance", "Date"] }));
afterEach(() => void vi.useRealTimers());

describe("list", () => {
  it("reads the first page, and further ones when they are shown", async () => {
    const { server, read } = serve(many(1000));
    const list = createList({ read, moved: () => false });
    await flush();
    expect(list.total.value).toBe(1000);
    expect(list.at(0)?.name).toBe("mc-0");
    expect(list.at(PAGE)).toBeUndefined();
    list.show(PAGE * 2 - 10, 40); // Across two pages.
    await flush();
    expect(server.reads).toEqual([[0, PAGE], [PAGE, PAGE], [2 * PAGE, PAGE]]);
    expect(list.at(2 * PAGE + 5)?.name).toBe(`mc-${2 * PAGE + 5}`);
    list.show(PAGE * 2 - 10, 40);
    await flush();
    expect(server.reads).toHaveLength(3);
  });

  it("changes rows in place without reading", async () => {
    const { server, read } = serve(many(10));
    const list = createList({ read, moved: mayMove("name", false) });
    await flush();
    const version = list.version.value;
    for (let i = 0; i < 200; i++) list.apply([change({ miniClusters: [row("mc-3", { why: `step ${i}` })] })]);
    expect(list.at(3)?.why).toBe("step 199");
    expect(list.at(2)?.why).toBe("");
    expect(list.version.value).toBeGreaterThan(version);
    await flush();
    expect(server.reads).toHaveLength(1);
  });

  it.each<[string, Change]>([
    ["a row has another state", change({ miniClusters: [row("mc-1", { state: "Failed" })] })],
    ["a row appears", change({ miniClusters: [row("new")] })],
    ["a row is removed", change({ removed: [{ namespace: "physics", name: "mc-1" }] })],
    ["everything is reset", change({ reset: true, cursor: "another" })],
  ])("reads once again, and once a second, when %s", async (_, of) => {
    const { server, read } = serve(many(10));
    const list = createList({ read, moved: mayMove("attention", false) });
    await flush();
    for (let i = 0; i < 50; i++) {
      list.apply([of]);
      await vi.advanceTimersByTimeAsync(10);
    }
    await flush();
    expect(server.reads.length).toBeGreaterThanOrEqual(2);
    expect(server.reads.length).toBeLessThanOrEqual(3);
  });

  it("does not read again after a reset at the cursor that it was read at", async () => {
    const { server, read } = serve(many(3));
    const list = createList({ read, moved: () => false });
    await flush();
    list.apply([change({ reset: true, cursor: "1" })]);
    await flush();
    expect(server.reads).toHaveLength(1);
  });

  it("shows fewer rows after some are removed", async () => {
    const { server, read } = serve(many(5));
    const list = createList({ read, moved: () => true });
    await flush();
    server.all = server.all.slice(2);
    list.apply([change({ removed: [{ namespace: "physics", name: "mc-0" }, { namespace: "physics", name: "mc-1" }] })]);
    await flush();
    expect(list.total.value).toBe(3);
    expect([0, 1, 2, 3].map((i) => list.at(i)?.name)).toEqual(["mc-2", "mc-3", "mc-4", undefined]);
  });

  it("keeps what it has when a reading fails, and says so", async () => {
    const { server, read } = serve(many(5));
    const list = createList({ read, moved: () => true });
    await flush();
    server.fails = true;
    list.refresh();
    await flush();
    expect(list.failure.value?.message).toContain("no answer");
    expect(list.at(0)?.name).toBe("mc-0");
    server.fails = false;
    list.refresh();
    await flush();
    expect(list.failure.value).toBeNull();
  });

  it("tries again by itself when a reading has failed for the moment", async () => {
    const { server, read } = serve(many(5));
    server.fails = true;
    const list = createList({ read, moved: () => true });
    await flush();
    expect(list.total.value).toBeNull();
    server.fails = false;
    await vi.advanceTimersByTimeAsync(3_000);
    expect(list.total.value).toBe(5);
  });

  it("follows a row that has moved to another page", async () => {
    const { server, read } = serve(many(PAGE + 5));
    const list = createList({ read, moved: () => true });
    await flush();
    list.show(PAGE - 5, 10);
    await flush();
    server.all = [server.all[PAGE]!, ...server.all.filter((_, i) => i !== PAGE)];
    list.refresh();
    await flush();
    list.apply([change({ miniClusters: [row(`mc-${PAGE}`, { why: "moved" })] })]);
    expect(list.at(0)?.why).toBe("moved");
  });
});

describe("mayMove", () => {
  const before = row("a");
  it.each<[string, string, boolean, Partial<Row>, boolean]>([
    ["another sentence", "attention", true, { why: "other" }, false],
    ["another state", "name", false, { state: "Failed" }, true],
    ["the time, sorted by it", "since", false, { since: "2026-01-02T00:00:00Z" }, true],
    ["the time, sorted by name", "name", false, { since: "2026-01-02T00:00:00Z" }, false],
    ["members, filtered", "name", true, { members: ["basalt"] }, true],
    ["members, not filtered", "name", false, { members: ["basalt"] }, false],
  ])("%s", (_, sort, filtered, more, want) => expect(mayMove(sort, filtered)(before, { ...before, ...more })).toBe(want));
});
