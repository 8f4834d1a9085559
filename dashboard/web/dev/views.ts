// Made-up answers for the views of the grid, the timeline, the lines for room, members and sources.
import type { components } from "../src/api/schema";
import { hostile, random, type Fleet } from "./fleet.ts";
import { Problem, type Handler } from "./answer.ts";
import { filtered } from "./query.ts";

type Schemas = components["schemas"];
type Row = Schemas["Row"];
type Member = Schemas["Member"];
type Amount = Schemas["Amount"];

const GiB = 2 ** 30;
const iso = (ms: number) => new Date(ms).toISOString();
const seedOf = (text: string) => [...text].reduce((sum, c) => (Math.imul(sum, 31) + c.charCodeAt(0)) | 0, 7);
const since = (row: Row) => iso(Math.min(Date.now() - 5_000, Date.parse(row.since)));

/** handlers of these views. */
export const handlers: Record<string, Handler> = {
  "GET /grid": (fleet, { query, cursor }) => grid(fleet, query, cursor),
  "GET /timeline": (fleet, { query, cursor }) => timeline(fleet, query, cursor),
  "GET /queue": (fleet, { cursor }) => ({ lines: lines(fleet), cursor }),
  "GET /miniclusters/*/*/why": (fleet, { params, cursor }) => {
    const row = fleet.rows.find((r) => r.namespace === params[0] && r.name === params[1]);
    return row ? why(fleet, row, cursor) : new Problem(404, "not found");
  },
  "GET /members": (fleet, { cursor }) => ({ items: fleet.members.map((_, i) => memberAt(fleet, i)), cursor }),
  "GET /members/*": (fleet, { params, cursor }) => {
    const index = fleet.members.findIndex((m) => m.name === params[0]);
    return index < 0 ? new Problem(404, "not found") : memberDetail(fleet, index, cursor);
  },
  "POST /members/*/drain": member("Drains: live runs there are evicted, and none begins.", (m) => ({ ...m, draining: true })),
  "POST /members/*/cordon": member("No run begins there any more.", (m) => ({ ...m, cordoned: true })),
  "POST /members/*/uncordon": member("Runs may begin there again.", (m) => ({ ...m, cordoned: false, draining: false, drained: false })),
  "GET /sources": (fleet, { cursor }) => ({ items: fleet.sources.map(source), cursor }),
  "GET /sources/*/*": (fleet, { params, cursor }) => {
    const found = fleet.sources.find((s) => s.namespace === params[0] && s.name === params[1]);
    return found ? { ...source(found), cursor } : new Problem(404, "not found");
  },
  "POST /sources/*/*/sync": () => ({ message: "Asked to read the repository now.", changed: true, dryRun: false }),
  "POST /sources/*/*/approve-prune": approve("prune"),
  "POST /sources/*/*/approve-runs": approve("runs"),
};

function member(message: string, change: (m: Member) => Member): Handler {
  return (fleet, { params, dryRun }) => {
    const index = fleet.members.findIndex((m) => m.name === params[0]);
    if (index < 0) return new Problem(404, "not found");
    if (index === 4) return new Problem(403, `memberclusters.minifleet.dev "${params[0]}" is forbidden: User "ada@example.org" cannot patch resource "memberclusters"`);
    if (!dryRun) fleet.members[index] = change(fleet.members[index]!);
    return { message, changed: true, dryRun };
  };
}

function approve(what: "prune" | "runs"): Handler {
  return (fleet, { params, body, dryRun }) => {
    const found = fleet.sources.find((s) => s.namespace === params[0] && s.name === params[1]);
    if (!found) return new Problem(404, "not found");
    if ((body as { revision?: string } | null)?.revision !== source(found).commit?.hash) return new Problem(409, "the source is at another revision by now: read again what would happen");
    if (!dryRun && what === "prune") found.pruneBlocked = false;
    return { message: `Approved for ${found.commit?.revision}.`, changed: true, dryRun };
  };
}

function grid(fleet: Fleet, query: URLSearchParams, cursor: string): Schemas["Grid"] {
  const rows = filtered(fleet.rows, query).sort((a, b) => (`${a.namespace}/${a.name}` < `${b.namespace}/${b.name}` ? -1 : 1));
  const offset = Number(query.get("offset") ?? 0);
  const most = Number(query.get("revisions") ?? 10);
  const shown = rows.slice(offset, offset + Number(query.get("limit") ?? 200)).map((row): Schemas["GridRow"] => {
    const counts = new Map<string, number>();
    const runs = runsFor(fleet, row).filter((run) => {
      counts.set(run.member, (counts.get(run.member) ?? 0) + 1);
      return counts.get(run.member)! <= most;
    });
    return { namespace: row.namespace, name: row.name, state: row.state, runs };
  });
  const revisions = new Map<string, Schemas["Commit"]>();
  for (const row of shown) for (const run of row.runs) if (run.commit) revisions.set(run.commit.revision, run.commit);
  return {
    columns: fleet.members.map((m) => ({ member: m.name, ...(m.lastHeard ? { staleSince: m.lastHeard } : {}) })).sort((a, b) => (a.member < b.member ? -1 : 1)),
    revisions: [...revisions.values()].sort((a, b) => ((a.time ?? "") < (b.time ?? "") ? 1 : -1)), rows: shown, total: rows.length, cursor,
  };
}

/** runs of a row, as many on each member as the grid needs to be full. */
function runsFor(fleet: Fleet, row: Row): Schemas["Run"][] {
  const runs = fleet.runs(row);
  const next = random(seedOf(row.uid));
  return runs.flatMap((run) => {
    if (!run.id.endsWith("3")) return [run];
    const older = Math.floor(next() * 5);
    const start = Date.parse(run.start ?? "");
    return [run, ...Array.from({ length: older }, (_, k): Schemas["Run"] => {
      const began = start - (k + 1) * 5_400_000;
      const failed = next() < 0.12;
      return { ...run, id: `${run.id}${k}`, state: failed ? "Failed" : "Succeeded", commit: fleet.commits[(fleet.commits.indexOf(run.commit!) + k + 1 + fleet.commits.length) % fleet.commits.length]!, start: iso(began), running: iso(began + 30_000), end: iso(began + 90_000 + Math.pow(next(), 3) * 14_000_000) };
    })];
  });
}

function timeline(fleet: Fleet, query: URLSearchParams, cursor: string): Schemas["Timeline"] {
  const now = Date.now();
  const to = Date.parse(query.get("to") ?? "") || now;
  const from = Date.parse(query.get("from") ?? "") || to - 7_200_000;
  const bars: Schemas["Bar"][] = [];
  for (const row of filtered(fleet.rows, query)) {
    if (row.state === "Waiting" && Date.parse(since(row)) <= to) {
      bars.push({ id: `waiting-${row.uid}`, namespace: row.namespace, name: row.name, member: "", state: "Starting", commit: row.commit!, digest: "", attempt: 0, start: since(row), message: row.why, waiting: true });
    }
    for (const run of fleet.runs(row)) {
      const start = Date.parse(run.start ?? "");
      if (start > to || (run.end && Date.parse(run.end) < from)) continue;
      bars.push({ ...run, waiting: false, ...(run.state === "Unknown" ? { lost: run.staleSince! } : {}), ...(run.state === "Running" && run.id.charCodeAt(1) % 7 === 0 ? { pending: iso(now - 200_000) } : {}) });
    }
  }
  bars.sort((a, b) => ((a.start ?? "") < (b.start ?? "") ? 1 : -1));
  const lanes = new Map<string, Schemas["Lane"]>();
  const wanted = query.getAll("member");
  for (const [i, m] of fleet.members.entries()) {
    if (wanted.length && !wanted.includes(m.name)) continue;
    const { room, lastHeard } = memberAt(fleet, i);
    lanes.set(m.name, { member: m.name, bars: [], ...(room ? { room } : {}), ...(lastHeard ? { staleSince: lastHeard } : {}) });
  }
  for (const bar of bars.slice(0, Number(query.get("limit") ?? 1000)).reverse()) {
    if (!lanes.has(bar.member)) lanes.set(bar.member, { member: bar.member, bars: [] });
    lanes.get(bar.member)!.bars.push(bar);
  }
  return { from: iso(from), to: iso(to), now: iso(now), total: bars.length, lanes: [...lanes.values()].sort((a, b) => (a.member < b.member ? -1 : 1)), cursor };
}

const cpuOf = (row: Row): Amount => ({ cpu: [2, 8, 8, 16, 32][seedOf(row.uid) & 3]!, memory: 16 * GiB, gpus: seedOf(row.uid) % 5 === 0 ? 2 : 0 });

/** lines for room: those that wait stand in the lines of three members each. */
function lines(fleet: Fleet): Schemas["Line"][] {
  const waiting = fleet.rows.filter((r) => r.state === "Waiting");
  const members = fleet.members.filter((_, i) => i % 5 !== 3).slice(0, 16);
  return members.map((m, at): Schemas["Line"] => {
    const standing = waiting.filter((row) => Math.abs(seedOf(row.uid + m.name)) % Math.max(1, members.length) < 3 || row === waiting[0]).sort((a, b) => (a.since < b.since ? -1 : 1));
    return {
      member: m.name, total: standing.length, ...(m.lastHeard ? { staleSince: m.lastHeard, unknown: "the member does not answer" } : {}),
      places: standing.map((row, i): Schemas["Place"] => {
        const hidden = i > 0 && i % 4 === 2;
        if (hidden) return { place: i + 1, hidden, priority: 0, pods: 0, each: { cpu: 0, memory: 0, gpus: 0 }, fits: 0 };
        const each = cpuOf(row);
        const fits = i === 0 && at % 3 === 1 ? row.pods.desired : Math.max(0, row.pods.desired - 1 - (i % 3));
        const ahead = standing[i - 1];
        return {
          place: i + 1, namespace: row.namespace, name: row.name, priority: i === 0 ? 100 : 10, since: since(row), pods: row.pods.desired, each, fits,
          ...(fits < row.pods.desired ? { miss: i === 3 ? hostile[0]! : `${m.name}-node-${String(7 + i).padStart(3, "0")} lacks ${each.gpus ? "1 GPU" : "2 CPU"}` } : { turn: i ? `comes after ${ahead?.name}` : "the reservation of another run ends in 2 min" }),
          ...(i > 0 && ahead ? { behind: (i - 1) % 4 === 2 && i > 1 ? { namespace: "", name: "" } : { namespace: ahead.namespace, name: ahead.name } } : {}),
        };
      }),
    };
  }).filter((line) => line.places.length > 0);
}

function why(fleet: Fleet, row: Row, cursor: string): Schemas["Why"] {
  const of = lines(fleet).filter((line) => line.places.some((p) => p.name === row.name && p.namespace === row.namespace));
  const chosen = row.members.map((member): Schemas["OnMember"] => ({ member, chosen: true, sync: row.sync, health: row.health, state: row.state, pods: row.pods, because: "region=eu-north scores 100; most free CPU scores 62", score: 162, overrides: [], message: row.why, ...(row.staleSince ? { staleSince: row.staleSince } : {}) }));
  const rejected = [{ member: "dolomite", reason: "0 of 8 GPUs are free" }, { member: "tuff", reason: hostile[0]! }, { member: "marble", reason: "taint maintenance:NoSchedule is not tolerated" }, { member: "cinder", reason: "does not answer" }, { member: "slate", reason: hostile[2]! }];
  if (row.state !== "Waiting") return { sentence: row.why || `It ${row.state.toLowerCase()}.`, state: row.state, chosen, rejected: rejected.slice(0, 3), gangs: [], cursor };
  const line = of[0];
  const place = line?.places.find((p) => p.name === row.name);
  return {
    sentence: line ? `It starts when 2 more CPU are free on node-007 of ${line.member}${place && place.place > 1 ? `, after ${place.behind?.name || "another MiniCluster"} has started` : ""}. dolomite has no GPU free; cinder does not answer.` : row.why,
    state: row.state, ...(line ? { line } : {}), chosen, rejected, cursor,
    gangs: of.slice(0, 3).map((l, i) => gang(l.member, row, i)),
  };
}

function gang(memberName: string, row: Row, index: number): Schemas["GangFit"] {
  const each = cpuOf(row);
  const next = random(seedOf(row.uid + memberName));
  if (index === 2) return { member: memberName, pods: row.pods.desired, fits: 0, each, nodes: [], total: 0, unknown: "the member does not answer" };
  const total = each.gpus ? { cpu: 64, memory: 256 * GiB, gpus: 4 } : { cpu: index ? 128 : 16 + (each.cpu > 16 ? 32 : 0), memory: 128 * GiB, gpus: 0 };
  let left = Math.max(0, row.pods.desired - 1);
  const count = Math.min(200, row.pods.desired + 5);
  const nodes = Array.from({ length: count }, (_, i): Schemas["NodeFit"] => {
    const name = `${memberName}-node-${String(i + 4).padStart(3, "0")}`;
    if (i >= count - 2) return { node: name, pods: 0, free: { ...total }, total, excluded: i === count - 1 ? "cordoned" : "taint nvidia.com/gpu:NoSchedule is not tolerated" };
    const most = each.gpus ? Math.floor(total.gpus / each.gpus) : Math.floor(total.cpu / each.cpu);
    const pods = Math.min(left, i < count - 4 ? Math.max(1, Math.floor(next() * most)) : 0);
    left -= pods;
    const used = Math.min(total.cpu, pods * each.cpu + Math.floor(next() * Math.max(1, each.cpu - 1)));
    const free = { cpu: used, memory: (40 + next() * 60) * GiB, gpus: each.gpus ? Math.min(total.gpus, pods * each.gpus + (next() < 0.5 ? 1 : 0)) : 0 };
    return { node: name, pods, free, total, ...(pods === 0 ? { lacks: each.gpus ? "1 GPU" : `${each.cpu - free.cpu % each.cpu} CPU` } : {}) };
  });
  return { member: memberName, pods: row.pods.desired, fits: row.pods.desired - 1, each, nodes, total: count };
}

/** memberAt is a member in one of the states that there are. */
function memberAt(fleet: Fleet, index: number): Member {
  const { room, ...m } = fleet.members[index]!;
  if (!m.ready) return { ...m, ...(index === 33 ? { reason: "Forbidden", message: "nodes is forbidden: User \"minifleet\" cannot list resource \"nodes\" at the cluster scope" } : {}) };
  const more = ({
    8: { draining: true }, 9: { draining: true, drained: true }, 11: { ready: false, reason: "Fenced", message: "another hub leads the fleet on this member", lastHeard: iso(Date.now() - 71_000) },
    12: { deleting: true }, 13: { unowned: 2, orphans: 1 }, 14: { labels: { ...m.labels, "example.org/a-very-long-label-of-somebody": "with-a-value-that-is-as-long-as-a-value-may-be-and-then-some-63", "example.org/rack": "r7" } },
  } as Record<number, Partial<Member>>)[index];
  return { ...m, ...(index === 11 ? {} : room ? { room } : {}), ...more };
}

function memberDetail(fleet: Fleet, index: number, cursor: string): Schemas["MemberDetail"] {
  const m = memberAt(fleet, index);
  const next = random(index + 99);
  const count = index === 0 ? 2400 : (fleet.members[index]!.room?.nodes ?? 4);
  const gpus = index % 3 === 0 ? 4 : 0;
  const nodes = !m.ready ? [] : Array.from({ length: count }, (_, i): Schemas["Node"] => {
    const total = { cpu: 32, memory: 128 * GiB, gpus };
    const busy = next() < 0.2 ? 1 : next() < 0.2 ? 0 : next();
    return {
      name: i === 5 ? "ip-10-4-0-9.a-long-name-of-a-node.eu-north-1.compute.internal" : `${m.name}-node-${String(i).padStart(4, "0")}`, total,
      free: { cpu: Math.round((1 - busy) * 32), memory: (1 - busy * next()) * 128 * GiB, gpus: Math.floor(gpus * (1 - busy)) },
      unschedulable: i % 41 === 7, taints: i % 37 === 3 ? [{ key: "nvidia.com/gpu", value: "present", effect: "NoSchedule" }] : [],
    };
  });
  const runs = fleet.rows.filter((r) => r.members.includes(m.name)).flatMap((r) => fleet.runs(r)).filter((r) => r.member === m.name && !r.end);
  const line = lines(fleet).find((l) => l.member === m.name) ?? { member: m.name, places: [], total: 0, ...(m.lastHeard ? { staleSince: m.lastHeard } : {}) };
  const action = (name: Schemas["Action"]["name"], effect: string, enabled: boolean, reason = ""): Schemas["Action"] => ({ name, effect, enabled, ...(enabled ? {} : { reason }) });
  const live = runs.length;
  return {
    ...m, live, waiting: line.places.length, nodes, ...(m.ready ? {} : { nodesError: m.message }), runs, line, cursor,
    conditions: [{ type: "Ready", status: m.ready ? "True" : "False", reason: m.reason, message: m.message || "the member answers", since: m.since }, ...(m.draining ? [{ type: "Drained", status: m.drained ? "True" : "False", reason: m.drained ? "Drained" : "Evicting", message: `${live} runs are still live`, since: m.since } as const] : [])],
    unownedJobs: m.unowned ? [{ namespace: "physics", name: "old-hpcg-7f2a9", owner: "physics/old-hpcg", run: "7f2a9", since: iso(Date.now() - 7_200_000) }, { namespace: "bench", name: "x".repeat(60), since: iso(Date.now() - 86_400_000 * 3) }] : [],
    actions: [
      action("drain", `evicts ${live} live runs, which begin again on other members where their placement allows it, and lets none begin here until it is uncordoned`, !m.draining, "It is being drained."),
      action("cordon", `lets no run begin here; the ${live} that are live go on`, !m.cordoned, "It is cordoned."),
      action("uncordon", "lets runs begin here again", m.cordoned || m.draining, "It is not cordoned."),
    ],
  };
}

/** source with everything that one can have. */
function source(of: Schemas["SourceDetail"]): Schemas["SourceDetail"] {
  const nightly = of.name === "nightly";
  return {
    ...of, runsBlocked: nightly, runsAnew: nightly ? Array.from({ length: 14 }, (_, i) => `FleetMiniCluster/sweep-${i}`) : [], pruneLiveRuns: of.pruneBlocked ? 3 : 0,
    prune: of.pruneBlocked ? [...Array.from({ length: 12 }, (_, i) => `FleetMiniCluster/old-sweep-${i}`), `Placement/${"a".repeat(60)}`] : [],
    problems: of.problemList.length,
    conditions: [{ type: "Ready", status: of.ready ? "True" : "False", reason: of.reason, message: of.message || "applied", since: of.since }],
    actions: [
      { name: "sync", effect: "reads the repository now; what has changed there is applied", enabled: true },
      { name: "approve-prune", effect: `deletes 13 objects of ${of.commit?.revision}, which stops 3 live runs; later revisions are not approved by this`, enabled: of.pruneBlocked, reason: "Nothing is blocked." },
      { name: "approve-runs", effect: `lets 14 MiniClusters run anew at ${of.commit?.revision}`, enabled: nightly, reason: "Nothing is blocked." },
    ],
  };
}
