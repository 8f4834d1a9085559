import type { IncomingMessage, ServerResponse } from "node:http";
import type { components } from "../src/api/schema";
import { hostile, type Fleet } from "./fleet.ts";
import { Problem, type Handler } from "./answer.ts";

type Schemas = components["schemas"];
type Row = Schemas["Row"];
type TreeNode = Schemas["TreeNode"];

const at = (fleet: Fleet, params: string[]): Row | undefined => fleet.rows.find((r) => r.namespace === params[0] && r.name === params[1]);
const of = (make: (fleet: Fleet, row: Row, cursor: string) => unknown): Handler => (fleet, { params, cursor }) => {
  const row = at(fleet, params);
  return row ? make(fleet, row, cursor) : new Problem(404, "not found");
};

/** handlers of one MiniCluster, and of actions on it. */
export const handlers: Record<string, Handler> = {
  "GET /miniclusters/*/*": of(miniCluster),
  "GET /miniclusters/*/*/tree": of(tree),
  "GET /miniclusters/*/*/events": of((_, row) => ({ items: events(row) })),
  "GET /miniclusters/*/*/diff": of((_, row) => ({ items: differences(row) })),
  "GET /miniclusters/*/*/manifest": of((_, row) => ({ yaml: manifest(row) })),
  "POST /miniclusters/*/*/rerun": act("Asked for a new run.", (row) => ({ state: "Starting", why: "0 of 4 pods ready", since: new Date().toISOString(), pods: { ...row.pods, ready: 0, succeeded: 0 } })),
  "POST /miniclusters/*/*/cancel": act("Asked to cancel 1 run.", () => ({ state: "Stopping", since: new Date().toISOString() })),
  "POST /miniclusters/*/*/suspend": act("Held: live runs are suspended, and none begins.", () => ({ state: "Suspended", since: new Date().toISOString() })),
  "POST /miniclusters/*/*/resume": act("Resumed.", () => ({ state: "Starting", since: new Date().toISOString() })),
  "POST /miniclusters/*/*/scale": act("Asked for another number of pods.", () => ({})),
  "POST /miniclusters/*/*/run-gone": act("1 run is declared gone.", () => ({ state: "Failed", since: new Date().toISOString() })),
  "POST /miniclusters": (fleet, { body, dryRun }) => {
    const start = body as Schemas["Start"];
    if (start.name === "taken") return new Problem(409, `fleetminiclusters.minifleet.dev "taken" already exists`);
    const name = start.name || `${start.generateName ?? "run-"}x7f2q`;
    if (!dryRun) fleet.rows.unshift({ ...fleet.rows[0]!, namespace: start.namespace, name, state: "Waiting", why: "Chooses members", members: [], touched: true } as Row);
    return { namespace: start.namespace, name, url: `/api/v1/miniclusters/${start.namespace}/${name}`, page: `/miniclusters/${start.namespace}/${name}`, created: !dryRun, dryRun };
  },
};

function act(message: string, change: (row: Row) => Partial<Row>): Handler {
  return (fleet, { params, dryRun }) => {
    const index = fleet.rows.findIndex((r) => r.namespace === params[0] && r.name === params[1]);
    const row = fleet.rows[index];
    if (!row) return new Problem(404, "not found");
    if (row.namespace === "teaching") return new Problem(403, `fleetminiclusters.minifleet.dev "${row.name}" is forbidden: User "ada@example.org" cannot patch resource "fleetminiclusters" in API group "minifleet.dev" in the namespace "teaching"`);
    if (!dryRun) fleet.rows[index] = { ...row, ...change(row), touched: true } as Row;
    return { message, changed: true, dryRun };
  };
}

function miniCluster(fleet: Fleet, row: Row, cursor: string): Schemas["MiniCluster"] {
  const runs = fleet.runs(row);
  const live = runs.filter((r) => !r.end);
  const stale = (name: string) => fleet.members.find((m) => m.name === name)?.lastHeard;
  const action = (name: Schemas["Action"]["name"], effect: string, enabled: boolean, reason = "", ids: string[] = []): Schemas["Action"] => ({ name, effect, enabled, ...(enabled ? {} : { reason }), ...(ids.length ? { runs: ids } : {}) });
  return {
    ...row, size: row.pods.desired, maxSize: row.pods.desired * 2, tasks: row.pods.desired * 8, images: ["ghcr.io/example/lammps:2024.6"], command: `lmp -v x 2 -v y 2 -in in.reaxc.hns ${row.name.length > 50 ? hostile[0] : ""}`,
    priority: 10, onChange: "AfterCompletion", retries: 2, sourcePath: `miniclusters/${row.name}.yaml:1`, labels: { app: row.name.split("-")[0]!, "example.org/deadline": "true" },
    conditions: [{ type: "Ready", status: row.state === "Invalid" ? "False" : "True", reason: row.state, message: row.why, since: row.since }],
    onMembers: row.members.map((member) => ({ member, chosen: true, sync: row.sync, health: row.health, state: row.state, pods: row.pods, because: "region=eu-north scores 100; most free CPU scores 62", score: 162, overrides: [], run: runs.find((r) => r.member === member)?.id ?? "", message: row.why, ...(stale(member) ? { staleSince: stale(member)! } : {}) })),
    wanted: Math.max(1, row.members.length),
    rejected: [{ member: "basalt", reason: "0 of 8 GPUs are free" }, { member: "tuff", reason: hostile[0]! }], waitingFor: row.state === "Waiting" ? [{ member: "basalt", reason: "3 of 4 pods fit; node-7 lacks 2 CPU" }] : [],
    runs, cursor, mayReadLogs: row.namespace !== "teaching",
    actions: [
      action("rerun", live.length ? "Nothing stops. When the live run has ended, it runs again with the same commit." : `Runs ${row.name} again at ${row.commit?.revision}, on ${row.members.join(", ") || "members that its placement chooses"}.`, row.state !== "Invalid", "Correct the object first."),
      action("cancel", `Stops ${live.length} live run: its ${row.pods.desired} pods are deleted. What it has computed and not saved is lost. It does not run again by itself.`, live.length > 0, "Nothing is live.", live.map((r) => r.id)),
      row.state === "Suspended" ? action("resume", "The same runs go on.", true) : action("suspend", "Holds it: the pods of live runs end, and none begins until it is resumed. Git does not undo this.", row.state !== "Succeeded", "It has ended."),
      action("scale", "Changes the number of pods in place, up to 2 × its size; nothing is restarted.", live.length > 0, "Nothing is live."),
      action("run-gone", "Says that no pod of the run runs any more, which nobody can check while its member does not answer. The same work may then start elsewhere: if a pod still runs, it runs twice.", row.state === "Unknown", "Every member answers.", row.state === "Unknown" ? live.map((r) => r.id) : []),
    ],
  };
}

function tree(fleet: Fleet, row: Row): TreeNode {
  const node = (kind: TreeNode["kind"], name: string, more: Partial<TreeNode> = {}, children: TreeNode[] = []): TreeNode => ({ id: `${kind}/${name}`, kind, name, children, ...more });
  const member = (name: string): TreeNode => {
    const stale = fleet.members.find((m) => m.name === name)?.lastHeard;
    const pods: TreeNode[] = row.pods.desired > 40
      ? [node("Pods", `${name}/Running`, { state: "Running", count: row.pods.ready }), node("Pods", `${name}/Pending`, { state: "Pending", count: row.pods.desired - row.pods.ready })]
      : Array.from({ length: row.pods.desired }, (_, i) => node("Pod", `${row.name}-${i}`, { id: `Pod/${name}/${i}`, rank: i, node: `${name}-node-${i % 7}`, state: stale ? "Unknown" : row.state === "Succeeded" ? "Succeeded" : i < row.pods.ready ? "Running" : row.state === "Failed" ? (i === 0 ? "Failed" : "Succeeded") : "Pending", ...(row.state === "Failed" && i === 0 ? { text: "exit 4: need 2 node(s) with 4 cores each" } : {}), since: row.since }));
    return node("Member", name, { state: row.state, link: `/members/${name}`, ...(stale ? { staleSince: stale, text: "does not answer" } : {}) }, [
      node("Job", row.name, { id: `Job/${name}`, state: row.state, text: `${row.pods.ready + row.pods.succeeded} of ${row.pods.desired} pods` }, pods),
      node("Object", `ConfigMap ${row.name}-flux`, { id: `ConfigMap/${name}`, text: "Synced" }),
      node("Object", `Secret ${row.name}-curve`, { id: `Secret/${name}`, text: "2 keys, not shown" }),
    ]);
  };
  const cluster = node("MiniCluster", row.name, { state: row.state, text: `miniclusters/${row.name}.yaml:1`, since: row.since }, [
    ...row.members.map(member),
    node("Rejected", "basalt", { text: "0 of 8 GPUs are free", link: "/members/basalt" }),
    node("Rejected", "tuff", { text: hostile[0]! }),
  ]);
  const source = node("Source", row.source ?? "", { state: "Synced", link: `/sources/${row.namespace}/${row.source}` }, [cluster]);
  return node("Commit", row.commit?.subject ?? "", { text: `${row.commit?.revision} by ${row.commit?.author}`, ...(row.commit?.time ? { since: row.commit.time } : {}) }, [source]);
}

function events(row: Row): Schemas["Event"][] {
  const make = (minutes: number, type: "Normal" | "Warning", reason: string, message: string, count = 1): Schemas["Event"] => ({ time: new Date(Date.now() - minutes * 60_000).toISOString(), first: new Date(Date.now() - (minutes + count) * 60_000).toISOString(), count, type, reason, message });
  return [
    make(1, "Normal", "RunStarted", `Run started on ${row.members[0] ?? "alpine"}`), make(4, "Warning", "NoRoom", "basalt: 3 of 4 pods fit; node-7 lacks 2 CPU", 17),
    make(9, "Warning", "Hostile", hostile[0]!), make(12, "Normal", "Placed", "alpine was chosen: region=eu-north scores 100"), make(30, "Normal", "Applied", `Applied ${row.commit?.revision}`),
  ];
}

function differences(row: Row): Schemas["Difference"][] {
  const member = row.members[0] ?? "alpine";
  const job = (parallelism: number, image: string) => `apiVersion: batch/v1\nkind: Job\nmetadata:\n  name: ${row.name}\n  namespace: ${row.namespace}\nspec:\n  completionMode: Indexed\n  completions: ${row.pods.desired}\n  parallelism: ${parallelism}\n  template:\n    spec:\n      containers:\n        - name: lammps\n          image: ${image}\n          resources:\n            limits:\n              cpu: "8"\n      restartPolicy: Never\n      subdomain: ${row.name}\n`;
  return [
    { member, kind: "Job", namespace: row.namespace, name: row.name, state: "Different", desired: job(row.pods.desired, "ghcr.io/example/lammps:2024.6"), live: job(row.pods.desired - 1, "ghcr.io/example/lammps:2024.5"), message: "spec.parallelism was changed by kubectl" },
    { member, kind: "ConfigMap", namespace: row.namespace, name: `${row.name}-flux`, state: "Same", desired: "data: {}\n", live: "data: {}\n" },
    { member, kind: "Secret", namespace: row.namespace, name: `${row.name}-curve`, state: "Different", desired: "keys: [curve.cert]\n", live: "keys: [curve.cert, extra]\n", message: "Values are not shown." },
    { member, kind: "Service", namespace: row.namespace, name: row.name, state: "Missing", desired: `apiVersion: v1\nkind: Service\nmetadata:\n  name: ${row.name}\nspec:\n  clusterIP: None\n` },
  ];
}

function manifest(row: Row): string {
  return `apiVersion: minifleet.dev/v1alpha1\nkind: FleetMiniCluster\nmetadata:\n  name: ${row.name}\n  namespace: ${row.namespace}\n  annotations:\n    example.org/note: ${JSON.stringify(hostile[1])}\nspec:\n  miniCluster:\n    size: ${row.pods.desired} # pods\n    containers:\n      - image: ghcr.io/example/lammps:2024.6\n        command: lmp -v x 2 -v y 2\n        launcher: false\n  placement:\n    numberOfClusters: 1\nstatus:\n  state: ${row.state}\n`;
}

/** logs streams lines, and one more each second if they are followed. */
export function logs(fleet: Fleet, url: URL, request: IncomingMessage, response: ServerResponse): void {
  const [, , , , namespace = "", name = ""] = url.pathname.split("/");
  const row = at(fleet, [namespace, name].map(decodeURIComponent));
  response.writeHead(row ? 200 : 404, { "Content-Type": "application/x-ndjson" });
  const since = Date.parse(url.searchParams.get("since") ?? "");
  const line = (i: number, time: number) => JSON.stringify({ time: new Date(time).toISOString(), text: i % 50 === 7 ? hostile[(i / 50) % hostile.length | 0] : i % 61 === 9 ? "ERROR: rank 3 cannot reach the file system" : `Step ${i * 100} Temp 300.${i % 97} E_pair -113.27 TotEng -111.7 Press 437.5` }) + "\n";
  const tail = Number(url.searchParams.get("tail") ?? 1000);
  if (Number.isNaN(since)) for (let i = 0; i < tail; i++) response.write(i === 3 ? `${JSON.stringify({ lost: 214 })}\n` : line(i, Date.now() - (tail - i) * 1000));
  if (url.searchParams.get("follow") !== "true" || row?.state !== "Running") {
    response.end(`${JSON.stringify({ end: "ended" })}\n`);
    return;
  }
  let i = tail;
  const timer = setInterval(() => response.write(line(i++, Date.now())), 250);
  request.on("close", () => clearInterval(timer));
}
