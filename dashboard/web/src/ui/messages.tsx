// What is shown in place of a view or a part of it: nothing there, not there yet, not to be had.
import type { ComponentChildren } from "preact";
import { useEffect, useState } from "preact/hooks";
import type { Failure } from "../api/client";
import { clockTime } from "../data/format";
import { stale } from "../data/live";
import { Shape } from "./icons";
import { Age } from "./age";

interface MessageProps {
  title: string;
  children?: ComponentChildren;
  /** What can be done about it: links and buttons. */
  actions?: ComponentChildren;
}

/** Empty says why there is nothing, and what would change that. */
export function Empty({ title, children, actions }: MessageProps) {
  return (
    <div class="message">
      <svg class="message-art off" viewBox="0 0 64 24" width="64" height="24" aria-hidden="true">
        <path d="M1 4h40M1 12h62M1 20h28" fill="none" stroke="currentColor" stroke-width="2" stroke-dasharray="3 4" />
      </svg>
      <h2 class="message-title">{title}</h2>
      {children ? <div class="message-text">{children}</div> : null}
      {actions ? <div class="bar">{actions}</div> : null}
    </div>
  );
}

/** Loading holds the place of so many lines. It is still for the first moment, so that quick answers do not flicker. */
export function Loading({ what, lines = 6 }: { what: string; lines?: number }) {
  const [shown, show] = useState(false);
  useEffect(() => {
    const timer = setTimeout(() => show(true), 200);
    return () => clearTimeout(timer);
  }, []);
  return (
    <div class={`loading ${shown ? "" : "waits"}`} role="status">
      <span class="hidden">Loading {what}…</span>
      {Array.from({ length: lines }, (_, i) => <i key={i} style={{ width: `${88 - ((i * 37) % 50)}%` }} />)}
    </div>
  );
}

/** Failed says what could not be had, in the server's own text, and offers to try again. */
export function Failed({ failure, what, retry }: { failure: Failure; what: string; retry?: () => void }) {
  if (failure.status === 403 || failure.status === 404) return <Forbidden what={what} absent={failure.status === 404} />;
  return (
    <div class="message" role="alert">
      <span class="message-art bad"><Shape name="failed" /></span>
      <h2 class="message-title">{failure.status === 0 ? "The server does not answer" : `Cannot read ${what}`}</h2>
      <div class="message-text">
        <p>{failure.status === 0 ? `It was asked for ${what}.` : failure.message}</p>
        {failure.transient ? <p>The page tries again by itself.</p> : null}
        {failure.details.length ? <ul>{failure.details.map((detail) => <li key={detail} class="mono">{detail}</li>)}</ul> : null}
      </div>
      {retry ? <div class="bar"><button type="button" onClick={retry}>Try again</button></div> : null}
    </div>
  );
}

/** Forbidden: what is absent and what may not be seen look alike. */
export function Forbidden({ what, absent = true, retry }: { what: string; absent?: boolean; retry?: () => void }) {
  return (
    <div class="message" role="alert">
      <span class="message-art unk"><Shape name="cancelled" /></span>
      <h2 class="message-title">{absent ? `There is no ${what} here, or you may not see it` : `You may not see ${what}`}</h2>
      <p class="message-text">Rights are those of Kubernetes: who administers the hub can grant <code>get</code> and <code>list</code> for it.</p>
      <div class="bar">{retry ? <button type="button" onClick={retry}>Try again</button> : <a href="/">Go to the fleet</a>}</div>
    </div>
  );
}

/** Outdated is shown over what was read before the server fell silent, or before a later reading failed. */
export function Outdated({ readAt, failure, retry }: { readAt: number; failure: Failure | null; retry: () => void }) {
  // While the whole page is disconnected, that is said once.
  if (!failure || !readAt || (failure.status === 0 && stale.value)) return null;
  return (
    <p class="banner unk" role="status">
      <Shape name="unknown" />
      <span>Shown as of {clockTime(readAt)}. {failure.message}</span>
      <span class="grow" />
      <button type="button" onClick={retry}>Try again</button>
    </p>
  );
}

/** Disconnected is over all views while nothing is heard of the server. */
export function Disconnected() {
  if (!stale.value) return null;
  const since = new Date(stale.value).toISOString();
  return (
    <p class="banner unk disconnected" role="alert">
      <Shape name="unknown" />
      <span><b>Disconnected.</b> Everything shown is from {clockTime(stale.value)}, <Age since={since} /> ago, and may be different now. The page tries again by itself.</span>
    </p>
  );
}
