import { batch, signal, type ReadonlySignal } from "@preact/signals";
import type { Change } from "../api/types";

/** How long without a heartbeat until what is shown is called old, in milliseconds. */
export const SILENCE = 20_000;
/** How often it is asked for changes where no stream can be had, in milliseconds. */
export const POLL = 3_000;
/** How many streams in a row must fail before it polls. */
export const ATTEMPTS = 2;
/** How long it polls before it tries for a stream again, in milliseconds. */
export const RETRY_STREAM = 30_000;

export type Status = "connecting" | "live" | "polling" | "disconnected" | "ended";

/** Source is the part of EventSource that is used. */
export interface Source {
  addEventListener(type: string, listener: (event: MessageEvent<string>) => void): void;
  close(): void;
  readonly readyState: number;
}

/** Environment is what a stream has of the world. */
export interface Environment {
  /** open a stream that goes on after a cursor, or from now on. */
  open(after: string | null): Source;
  /** poll for what is different after a cursor, "" for a cursor of now; fails if the server does not answer. */
  poll(after: string): Promise<Change>;
  now(): number;
  setTimeout(run: () => void, milliseconds: number): unknown;
  clearTimeout(timer: unknown): void;
  /** frame runs something before the next frame is painted. */
  frame(run: () => void): void;
}

/** Listener gets changes in order. One with reset set says that what was read at another cursor than its own is to be read again. */
export type Listener = (changes: readonly Change[]) => void;

/** Stream is the one connection of this page that tells what changes. */
export interface Stream {
  status: ReadonlySignal<Status>;
  /** When anything was last heard, in milliseconds of Environment.now; 0 before that. */
  heard: ReadonlySignal<number>;
  /** Why the server has ended it for good: forbidden or login. */
  reason: ReadonlySignal<string>;
  /** on calls back at most once a frame with all changes since, in order. reset in the last one: read everything again. */
  on(listener: Listener): () => void;
  start(): void;
  stop(): void;
}

/** createStream makes a stream that start opens. */
export function createStream(env: Environment, onTime: (now: string) => void = () => {}): Stream {
  const status = signal<Status>("connecting");
  const heard = signal(0);
  const reason = signal("");
  const listeners = new Set<Listener>();
  let source: Source | null = null;
  let cursor: string | null = null;
  let failures = 0;
  let generation = 0;
  let watchdog: unknown;
  let retry: unknown;
  let pending: Change[] = [];
  let framed = false;

  function flush(): void {
    framed = false;
    const changes = pending;
    pending = [];
    if (changes.length) batch(() => listeners.forEach((listener) => listener(changes)));
  }

  function deliver(change: Change): void {
    pending.push(change);
    // A page in the background paints no frames, so what comes is bounded there: from some size on, all is read again.
    if (pending.length > 500) pending = [resetAt(change.cursor, change.now)];
    if (!framed) {
      framed = true;
      env.frame(flush);
    }
  }

  /** news notes that the server was heard, and waits for the next sign of it. */
  function news(as: Status): void {
    heard.value = env.now();
    status.value = as;
    env.clearTimeout(watchdog);
    watchdog = env.setTimeout(silent, SILENCE);
  }

  function silent(): void {
    status.value = "disconnected";
    if (source) reopen(0);
  }

  function reopen(delay: number): void {
    source?.close();
    source = null;
    env.clearTimeout(retry);
    const mine = ++generation;
    retry = env.setTimeout(() => mine === generation && connect(), delay);
  }

  function received(change: Change): void {
    if (change.reset) deliver(resetAt(change.cursor, change.now));
    else deliver(change);
    cursor = change.cursor || cursor;
    if (change.now) onTime(change.now);
  }

  function hello(event: MessageEvent<string>): void {
    failures = 0;
    news("live");
    const said = JSON.parse(event.data) as Change;
    onTime(said.now);
    // What was read before the first hello may be older than it. After later ones the server tells what was missed.
    if (said.reset || cursor === null) deliver(resetAt(said.cursor, said.now));
    else if (said.miniClusters.length + said.removed.length + said.members.length + said.sources.length > 0) deliver(said);
    cursor = said.cursor;
  }

  function connect(): void {
    const mine = ++generation;
    const opened = env.open(cursor);
    const current = (run: (event: MessageEvent<string>) => void) => (event: MessageEvent<string>) => {
      if (mine === generation) run(event);
    };
    source = opened;
    opened.addEventListener("hello", current(hello));
    opened.addEventListener("change", current((event) => {
      news("live");
      received(JSON.parse(event.data) as Change);
    }));
    opened.addEventListener("reset", current(() => {
      news("live");
      deliver(resetAt(cursor ?? "", ""));
    }));
    opened.addEventListener("ping", current(() => news("live")));
    opened.addEventListener("bye", current((event) => bye(event.data)));
    opened.addEventListener("error", current(() => broken(opened)));
    env.clearTimeout(watchdog);
    watchdog = env.setTimeout(silent, SILENCE);
  }

  function bye(data: string): void {
    const why = reasonOf(data);
    if (why !== "login" && why !== "forbidden") {
      // The server stops, or cannot tell for now what this person may see.
      reopen(why === "shutdown" ? 500 : 3_000);
      return;
    }
    stop();
    batch(() => {
      reason.value = why;
      status.value = "ended";
    });
  }

  /** broken: the browser tries again by itself, with Last-Event-ID, unless the answer was no stream. */
  function broken(of: Source): void {
    failures++;
    if (status.value === "live") status.value = "connecting";
    if (failures >= ATTEMPTS) {
      of.close();
      source = null;
      void polls(++generation, env.now());
    } else if (of.readyState === 2) {
      reopen(1_000);
    }
  }

  async function polls(mine: number, began: number): Promise<void> {
    try {
      const change = await env.poll(cursor ?? "");
      if (mine !== generation) return;
      news("polling");
      received(change);
    } catch {
      if (mine !== generation) return;
    }
    const next = env.now() - began >= RETRY_STREAM ? () => { failures = ATTEMPTS - 1; connect(); } : () => void polls(mine, began);
    env.clearTimeout(retry);
    retry = env.setTimeout(() => mine === generation && next(), POLL);
  }

  function stop(): void {
    generation++;
    source?.close();
    source = null;
    env.clearTimeout(watchdog);
    env.clearTimeout(retry);
  }

  return {
    status,
    heard,
    reason,
    on(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    start() {
      stop();
      failures = 0;
      status.value = "connecting";
      reason.value = "";
      connect();
    },
    stop,
  };
}

function resetAt(cursor: string, now: string): Change {
  return { cursor, now, reset: true, miniClusters: [], removed: [], members: [], sources: [], queue: true };
}

/** reasonOf a bye, which is sent as text, as JSON text, or as {"reason": …}. */
function reasonOf(data: string): string {
  try {
    const value: unknown = JSON.parse(data);
    if (typeof value === "string") return value;
    return (value as { reason?: string }).reason ?? "";
  } catch {
    return data;
  }
}
