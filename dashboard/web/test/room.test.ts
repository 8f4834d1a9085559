import { describe, expect, it } from "vitest";
import type { GangFit, Line, Node, NodeFit, Place } from "../src/api/types";
import { amountsOf, pictureOf, scarceOf, sentenceOfNode, shownOf, SLOTS } from "../src/views/shared/gang";
import { around } from "../src/views/shared/line";
import { byMiniCluster, matching } from "../src/views/queue/lines";
import { pathsOf, sentenceOfNode as sentence, shownOf as memberShown, useOf } from "../src/views/members/node";
import { byConsequence, changedBy, filesOf, inventoryShown, inventoryStates, plannedOf, shownOf as sourceShown } from "../src/views/sources/source";

const GiB = 2 ** 30;
const amount = (cpu: number, memory = 0, gpus = 0) => ({ cpu, memory: memory * GiB, gpus });
const node = (name: string, free: number, pods: number, lacks?: string): NodeFit => ({ node: name, free: amount(free, 64), total: amount(16, 64), pods, ...(lacks ? { lacks } : {}) });
const counts = (slots: readonly string[]) => Object.fromEntries([...new Set(slots)].map((kind) => [kind, slots.filter((s) => s === kind).length]));

describe("the gang on nodes", () => {
  const cases: Record<string, { node: NodeFit; want: Record<string, number> }> = {
    "takes a pod and has room left": { node: node("a", 12, 1), want: { taken: 4, gang: 8, free: 4 } },
    "is full then": { node: node("a", 8, 1), want: { taken: 8, gang: 8 } },
    "lacks 2": { node: node("a", 6, 0, "2 CPU"), want: { taken: 10, free: 6, lacking: 2 } },
    "takes one and lacks 2 for another": { node: node("a", 14, 1, "2 CPU"), want: { taken: 2, gang: 8, free: 6, lacking: 2 } },
    "may not be used": { node: { ...node("a", 16, 0, "2 CPU"), excluded: "cordoned" }, want: { free: 16 } },
  };
  it.each(Object.entries(cases))("draws a node that %s", (_, { node: of, want }) => {
    expect(counts(pictureOf(of, amount(8), "cpu").slots)).toEqual(want);
  });

  it("draws large nodes in few slots that are all of it", () => {
    const large: NodeFit = { node: "a", free: amount(100.5), total: amount(192), pods: 3 };
    const { unit, slots } = pictureOf(large, amount(30), "cpu");
    expect(unit).toBe(8);
    expect(slots.length).toBe(24);
    expect(slots.length).toBeLessThanOrEqual(SLOTS);
    expect(counts(slots)).toEqual({ taken: 11, gang: 12, free: 1 });
  });

  it("is about the resource that is scarce", () => {
    const gang = (each: GangFit["each"], ...nodes: NodeFit[]) => scarceOf({ each, nodes });
    expect(gang(amount(8, 1), node("a", 6, 0), node("b", 4, 0))).toBe("cpu");
    expect(gang(amount(1, 60), { ...node("a", 16, 0), free: amount(16, 20) })).toBe("memory");
    expect(gang(amount(1, 1, 2), { ...node("a", 16, 0), free: amount(16, 60, 1) })).toBe("gpus");
  });

  it("says what it shows", () => {
    expect(sentenceOfNode(node("node-7", 6, 0, "2 CPU"), "cpu")).toBe("node-7: no pod fits, 6 of 16 CPU free, lacks 2 CPU for one");
    expect(amountsOf(amount(8, 16, 2))).toBe("8 CPU, 2 GPU, 16 GiB");
  });

  it("shows the nearest misses among many nodes", () => {
    const nodes = [...Array.from({ length: 30 }, (_, i) => node(`a${i}`, 8, 1)), node("near", 6, 0, "2 CPU"), node("far", 0, 0, "8 CPU")];
    const shown = shownOf(nodes, 12);
    expect(shown).toHaveLength(12);
    expect(shown.slice(-2).map((n) => n.node)).toEqual(["near", "far"]);
  });
});

const place = (n: number, name: string, more: Partial<Place> = {}): Place => ({ place: n, namespace: "physics", name, priority: 0, pods: 4, each: amount(8), fits: 3, since: `2026-01-0${n}`, ...more });
const line = (member: string, ...places: Place[]): Line => ({ member, places, total: places.length });

describe("lines for room", () => {
  const places = Array.from({ length: 9 }, (_, i) => place(i + 1, `m${i + 1}`));
  it("are shown around a place, with the first", () => {
    expect(around(places, 6, 2, 1).map((p) => ("more" in p ? `+${p.more}` : p.place.place))).toEqual([1, "+3", 5, 6, 7, 8, "+1"]);
    expect(around(places, -1, 2, 1).map((p) => ("more" in p ? `+${p.more}` : p.place.place))).toEqual([1, 2, 3, 4, "+5"]);
  });

  it("are turned around by MiniCluster, the nearest member first, without what is hidden", () => {
    const lines = [line("alpine", place(1, "a", { fits: 2 }), { ...place(2, ""), hidden: true }, place(3, "b")), line("basalt", place(2, "a"))];
    expect(byMiniCluster(lines).map((w) => [w.name, w.places.map((p) => p.member)])).toEqual([["a", ["basalt", "alpine"]], ["b", ["alpine"]]]);
    expect(matching(lines, "b").map((l) => [l.member, l.places.length])).toEqual([["alpine", 1], ["basalt", 1]]);
  });
});

describe("members and their nodes", () => {
  const of: Node = { name: "node-1", free: amount(8, 64, 0), total: amount(32, 128, 4), unschedulable: true, taints: [{ key: "gpu", effect: "NoSchedule" }] };
  it("are as full as their scarcest resource", () => {
    expect(useOf(of)).toEqual({ share: 1, resource: "gpus" });
    expect(useOf({ free: amount(8, 64), total: amount(32, 128) })).toEqual({ share: 0.75, resource: "cpu" });
    expect(useOf({ free: amount(0), total: amount(0) })).toEqual({ share: 0, resource: "cpu" });
    expect(sentence(of)).toBe("node-1: 8 of 32 CPU, 64 GiB of 128 GiB, 0 of 4 GPU free; cordoned, taint gpu:NoSchedule");
  });

  it("are drawn as a few paths", () => {
    const paths = pathsOf([of, { ...of, unschedulable: false }, { ...of, taints: [], unschedulable: false, free: of.total }], 2, 20);
    expect(paths.frames.match(/M/g)).toHaveLength(3);
    expect(paths.fills.full.match(/M/g)).toHaveLength(2);
    expect([paths.cordoned.match(/M/g)?.length, paths.tainted.match(/M/g)?.length]).toEqual([1, 1]);
  });

  const base = { ready: true, reason: "Connected", deleting: false, drained: false, draining: false, cordoned: false };
  it("say what keeps them from runs", () => {
    expect(memberShown(base).word).toBe("Ready");
    expect(memberShown({ ...base, draining: true, drained: true, cordoned: true }).word).toBe("Drained");
    expect(memberShown({ ...base, ready: false, reason: "Unreachable", lastHeard: "2026-01-01T00:00:00Z", cordoned: true })).toEqual({ state: "Unknown", word: "Unreachable", staleSince: "2026-01-01T00:00:00Z" });
    expect(memberShown({ ...base, ready: false, reason: "Forbidden" })).toEqual({ state: "Invalid", word: "Forbidden" });
  });
});

describe("sources", () => {
  it("say what they wait for", () => {
    const base = { ready: true, reason: "Synced", suspended: false, dryRun: false, pruneBlocked: false, runsBlocked: false, problems: 0 };
    expect(sourceShown(base).word).toBe("Synced");
    expect(sourceShown({ ...base, ready: false, reason: "PruneBlocked", pruneBlocked: true }).word).toBe("Waits for approval");
    expect(sourceShown({ ...base, ready: false, reason: "FetchFailed" })).toEqual({ state: "Failed", word: "FetchFailed" });
    expect(sourceShown({ ...base, dryRun: true }).word).toBe("Dry run");
    expect(sourceShown({ ...base, dryRun: true, ready: false, reason: "VerificationFailed" }).word).toBe("VerificationFailed");
  });

  it("say of a dry run first what goes away and what runs anew", () => {
    const change = (action: string, object: string) => ({ action, object, needsApproval: false });
    const changes = [change("Create", "A/b"), change("Update", "A/c"), change("Run", "A/z"), change("Run", "A/d"), change("Delete", "A/e"), change("Keep", "A/f"), change("Else", "A/g")];
    expect(byConsequence(changes).map((c) => c.object)).toEqual(["A/e", "A/d", "A/z", "A/b", "A/c", "A/f", "A/g"]);
    expect(plannedOf({ action: "Run" }).word).toBe("Runs anew");
    expect(plannedOf({ action: "Else" })).toEqual({ state: "Unknown", word: "Else" });
  });

  it("say what a commit has changed, and which objects are not as it says", () => {
    expect(changedBy({ created: 2, updated: 0, deleted: 1 })).toBe("2 created, 1 deleted");
    expect(changedBy({ created: 0, updated: 0, deleted: 0 })).toBe("");
    const { counts, rest } = inventoryStates([{ object: "A/a", state: "Synced" }, { object: "A/b", state: "Kept" }, { object: "A/c", state: "Synced" }]);
    expect([...counts]).toEqual([["Synced", 2], ["Kept", 1]]);
    expect(rest.map((o) => o.object)).toEqual(["A/b"]);
    expect(inventoryShown("Deleting")).toEqual({ state: "Deleting", word: "Deleting" });
    expect(inventoryShown("WaitingForApproval").word).toBe("Waits for approval");
  });

  it("have problems by file and line, files with errors first", () => {
    const files = filesOf([{ path: "a.yaml", line: 9, message: "w", warning: true }, { path: "b.yaml", line: 7, message: "x", warning: false }, { path: "b.yaml", line: 3, message: "y", warning: false }]);
    expect(files.map((f) => [f.path, f.errors, f.problems.map((p) => p.line)])).toEqual([["b.yaml", 2, [3, 7]], ["a.yaml", 0, [9]]]);
  });
});
