// The syntax of the search box, as the server reads it: words, and terms with a key. All of them hold.

export interface Term {
  /** word: part of NAMESPACE/NAME; label: key=value; else the key before the colon. */
  kind: "word" | "label" | Key;
  key: string;
  value: string;
  /** Where it stands in the query. */
  start: number;
  end: number;
  /** What is wrong with it; "" if nothing is. */
  problem: string;
}

export const keys = ["state", "member", "source", "ns", "commit", "health", "sync"] as const;
export type Key = (typeof keys)[number];

/** What the values of keys are for, shown as suggestions. */
export const help: Record<Key, string> = {
  state: "how far it is, e.g. state:failed",
  member: "where it runs, e.g. member:alpine",
  source: "GitSource that declares it, e.g. source:fleet",
  ns: "namespace, e.g. ns:physics",
  commit: "that last changed it, e.g. commit:1a2b3c4",
  health: "e.g. health:degraded",
  sync: "e.g. sync:outofsync",
};

const isKey = (text: string): text is Key => (keys as readonly string[]).includes(text);

/** parse splits a query into terms. */
export function parse(query: string): Term[] {
  return [...query.matchAll(/\S+/g)].map((match) => term(match[0], match.index));
}

function term(text: string, start: number): Term {
  const at = { start, end: start + text.length };
  const equals = text.indexOf("=");
  const colon = text.indexOf(":");
  if (colon > 0 && (equals < 0 || colon < equals)) {
    const key = text.slice(0, colon).toLowerCase();
    const value = text.slice(colon + 1);
    if (isKey(key)) return { kind: key, key, value, ...at, problem: value ? "" : `${key}: needs a value` };
    return { kind: "word", key: "", value: text, ...at, problem: `no such key: ${key}. There are ${keys.join(", ")}` };
  }
  if (equals >= 0) {
    const key = text.slice(0, equals);
    return { kind: "label", key, value: text.slice(equals + 1), ...at, problem: key ? "" : "a label needs a name before =" };
  }
  return { kind: "word", key: "", value: text, ...at, problem: "" };
}

/** termAt is what the caret stands in or right behind. */
export function termAt(query: string, caret: number): Term | undefined {
  return parse(query).find((t) => t.start <= caret && caret <= t.end);
}

/** suggest completions of what the caret stands in: keys, or values of a key. */
export function suggest(query: string, caret: number, values: (key: Key) => readonly string[], limit = 8): string[] {
  const current = termAt(query, caret);
  if (!current) return keys.map((key) => `${key}:`);
  if (current.kind === "word") {
    const typed = current.value.toLowerCase();
    return keys.filter((key) => key.startsWith(typed)).map((key) => `${key}:`);
  }
  if (current.kind === "label") return [];
  const typed = current.value.toLowerCase();
  const found = values(current.kind).filter((value) => value.toLowerCase().includes(typed) && value.toLowerCase() !== typed);
  found.sort((a, b) => Number(b.toLowerCase().startsWith(typed)) - Number(a.toLowerCase().startsWith(typed)));
  return found.slice(0, limit).map((value) => `${current.kind}:${value}`);
}

/** complete puts a completion in place of what the caret stands in, and says where the caret is then. */
export function complete(query: string, caret: number, completion: string): { query: string; caret: number } {
  const current = termAt(query, caret);
  const [start, end] = current ? [current.start, current.end] : [caret, caret];
  const tail = completion.endsWith(":") ? "" : " ";
  const rest = query.slice(end).replace(/^ /, "");
  return { query: query.slice(0, start) + completion + tail + rest, caret: start + completion.length + tail.length };
}
