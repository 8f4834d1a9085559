/** Line of a comparison: in both, only in what is there (−), or only in what is wanted (+). */
export interface DiffLine {
  kind: "same" | "live" | "desired";
  text: string;
  /** Its number in either text, from 1; 0 where it is not. */
  live: number;
  desired: number;
}

/** Fold stands for lines that are the same and far from any other. */
export interface Fold {
  kind: "fold";
  count: number;
}

/** Above so many cells of the table, texts are compared as wholes: no object of ours is that long. */
const LIMIT = 4_000_000;

/** compare two texts line by line, by their longest common subsequence. */
export function compare(live: string, desired: string): DiffLine[] {
  const a = lines(live);
  const b = lines(desired);
  let head = 0;
  while (head < a.length && head < b.length && a[head] === b[head]) head++;
  let tail = 0;
  while (tail < a.length - head && tail < b.length - head && a[a.length - 1 - tail] === b[b.length - 1 - tail]) tail++;
  const found: DiffLine[] = [];
  const same = (i: number, j: number) => found.push({ kind: "same", text: a[i] ?? "", live: i + 1, desired: j + 1 });
  for (let i = 0; i < head; i++) same(i, i);
  middle(a, b, head, a.length - tail, b.length - tail, found);
  for (let i = 0; i < tail; i++) same(a.length - tail + i, b.length - tail + i);
  return found;
}

const lines = (text: string) => (text === "" ? [] : text.replace(/\n$/, "").split("\n"));

function middle(a: string[], b: string[], from: number, toA: number, toB: number, found: DiffLine[]): void {
  const n = toA - from;
  const m = toB - from;
  const width = m + 1;
  const table = n * m > LIMIT ? null : new Uint32Array((n + 1) * width);
  if (table) {
    for (let i = n - 1; i >= 0; i--) {
      for (let j = m - 1; j >= 0; j--) {
        table[i * width + j] = a[from + i] === b[from + j] ? (table[(i + 1) * width + j + 1] ?? 0) + 1 : Math.max(table[(i + 1) * width + j] ?? 0, table[i * width + j + 1] ?? 0);
      }
    }
  }
  let i = 0;
  let j = 0;
  while (i < n || j < m) {
    if (table && i < n && j < m && a[from + i] === b[from + j]) {
      found.push({ kind: "same", text: a[from + i] ?? "", live: from + ++i, desired: from + ++j });
    } else if (i < n && (j >= m || !table || (table[(i + 1) * width + j] ?? 0) >= (table[i * width + j + 1] ?? 0))) {
      found.push({ kind: "live", text: a[from + i] ?? "", live: from + ++i, desired: 0 });
    } else {
      found.push({ kind: "desired", text: b[from + j] ?? "", live: 0, desired: from + ++j });
    }
  }
}

/** fold lines that are more than context lines away from a difference. */
export function fold(all: readonly DiffLine[], context = 3): (DiffLine | Fold)[] {
  const near = new Uint8Array(all.length);
  all.forEach((line, i) => {
    if (line.kind !== "same") near.fill(1, Math.max(0, i - context), i + context + 1);
  });
  const folded: (DiffLine | Fold)[] = [];
  all.forEach((line, i) => {
    const last = folded[folded.length - 1];
    if (near[i]) folded.push(line);
    else if (last?.kind === "fold") last.count++;
    else folded.push({ kind: "fold", count: 1 });
  });
  return folded;
}
