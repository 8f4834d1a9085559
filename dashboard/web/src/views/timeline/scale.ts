const SECOND = 1000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

/** Range of time in milliseconds. */
export interface Range {
  from: number;
  to: number;
}

/** Shown is what the reader asked to see: so many milliseconds until a time, or until now (null), which moves. */
export interface Shown {
  span: number;
  to: number | null;
}

export const SHORTEST = MINUTE;
export const LONGEST = 60 * DAY;
/** Of what follows now, so much stays free behind it. */
const AHEAD = 0.04;

/** rangeOf what is shown at a time. */
export function rangeOf({ span, to }: Shown, now: number): Range {
  const end = to ?? now + span * AHEAD;
  return { from: end - span, to: end };
}

/** zoom by a factor (below 1: closer) around a share of the width. What follows now goes on following it. */
export function zoom(shown: Shown, factor: number, share: number, now: number): Shown {
  const span = Math.min(LONGEST, Math.max(SHORTEST, shown.span * factor));
  if (shown.to === null) return { span, to: null };
  const { from } = rangeOf(shown, now);
  const at = from + shown.span * share;
  return follow({ span, to: at + span * (1 - share) }, now);
}

/** pan by a share of the width: above 0 to later times. */
export function pan(shown: Shown, share: number, now: number): Shown {
  return follow({ span: shown.span, to: rangeOf(shown, now).to + shown.span * share }, now);
}

/** follow now where a range reaches it. */
function follow(shown: Shown, now: number): Shown {
  return shown.to !== null && shown.to >= now + shown.span * AHEAD * 0.98 ? { span: shown.span, to: null } : shown;
}

/** reveal a time: the same range if it is in it, else one that has it in the middle. */
export function reveal(shown: Shown, range: Range, now: number): Shown {
  const { from, to } = rangeOf(shown, now);
  if (range.to > from && range.from < to) return shown;
  return follow({ span: shown.span, to: Math.min(range.to, now) + shown.span / 2 }, now);
}

const steps = [SECOND, 5 * SECOND, 15 * SECOND, 30 * SECOND, MINUTE, 2 * MINUTE, 5 * MINUTE, 10 * MINUTE, 15 * MINUTE, 30 * MINUTE, HOUR, 2 * HOUR, 3 * HOUR, 6 * HOUR, 12 * HOUR, DAY, 2 * DAY, 7 * DAY, 14 * DAY];

export interface Tick {
  at: number;
  /** Begins a day. */
  day: boolean;
}

/** ticks of a range, at round local times, at most so many. offset is what local time is ahead of UTC, in milliseconds. */
export function ticks({ from, to }: Range, most: number, offset: number): { step: number; ticks: Tick[] } {
  const step = steps.find((s) => (to - from) / s <= most) ?? (steps.at(-1) as number);
  const list: Tick[] = [];
  for (let at = Math.ceil((from + offset) / step) * step; at - offset <= to; at += step) list.push({ at: at - offset, day: at % DAY === 0 });
  return { step, ticks: list };
}
