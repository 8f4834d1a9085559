import { to } from "../../app/router";
import { age, ageSince } from "../../data/format";
import type { Commit, Run } from "../../api/types";

/** stateOf a run as it may be shown: one that is live on a member without news is Unknown. */
export function stateOf(run: Run): string {
  return !run.end && run.staleSince ? "Unknown" : run.state;
}

/** lengthOf a run in milliseconds, until its end, its last news or now; undefined if its start is not known. */
export function lengthOf(run: Run, now: number): number | undefined {
  if (!run.start) return undefined;
  const end = run.end ?? (run.staleSince || run.lost);
  return Math.max(0, (end ? Date.parse(end) : now) - Date.parse(run.start));
}

/** share of the largest length, from 0 to 1, that a length in milliseconds is drawn as: a minute, an hour and a day differ. */
export function lengthShare(length: number): number {
  return Math.min(1, Math.log1p(length / 60_000) / Math.log1p(24 * 60));
}

/** sentenceOf a run: "hpcg at main@1a2b3c4 on alpine: succeeded, 12 min, 3 h 05 ago". */
export function sentenceOf(run: Run, now: number): string {
  const state = stateOf(run);
  const length = lengthOf(run, now);
  const parts = [state === "Unknown" && run.staleSince ? `unknown, no news for ${ageSince(run.staleSince, now)}` : state.toLowerCase()];
  if (length !== undefined) parts.push(state === "Unknown" ? `${age(length)} until then` : run.end ? age(length) : `for ${age(length)}`);
  if (run.end) parts.push(`${ageSince(run.end, now)} ago`);
  return `${run.name}${run.commit ? ` at ${run.commit.revision}` : ""}${run.member ? ` on ${run.member}` : ""}: ${parts.join(", ")}`;
}

/** byline of a commit: subject and author. */
export function byline(commit: Commit | undefined): string {
  return [commit?.subject, commit?.author].filter(Boolean).join(", by ");
}

/** pageOf a run: the page of its MiniCluster, at the run. */
export function pageOf(run: { namespace: string; name: string; id?: string }): string {
  return `${to("miniclusters", run.namespace, run.name)}${run.id ? `?tab=runs&run=${encodeURIComponent(run.id)}` : ""}`;
}
