import { signal } from "@preact/signals";

/** What the server's clock is ahead of this machine's, in milliseconds. */
let offset = 0;
let accuracy = Infinity;

/** now is the server's time in milliseconds. It ticks once a second while the page is visible. */
export const now = signal(Date.now());

/** serverNow is the server's time at this moment, in milliseconds. */
export function serverNow(): number {
  return Date.now() + offset;
}

/**
 * setServerTime sets the clock after a time that the server has sent. resolution is its unit in milliseconds: what is coarse, as
 * the Date header is, corrects only what is further off than that.
 */
export function setServerTime(sent: string, resolution = 1): void {
  const difference = Date.parse(sent) - Date.now();
  if (Number.isNaN(difference)) return;
  if (resolution > accuracy && Math.abs(difference - offset) < 2 * resolution) return;
  offset = difference;
  accuracy = Math.min(accuracy, resolution);
}

export function tick(): void {
  now.value = serverNow();
}

/** startClock ticks until the returned function is called. One timer serves all ages on the page. */
export function startClock(): () => void {
  const visible = () => document.visibilityState !== "hidden";
  const timer = setInterval(() => visible() && tick(), 1000);
  const shown = () => visible() && tick();
  document.addEventListener("visibilitychange", shown);
  return () => {
    clearInterval(timer);
    document.removeEventListener("visibilitychange", shown);
  };
}
