import { batch, signal, type ReadonlySignal } from "@preact/signals";
import { useEffect, useMemo } from "preact/hooks";
import { Failure, RETRY } from "../api/client";
import type { Change } from "../api/types";
import { serverNow } from "./clock";
import { onChange } from "./live";
import { throttle } from "./throttle";

/** Resource is something that is read from the API, and read again when it may be different. */
export interface Resource<T> {
  /** The latest that was read. It stays while a later reading fails, unless the answer is that there is nothing for the reader. */
  value: ReadonlySignal<T | null>;
  /** Why the latest reading failed; null if it did not. */
  failure: ReadonlySignal<Failure | null>;
  /** When value was read, in milliseconds of the server's clock. */
  readAt: ReadonlySignal<number>;
  /** refresh reads again, at most once per interval. */
  refresh(): void;
  close(): void;
}

export interface Options<T> {
  /** Says whether a change may make it different; default: each does. */
  affected?: (change: Change) => boolean;
  /** The cursor that a value was read at, if it tells. */
  cursor?: (value: T) => string;
  /** At most one reading in so many milliseconds. */
  interval?: number;
  /** Changes to hear of; default: the stream of this tab. */
  changes?: typeof onChange;
}

/** createResource reads at once, and again after changes, until it is closed. */
export function createResource<T>(read: (signal: AbortSignal) => Promise<T>, options: Options<T> = {}): Resource<T> {
  const value = signal<T | null>(null);
  const failed = signal<Failure | null>(null);
  const readAt = signal(0);
  const abort = new AbortController();
  let last = "";
  let again: ReturnType<typeof setTimeout> | undefined;

  const refresh: () => void = throttle(async () => {
    if (abort.signal.aborted) return;
    clearTimeout(again);
    try {
      const got = await read(abort.signal);
      last = options.cursor?.(got) ?? "";
      batch(() => {
        value.value = got;
        failed.value = null;
        readAt.value = serverNow();
      });
    } catch (error) {
      if (abort.signal.aborted) return;
      const failure = error instanceof Failure ? error : new Failure(0, String(error));
      if (failure.transient) again = setTimeout(refresh, RETRY);
      batch(() => {
        failed.value = failure;
        // What may not be seen any more is not shown any more.
        if ([401, 403, 404].includes(failure.status)) value.value = null;
      });
    }
  }, options.interval ?? 1000);

  const different = (change: Change) =>
    change.reset ? change.cursor === "" || change.cursor !== last : (options.affected?.(change) ?? true);
  const off = (options.changes ?? onChange)((changes) => {
    if (changes.some(different)) refresh();
  });
  refresh();
  return {
    value,
    failure: failed,
    readAt,
    refresh,
    close() {
      off();
      clearTimeout(again);
      abort.abort();
    },
  };
}

/** useResource is createResource for as long as a component is shown with the same key. */
export function useResource<T>(key: string, read: (signal: AbortSignal) => Promise<T>, options: Options<T> = {}): Resource<T> {
  const resource = useMemo(() => createResource(read, options), [key]);
  useEffect(() => () => resource.close(), [resource]);
  return resource;
}

/** about says whether a change is about one MiniCluster. */
export function about(namespace: string, name: string): (change: Change) => boolean {
  const same = (o: { namespace: string; name: string }) => o.namespace === namespace && o.name === name;
  return (change) => change.miniClusters.some(same) || change.removed.some(same);
}
