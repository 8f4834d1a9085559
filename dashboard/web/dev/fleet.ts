// A made-up fleet for developing and for looking at the page: the same one for the same seed.
import type { components } from "../src/api/schema";

type Schemas = components["schemas"];
type Row = Schemas["Row"];
type Run = Schemas["Run"];
type Commit = Schemas["Commit"];
type Member = Schemas["Member"];
type SourceDetail = Schemas["SourceDetail"];

/** random numbers from 0 to 1, the same for the same seed. */
export function random(seed: number): () => number {
  return () => {
    seed = (seed + 0x6d2b79f5) | 0;
    let t = Math.imul(seed ^ (seed >>> 15), 1 | seed);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}

const applications = ["hpcg", "hpcg-large", "osu-allreduce", "lammps-reaxff", "elastic-ensemble", "parameter-sweep", "ior", "gromacs-water", "nekrs-turb", "amg-solve", "quicksilver", "minife", "kripke", "laghos", "mfem-ex", "wrf-conus"];
const namespaces = ["physics", "climate", "bench", "chemistry", "genomics", "teaching"];
const stones = ["alpine", "basalt", "cinder", "dolomite", "ember", "flint", "granite", "hematite", "iolite", "jasper", "karst", "lava", "marble", "nephrite", "obsidian", "pumice", "quartz", "rhyolite", "slate", "tuff"];
const subjects = ["Simulate a larger box", "Sweep message sizes", "Pin HPCG image", "Use 8 cores a pod", "Add a checkpoint every hour", "Retry on node loss", "Ask for GPUs", "Raise priority for the deadline", "Move to the new file system", "Fix the input deck"];
const people = ["Ada Okafor", "Ben Lindqvist", "Chiyo Tanaka", "Dara Novak", "Émile Durand"];
/** Text that people might try: it must be shown as it is, and break nothing. */
export const hostile = [
  `<img src=x onerror="alert(1)">`,
  `"><script>alert(document.cookie)</script>`,
  "A".repeat(300),
  "\u202Egnp.exe\u202C right to left",
  "javascript:alert(1)",
  "Z̸̢̛a̵l̶g̷o̴ text 𝕱𝖗𝖆𝖐𝖙𝖚𝖗 👩‍👩‍👧‍👦",
  "${7*7} {{7*7}} %s%n ' OR 1=1 --",
];

export interface Fleet {
  rows: Row[];
  members: Member[];
  sources: SourceDetail[];
  commits: Commit[];
  /** runs of a MiniCluster, latest first. */
  runs(row: Row): Run[];
  started: number;
}

const iso = (ms: number) => new Date(ms).toISOString();
const hash = (next: () => number) => Array.from({ length: 40 }, () => Math.floor(next() * 16).toString(16)).join("");

/** makeFleet of so many MiniClusters and members, as of a time in milliseconds. */
export function makeFleet(miniClusters = 2000, memberCount = 50, now = Date.now(), seed = 11): Fleet {
  const next = random(seed);
  const pick = <T>(of: readonly T[]): T => of[Math.floor(next() * of.length)] as T;
  const commits = Array.from({ length: 24 }, (_, i): Commit => {
    const h = hash(next);
    return { revision: `main@${h.slice(0, 7)}`, hash: h, subject: i === 5 ? hostile[1]! : i === 9 ? hostile[2]! : pick(subjects), author: i === 5 ? hostile[0]! : pick(people), time: iso(now - i * 47 * 60_000 - 120_000) };
  });
  const members = Array.from({ length: memberCount }, (_, i) => makeMember(i, now, next));
  const reachable = members.filter((m) => m.ready);
  const unreachable = members.filter((m) => !m.ready);
  const rows = Array.from({ length: miniClusters }, (_, i): Row => {
    const chance = next();
    const state = chance < 0.66 ? "Succeeded" : chance < 0.83 ? "Running" : chance < 0.87 ? "Waiting" : chance < 0.89 ? "Starting" : chance < 0.92 ? "Failed" : chance < 0.94 ? "Suspended" : chance < 0.98 ? "Unknown" : chance < 0.985 ? "Cancelled" : chance < 0.99 ? "Stopping" : chance < 0.995 ? "Invalid" : "Deleting";
    const desired = pick([1, 2, 4, 4, 8, 16, 32, 128]);
    const where = state === "Waiting" || state === "Invalid" ? [] : Array.from(new Set(Array.from({ length: next() < 0.2 ? 3 : 1 }, () => pick(state === "Unknown" ? unreachable : reachable).name)));
    const app = pick(applications);
    const since = now - Math.floor(Math.pow(next(), 3) * 5 * 86_400_000) - 20_000;
    const stale = state === "Unknown" ? unreachable.find((m) => m.name === where[0])?.lastHeard : undefined;
    const partly = state === "Starting" ? Math.floor(next() * desired) : desired;
    return {
      namespace: pick(namespaces), name: i === 3 ? "a".repeat(58) : `${app}-${String(i).padStart(4, "0")}`, uid: hash(next).slice(0, 32), state,
      sync: state === "Unknown" ? "Unknown" : state === "Invalid" ? "OutOfSync" : "Synced",
      health: state === "Failed" || state === "Invalid" ? "Degraded" : state === "Unknown" ? "Unknown" : state === "Succeeded" ? "Healthy" : "Progressing",
      why: i % 97 === 4 ? hostile[i % hostile.length]! : why(state, desired, where[0] ?? "", partly, next),
      ...(state === "Waiting" ? { place: 1 + Math.floor(next() * 12) } : {}),
      pods: { desired, ready: ["Running", "Unknown", "Stopping"].includes(state) ? desired : state === "Starting" ? partly : 0, succeeded: state === "Succeeded" ? desired : 0, failed: state === "Failed" ? 1 : 0 },
      members: where, source: pick(["fleet", "fleet", "fleet", "nightly", "course"]), commit: pick(commits), since: iso(since), created: iso(since - 3_600_000),
      ...(stale ? { staleSince: stale } : {}),
    };
  });
  return { rows, members, sources: makeSources(commits, rows, now), commits, started: now, runs: (row) => runsOf(row, commits, members, now) };
}

const failures = [
  "lammps-0: exit 4: need 2 node(s) with 4 cores each, and there is one", "rank 3 was OOMKilled: it used 64 GiB of 64 GiB",
  "exit 137 on granite-node-4 after 41 min; retried twice", "ImagePullBackOff: ghcr.io/example/amg:nightly: not found", "Its pods did not all run within 30 min",
];

function why(state: string, desired: number, member: string, ready: number, next: () => number): string {
  switch (state) {
    case "Failed": return failures[desired % failures.length] ?? "";
    case "Waiting": return `basalt: ${Math.max(0, desired - 1)} of ${desired} pods fit; node-${1 + Math.floor(next() * 60)} lacks 2 CPU; behind hpcg-large`;
    case "Unknown": return `${member} does not answer; it was running, and is not repeated elsewhere`;
    case "Starting": return `${ready} of ${desired} pods ready`;
    case "Running": return `${desired} of ${desired} pods ready`;
    case "Succeeded": return `${1 + Math.floor(next() * 90)} min on ${member}`;
    case "Invalid": return "spec.miniCluster.containers: at least one container is required";
    case "Suspended": return "Held by a person; live runs are suspended";
    case "Stopping": return `Its pods on ${member} are being deleted, because it was cancelled`;
    default: return "";
  }
}

function makeMember(i: number, now: number, next: () => number): Member {
  const name = i < stones.length ? stones[i]! : `${stones[i % stones.length]}-${Math.floor(i / stones.length) + 1}`;
  const ready = ![2, 17, 33].includes(i);
  const nodes = 4 + Math.floor(next() * 40);
  const cpu = nodes * 32;
  const gpus = i % 3 === 0 ? nodes * 4 : 0;
  const heard = iso(now - (i === 2 ? 4 * 60_000 : i * 340_000));
  return {
    name, ready, reason: ready ? "Connected" : "Unreachable", message: ready ? "" : i === 17 ? hostile[0]! : "dial tcp 10.4.0.9:6443: i/o timeout",
    labels: { region: i % 2 ? "eu-north" : "us-west", "minifleet.dev/tier": i % 5 ? "batch" : "gpu" }, taints: i % 9 === 4 ? [{ key: "maintenance", effect: "NoSchedule" }] : [],
    version: "v1.36.4", cordoned: i % 13 === 6, draining: i === 8, drained: false, deleting: false,
    room: { nodes, free: { cpu: Math.floor(cpu * next()), memory: nodes * 128 * 2 ** 30 * next(), gpus: Math.floor(gpus * next()) }, total: { cpu, memory: nodes * 128 * 2 ** 30, gpus } },
    live: Math.floor(next() * 9), waiting: Math.floor(next() * 4), ...(ready ? {} : { lastHeard: heard }), unowned: 0, orphans: 0, since: iso(now - 86_400_000),
  };
}

const planned: SourceDetail["planned"] extends infer P ? (P extends { changes: infer C } ? C : never) : never = [
  { object: "FleetMiniCluster/quicksilver", action: "Create", path: "miniclusters/quicksilver.yaml", needsApproval: false },
  { object: "FleetMiniCluster/lammps", action: "Run", path: "miniclusters/lammps.yaml", needsApproval: true, message: "spec.size changes from 8 to 16" },
  { object: "FleetMiniCluster/hpcg", action: "Delete", path: "miniclusters/hpcg.yaml", needsApproval: false, message: "1 live run is stopped" },
  { object: "Placement/south", action: "Update", path: "placements.yaml", needsApproval: false },
  { object: `FleetMiniCluster/${hostile[0]!}`, action: "Refuse", path: hostile[0]!, needsApproval: false, message: hostile[0]! },
];

function applied(c: Commit, j: number, i: number): SourceDetail["commits"][number] {
  return { ...c, applied: c.time!, signedBy: i === 0 ? ["ssh-ed25519 SHA256:Zk0b1r9Qd5n1oVw8YxU2m3t4c5v6b7n8m9q0w1e2r3t"] : [], created: j % 3, updated: j % 2, deleted: j === 4 ? 1 : 0, changed: j % 3 ? ["+FleetMiniCluster/amg", "~Placement/south"] : [] };
}

function makeSources(commits: Commit[], rows: Row[], now: number): SourceDetail[] {
  const make = (namespace: string, name: string, i: number): SourceDetail => ({
    namespace, name, url: `https://git.example.org/hpc/${name}.git`, path: "miniclusters", ref: "main", ready: i !== 1, reason: i === 1 ? "PruneBlocked" : "Synced",
    message: i === 1 ? "12 MiniClusters would be deleted: approve it, or restore the files" : "", suspended: false, dryRun: i === 2, ...(i === 0 ? { verify: "HEAD" } : {}), commit: commits[i]!,
    miniClusters: rows.filter((r) => r.source === name).length, problems: i === 1 ? 2 : 0, pruneBlocked: i === 1, runsBlocked: false, since: iso(now - 600_000),
    conditions: [], commits: commits.slice(i, i + 10).map((c, j) => applied(c, j, i)), ...(i === 1 ? { attempted: applied(commits[0]!, 0, 1) } : {}), ...(i === 2 ? { planned: { commit: applied(commits[0]!, 0, 2), total: 5, changes: planned } } : {}),
    inventory: i === 0 ? [{ object: "FleetMiniCluster/amg", path: "miniclusters/amg.yaml", state: "Synced" }, { object: "FleetMiniCluster/ior", path: "miniclusters/ior.yaml", state: "OutOfSync" }, { object: "FleetMiniCluster/old", path: "miniclusters/old.yaml", state: "Kept" }, { object: "Placement/south", path: "placements.yaml", state: "Synced" }] : [], objects: i === 0 ? 4 : 0, prune: i === 1 ? ["FleetMiniCluster/hpcg-old", "FleetMiniCluster/ior-old"] : [], pruneLiveRuns: i === 1 ? 1 : 0, runsAnew: [],
    problemList: i === 1 ? [{ path: "miniclusters/ior.yaml", line: 14, object: "MiniCluster/ior", field: "spec.size", message: "must be at least 1", warning: false }, { path: "miniclusters/x.yaml", line: 3, message: hostile[0]!, warning: true }] : [],
    actions: [{ name: "sync", effect: "Reads the repository now. What has changed there is applied.", enabled: true }], cursor: "0",
  });
  return [make("physics", "fleet", 0), make("bench", "nightly", 1), make("teaching", "course", 2)];
}

function runsOf(row: Row, commits: Commit[], members: Member[], now: number): Run[] {
  const next = random(parseInt(row.uid.slice(0, 7), 16));
  const runs: Run[] = [];
  const live = ["Running", "Starting", "Stopping", "Unknown", "Suspended"].includes(row.state);
  const first = Math.max(0, commits.indexOf(row.commit!));
  row.members.forEach((member) => {
    const staleSince = members.find((m) => m.name === member)?.lastHeard;
    for (let k = 0; k < 4; k++) {
      const current = k === 0;
      const start = Math.min(Date.parse(row.since), now) - k * 7_200_000 - 600_000;
      const state = current ? (row.state === "Suspended" || row.state === "Unknown" ? row.state : live || ["Failed", "Cancelled"].includes(row.state) ? row.state : "Succeeded") : next() < 0.15 ? "Failed" : next() < 0.1 ? "Replaced" : "Succeeded";
      const ended = !current || !live;
      runs.push({
        id: `${row.uid.slice(0, 6)}${member.slice(0, 2)}${k}`, namespace: row.namespace, name: row.name, member, state: state as Run["state"],
        commit: k === 2 ? { revision: "main@0ldc0de" } : commits[(first + k) % commits.length]!, digest: "sha256:" + row.uid, attempt: current && state === "Failed" ? 2 : 0,
        start: iso(start), ...(state === "Starting" ? { pending: iso(start) } : { running: iso(start + 40_000) }), ...(ended ? { end: iso(Math.min(start + 600_000 + next() * 3_000_000, now)) } : {}),
        ...(state === "Failed" ? { message: row.state === "Failed" && current ? row.why : "lammps-0: exit 4: need 2 node(s) with 4 cores each", exit: { pod: `${row.name}-0`, container: "lammps", code: 4, reason: "Error", message: "need 2 node(s) with 4 cores each\n" + hostile[0] } } : {}),
        ...(state === "Replaced" ? { stop: "Changed", message: "The MiniCluster has changed" } : {}),
        ...(staleSince && !ended ? { staleSince } : {}), ...(k === 3 ? { remembered: true } : {}),
      });
    }
  });
  return runs.sort((a, b) => Date.parse(b.start ?? "") - Date.parse(a.start ?? ""));
}
