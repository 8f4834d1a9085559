import type { AppliedCommit, FileProblem, PlannedChange, Row, Source, SourceDetail } from "../../api/types";

/** Shown is how a source is said to be: a state of <State> and the word for it. */
export interface Shown {
  state: string;
  word: string;
}

export function shownOf(s: Pick<Source, "ready" | "reason" | "suspended" | "dryRun" | "pruneBlocked" | "runsBlocked" | "problems">): Shown {
  if (s.suspended) return { state: "Suspended", word: "Suspended" };
  if (s.pruneBlocked || s.runsBlocked) return { state: "Waiting", word: "Waits for approval" };
  if (!s.ready) return s.reason === "Reconciling" || s.reason === "Progressing" ? { state: "Running", word: "Reading" } : { state: "Failed", word: s.reason || "Not ready" };
  if (s.dryRun) return { state: "Pending", word: "Dry run" };
  if (s.problems > 0) return { state: "Invalid", word: "Has problems" };
  return { state: "Synced", word: "Synced" };
}

/** File with what is wrong in it, by line. */
export interface File {
  path: string;
  problems: FileProblem[];
  errors: number;
}

/** filesOf problems, those with errors first. */
export function filesOf(problems: readonly FileProblem[]): File[] {
  const files = new Map<string, File>();
  for (const problem of problems) {
    const file = files.get(problem.path) ?? { path: problem.path, problems: [], errors: 0 };
    files.set(problem.path, file);
    file.problems.push(problem);
    if (!problem.warning) file.errors++;
  }
  for (const file of files.values()) file.problems.sort((a, b) => (a.line ?? 0) - (b.line ?? 0));
  return [...files.values()].sort((a, b) => Number(b.errors > 0) - Number(a.errors > 0) || (a.path < b.path ? -1 : 1));
}

/** Actions of a dry run as people say them, with the sign of a state. What stops or starts something comes first. */
const actions = {
  Delete: { state: "Missing", word: "Goes away" },
  Run: { state: "Running", word: "Runs anew" },
  Refuse: { state: "Invalid", word: "Is refused" },
  Create: { state: "Starting", word: "Appears" },
  Update: { state: "OutOfSync", word: "Changes" },
  Keep: { state: "Suspended", word: "Stays" },
} as const satisfies Record<string, Shown>;

export function plannedOf(change: Pick<PlannedChange, "action">): Shown {
  return (actions as Record<string, Shown>)[change.action] ?? { state: "Unknown", word: change.action };
}

/** byConsequence orders planned changes: deletions and new runs first. */
export function byConsequence(changes: readonly PlannedChange[]): PlannedChange[] {
  const order = Object.keys(actions);
  const rank = (c: PlannedChange) => (order.indexOf(c.action) + order.length) % order.length;
  return [...changes].sort((a, b) => rank(a) - rank(b) || (a.object < b.object ? -1 : 1));
}

/** changedBy says in a few words what a commit has changed; empty where it has changed nothing. */
export function changedBy(c: Pick<AppliedCommit, "created" | "updated" | "deleted">): string {
  const parts: [number, string][] = [[c.created, "created"], [c.updated, "updated"], [c.deleted, "deleted"]];
  return parts.filter(([n]) => n > 0).map(([n, what]) => `${n.toLocaleString("en")} ${what}`).join(", ");
}

/** inventoryStates of a source: how many objects are in each, and which are not as Git declares them. */
export function inventoryStates(inventory: SourceDetail["inventory"]): { counts: Map<string, number>; rest: SourceDetail["inventory"] } {
  const counts = new Map<string, number>();
  for (const each of inventory) counts.set(each.state, (counts.get(each.state) ?? 0) + 1);
  return { counts, rest: inventory.filter((each) => each.state !== "Synced") };
}

/** inventoryShown is the sign and the word of a state of an object of a source. */
export function inventoryShown(state: string): Shown {
  switch (state) {
    case "WaitingForApproval": return { state: "Waiting", word: "Waits for approval" };
    case "OutOfSync": return { state: "Invalid", word: "Out of sync" };
    case "Kept": return { state: "Suspended", word: "Kept" };
    default: return { state, word: state };
  }
}

/** byRevision groups rows by the commit that last changed them. */
export function byRevision(rows: readonly Row[]): Map<string, Row[]> {
  const groups = new Map<string, Row[]>();
  for (const row of rows) {
    const key = row.commit?.revision ?? "";
    groups.set(key, [...(groups.get(key) ?? []), row]);
  }
  return groups;
}
