import { useComputed, useSignal } from "@preact/signals";
import { useLayoutEffect } from "preact/hooks";
import { now } from "../data/clock";
import { absolute, ageSince } from "../data/format";

interface AgeProps {
  /** Time of the API. */
  since: string;
}

/** Age ticks: how long ago a time is, which its tip tells in full. Only its text changes. */
export function Age({ since }: AgeProps) {
  return <time dateTime={since} title={absolute.format(new Date(since))} class="num"><AgeText since={since} /></time>;
}

/** AgeText is the text of an age alone. */
export function AgeText({ since }: AgeProps) {
  const from = useSignal(since);
  useLayoutEffect(() => {
    from.value = since;
  }, [since]);
  return <>{useComputed(() => ageSince(from.value, now.value))}</>;
}
