import type { LogLine } from "../api/types";

/** Entry is a line of a log, or a note of the reader's about it. */
export interface Entry {
  kind: "line" | "lost" | "note";
  time: string;
  text: string;
}

/** How many lines are held at most; the first ones are dropped. */
export const HELD = 20_000;

/** splitter of a stream of text into whole lines of JSON. */
export function splitter(each: (line: LogLine) => void): { push(text: string): void } {
  let rest = "";
  return {
    push(text) {
      const parts = (rest + text).split("\n");
      rest = parts.pop() ?? "";
      for (const part of parts) {
        if (part.trim() === "") continue;
        try {
          each(JSON.parse(part) as LogLine);
        } catch {
          each({ text: part });
        }
      }
    },
  };
}

/** entryOf a line that is not the end. */
export function entryOf(line: LogLine): Entry {
  if (line.lost) return { kind: "lost", time: line.time ?? "", text: `${line.lost} lines, at least, cannot be had any more` };
  return { kind: "line", time: line.time ?? "", text: line.text ?? "" };
}

export const ends: Record<string, string> = {
  ended: "The container has ended.",
  disconnected: "The member does not answer any more.",
  forbidden: "You may not read these logs any more.",
  limit: "No more is sent at once.",
};

export interface LogStream {
  close(): void;
}

export interface LogOptions {
  url: (since: string) => string;
  follow: boolean;
  /** Called with entries as they come, and whether they stand in place of all before. */
  add: (entries: Entry[]) => void;
  status: (status: { kind: "reading" | "following" | "retrying" | "ended" | "failed"; text: string; code?: number }) => void;
  fetch?: typeof fetch;
  wait?: (milliseconds: number) => Promise<void>;
}

/** How long until it is tried again after the connection was lost, in milliseconds. */
const RETRY = 2_000;

/** readLogs until they end. While following, a connection that is lost goes on after the last line, and a pod without a log is waited for. */
export function readLogs(options: LogOptions): LogStream {
  const abort = new AbortController();
  const ask = options.fetch ?? fetch;
  const wait = options.wait ?? ((ms) => new Promise((done) => setTimeout(done, ms)));
  let last = "";
  let ended = "";
  let waits = "";

  async function once(): Promise<void> {
    const response = await ask(options.url(last), { credentials: "same-origin", cache: "no-store", signal: abort.signal });
    if (!response.ok || !response.body) {
      const problem = (await response.json().catch(() => null)) as { detail?: string } | null;
      if (response.status === 409 && options.follow) {
        waits = `${problem?.detail ?? "There is no log yet"}. Trying again.`;
        return;
      }
      options.status({ kind: "failed", text: problem?.detail ?? `The server answers with status ${response.status}.`, code: response.status });
      ended = "failed";
      return;
    }
    options.status({ kind: options.follow ? "following" : "reading", text: "" });
    const decoder = new TextDecoder();
    let batch: Entry[] = [];
    const lines = splitter((line) => {
      if (line.end) {
        ended = line.end;
        return;
      }
      if (line.time) last = line.time;
      batch.push(entryOf(line));
    });
    const reader = response.body.getReader();
    for (;;) {
      const { done, value } = await reader.read();
      if (value) lines.push(decoder.decode(value, { stream: true }));
      if (batch.length) options.add(batch);
      batch = [];
      if (done) return;
    }
  }

  async function run(): Promise<void> {
    for (;;) {
      try {
        await once();
      } catch {
        // The connection was lost; said below.
      }
      if (abort.signal.aborted || ended === "failed") return;
      const again = options.follow && (ended === "" || ended === "disconnected" || ended === "limit");
      if (!again) {
        options.status({ kind: "ended", text: ended ? (ends[ended] ?? ended) : "The connection was lost before the end." });
        return;
      }
      options.status({ kind: "retrying", text: waits ? waits : ended ? `${ends[ended]} Trying again.` : "The connection was lost. Trying again." });
      ended = waits = "";
      await wait(RETRY);
      if (abort.signal.aborted) return;
    }
  }
  void run();
  return { close: () => abort.abort() };
}
