import { ordinal } from "../data/format";
import { AgeText } from "./age";
import { Shape, type ShapeName } from "./icons";

/** Tone is what a colour means; see styles/tokens.css. */
export type Tone = "ok" | "run" | "wait" | "bad" | "off" | "unk";

export interface Sign {
  shape: ShapeName;
  tone: Tone;
}

// States of MiniClusters, runs, pods, sources and comparisons. The order is that of lists of states: what wants attention first.
const signs = {
  Failed: { shape: "failed", tone: "bad" },
  Invalid: { shape: "invalid", tone: "bad" },
  Unknown: { shape: "unknown", tone: "unk" },
  Waiting: { shape: "waiting", tone: "wait" },
  Starting: { shape: "starting", tone: "run" },
  Running: { shape: "running", tone: "run" },
  Stopping: { shape: "stopping", tone: "off" },
  Suspended: { shape: "suspended", tone: "off" },
  Deleting: { shape: "deleting", tone: "off" },
  Cancelled: { shape: "cancelled", tone: "off" },
  Replaced: { shape: "replaced", tone: "off" },
  Succeeded: { shape: "succeeded", tone: "ok" },
  Pending: { shape: "pending", tone: "wait" },
  Synced: { shape: "succeeded", tone: "ok" },
  OutOfSync: { shape: "replaced", tone: "wait" },
  Same: { shape: "succeeded", tone: "ok" },
  Different: { shape: "replaced", tone: "wait" },
  Missing: { shape: "invalid", tone: "bad" },
  Extra: { shape: "pending", tone: "off" },
  Ready: { shape: "succeeded", tone: "ok" },
  NotReady: { shape: "failed", tone: "bad" },
  Healthy: { shape: "succeeded", tone: "ok" },
  Progressing: { shape: "running", tone: "run" },
  Degraded: { shape: "failed", tone: "bad" },
} satisfies Record<string, Sign>;

/** signOf a state: its shape and tone. A word that is not known is shown as Unknown is. */
export function signOf(state: string): Sign {
  return (signs as Record<string, Sign>)[state] ?? signs.Unknown;
}

/** States of a MiniCluster, what wants attention first. */
export const states = ["Failed", "Invalid", "Unknown", "Waiting", "Starting", "Running", "Stopping", "Suspended", "Deleting", "Cancelled", "Succeeded"] as const;

/** byAttention compares states by how much they want attention. */
export function byAttention(a: string, b: string): number {
  const order = Object.keys(signs);
  const rank = (state: string) => (order.indexOf(state) + order.length) % order.length;
  return rank(a) - rank(b);
}

interface StateProps {
  state: string;
  /** Place in the line for room, from 1. */
  place?: number | undefined;
  /** Since when nothing was heard, for what cannot be reached. */
  staleSince?: string | undefined;
  /** Another word than the state, e.g. Synced. */
  word?: string;
}

/** What has ended stays so, whatever becomes of its member: then the age of the news says nothing. */
const ended = new Set(["Succeeded", "Failed", "Cancelled", "Replaced"]);

/** State says how far something is: by shape, word and colour, and by the age of the news where a member cannot be reached. */
export function State({ state, place, staleSince, word }: StateProps) {
  const sign = signOf(state);
  const unknown = sign.tone === "unk";
  return (
    <>
      <span class={`state ${sign.tone}`}>
        <Shape name={sign.shape} />
        <span>{word ?? state}</span>
        {place ? <span class="num"> · {ordinal(place)}</span> : null}
        {staleSince && unknown ? <span class="num"> · <AgeText since={staleSince} /></span> : null}
      </span>
      {staleSince && !unknown && !ended.has(state) ? (
        <span class="stale-mark unk" title="A member that it may run on cannot be reached; this is the age of the last news from there"><Shape name="unknown" /><span class="hidden">last news </span><AgeText since={staleSince} /></span>
      ) : null}
    </>
  );
}
