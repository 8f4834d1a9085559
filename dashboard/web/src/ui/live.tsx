import { computed, useComputed } from "@preact/signals";
import { now } from "../data/clock";
import { age } from "../data/format";
import { stale, stream } from "../data/live";

const title = {
  connecting: "Connecting to the server",
  live: "Changes are shown as they happen",
  polling: "No stream can be had from the server, so it is asked every 3 s",
  disconnected: "The server was not heard from for some time",
  ended: "The server has ended the session",
} as const;

/** connection is in which state the stream is, or disconnected once nothing was heard for too long. */
export const connection = computed(() => (stale.value ? "disconnected" : stream.status.value));

/** Live says how fresh the page is. */
export function Live() {
  const since = useComputed(() => (stream.heard.value ? age(now.value - stream.heard.value) : ""));
  const word = { connecting: "Connecting", live: "Live", polling: "Polling", disconnected: "Disconnected", ended: "Ended" }[connection.value];
  return <span class={`live is-${connection.value}`} title={title[connection.value]}><i aria-hidden="true" /><span>{word}</span>{connection.value === "disconnected" ? <span class="num"> · {since}</span> : null}</span>;
}
