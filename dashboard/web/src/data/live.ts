// The stream of this tab, and what the whole page shows of it.
import { computed, effect, signal } from "@preact/signals";
import { client, data, RETRY } from "../api/client";
import type { Change, Summary } from "../api/types";
import { now, serverNow, setServerTime } from "./clock";
import { lost, session, state } from "./session";
import { createStream, SILENCE, type Listener } from "./stream";
import { throttle } from "./throttle";

const url = (after: string | null) => `/api/v1/stream${after ? `?after=${encodeURIComponent(after)}` : ""}`;

export const stream = createStream(
  {
    open: (after) => new EventSource(url(after)),
    poll: (after) => data(client.GET("/api/v1/changes", { params: { query: { after } } })),
    now: serverNow,
    setTimeout: (run, milliseconds) => setTimeout(run, milliseconds),
    clearTimeout: (timer) => clearTimeout(timer as ReturnType<typeof setTimeout>),
    frame: (run) => (document.visibilityState === "hidden" ? setTimeout(run, 1000) : requestAnimationFrame(run)),
  },
  setServerTime,
);

/** summary of the whole fleet, for the navigation and the header; null before it was read. */
export const summary = signal<Summary | null>(null);

/** stale says since when nothing was heard, in milliseconds of the server's clock, once that is too long; else 0. */
export const stale = computed(() => {
  const heard = stream.heard.value;
  return heard > 0 && stream.status.value !== "ended" && now.value - heard > SILENCE ? heard : 0;
});

/** onChange calls back on changes until the returned function is called. */
export const onChange = (listener: Listener) => stream.on(listener);

/** isReset says that everything is to be read again. */
export const isReset = (changes: readonly Change[]) => changes.some((change) => change.reset);

let again: ReturnType<typeof setTimeout> | undefined;
/** reading ends with the session that it is for. */
let reading = new AbortController();
const readSummary: () => void = throttle(async () => {
  if (state.value !== "in") return;
  const { signal } = reading;
  try {
    const read = await data(client.GET("/api/v1/summary", { signal }));
    setServerTime(read.now);
    summary.value = read;
  } catch {
    if (signal.aborted) return;
    // What is shown stays, and the banner says how old it is.
    clearTimeout(again);
    again = setTimeout(readSummary, RETRY);
  }
}, 2_000);

/** startLive keeps stream and summary going while somebody is logged in. */
export function startLive(): void {
  stream.on(() => readSummary());
  effect(() => {
    const loggedIn = state.value === "in" && session.value !== null;
    if (!loggedIn) {
      stream.stop();
      reading.abort();
      clearTimeout(again);
      summary.value = null;
      return;
    }
    reading = new AbortController();
    stream.start();
    readSummary();
  });
  effect(() => {
    if (stream.status.value === "ended") lost(stream.reason.value === "forbidden" ? "forbidden" : "login");
  });
}
