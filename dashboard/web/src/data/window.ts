/** How many rows are in the document at most. */
export const MOST = 60;

export interface Window {
  first: number;
  count: number;
}

/**
 * windowOf says which rows of a list to render. top is how far the list is scrolled above the upper edge of the screen, height
 * that of the screen, both in pixels.
 */
export function windowOf(top: number, height: number, rowHeight: number, total: number, overscan = 8): Window {
  const visible = Math.min(MOST, Math.ceil(height / rowHeight) + 1);
  const spare = Math.min(overscan, Math.floor((MOST - visible) / 2));
  const first = Math.floor(Math.max(0, top) / rowHeight);
  const from = Math.max(0, Math.min(first - spare, total - visible));
  const to = Math.min(total, first + visible + spare, from + MOST);
  return { first: from, count: Math.max(0, to - from) };
}
