import type { FileProblem, Row, Source } from "../../api/types";

/** Shown is how a source is said to be: a state of <State> and the word for it. */
export interface Shown {
  state: string;
  word: string;
}

export function shownOf(s: Pick<Source, "ready" | "reason" | "suspended" | "pruneBlocked" | "runsBlocked" | "problems">): Shown {
  if (s.suspended) return { state: "Suspended", word: "Suspended" };
  if (s.pruneBlocked || s.runsBlocked) return { state: "Waiting", word: "Waits for approval" };
  if (!s.ready) return s.reason === "Reconciling" || s.reason === "Progressing" ? { state: "Running", word: "Reading" } : { state: "Failed", word: s.reason || "Not ready" };
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

/** byRevision groups rows by the commit that last changed them. */
export function byRevision(rows: readonly Row[]): Map<string, Row[]> {
  const groups = new Map<string, Row[]>();
  for (const row of rows) {
    const key = row.commit?.revision ?? "";
    groups.set(key, [...(groups.get(key) ?? []), row]);
  }
  return groups;
}
