import type { Place } from "../../api/types";

/** Part of a line that is shown: places, and where some are left out, how many. */
export type Part = { place: Place } | { more: number };

/** around says which places of a line to show: the first, and so many around one of them. at is its index, -1 for none. */
export function around(places: readonly Place[], at: number, before: number, after: number): Part[] {
  const parts: Part[] = [];
  let left = 0;
  places.forEach((place, i) => {
    const near = i === 0 || (at < 0 ? i <= before + after : i >= at - before && i <= at + after);
    if (!near) {
      left++;
      return;
    }
    if (left > 0) parts.push({ more: left });
    left = 0;
    parts.push({ place });
  });
  if (left > 0) parts.push({ more: left });
  return parts;
}
