import type { components } from "../src/api/schema";
import { parse } from "../src/data/query.ts";

type Row = components["schemas"]["Row"];
type Facets = components["schemas"]["Facets"];

const attention = ["Failed", "Invalid", "Unknown", "Waiting", "Starting", "Stopping", "Deleting", "Running", "Suspended", "Cancelled", "Succeeded"];
const order: Record<string, (row: Row) => string | number> = {
  name: (r) => r.name, namespace: (r) => r.namespace, state: (r) => r.state, pods: (r) => r.pods.desired, member: (r) => r.members.join(),
  commit: (r) => r.commit?.time ?? "", since: (r) => -Date.parse(r.since), created: (r) => r.created,
};

/** filtered rows, without one of the filters if that is named. */
export function filtered(rows: readonly Row[], query: URLSearchParams, without = ""): Row[] {
  const terms = parse(query.get("q") ?? "");
  const of = (name: string) => (name === without ? [] : query.getAll(name));
  const [state, namespace, source, member] = [of("state"), of("namespace"), of("source"), of("member")];
  return rows.filter((row) =>
    (!state.length || state.includes(row.state)) && (!namespace.length || namespace.includes(row.namespace)) &&
    (!source.length || source.includes(`${row.namespace}/${row.source}`)) && (!member.length || row.members.some((m) => member.includes(m))) &&
    terms.every((t) => holds(row, t.kind, t.value.toLowerCase())));
}

function holds(row: Row, kind: string, value: string): boolean {
  switch (kind) {
    case "word": return `${row.namespace}/${row.name}`.includes(value);
    case "state": return row.state.toLowerCase() === value;
    case "member": return row.members.includes(value);
    case "source": return row.source === value;
    case "ns": return row.namespace === value;
    case "commit": return (row.commit?.hash ?? row.commit?.revision ?? "").startsWith(value);
    case "health": return row.health.toLowerCase() === value;
    case "sync": return row.sync.toLowerCase() === value;
    default: return false;
  }
}

/** sorted rows, as the server sorts them. */
export function sorted(rows: Row[], sort: string, descending: boolean): Row[] {
  const by = order[sort];
  const compare = by
    ? (a: Row, b: Row) => (by(a) < by(b) ? -1 : by(a) > by(b) ? 1 : a.name < b.name ? -1 : 1) * (descending ? -1 : 1)
    : (a: Row, b: Row) => attention.indexOf(a.state) - attention.indexOf(b.state) || Date.parse(b.since) - Date.parse(a.since);
  return [...rows].sort(compare);
}

export function facets(rows: readonly Row[], query: URLSearchParams): Facets {
  const count = (name: string, values: (row: Row) => readonly string[]) => {
    const counts = new Map<string, number>();
    for (const row of filtered(rows, query, name)) for (const value of values(row)) counts.set(value, (counts.get(value) ?? 0) + 1);
    return [...counts].map(([value, n]) => ({ value, count: n })).sort((a, b) => b.count - a.count);
  };
  return {
    states: count("state", (r) => [r.state]), namespaces: count("namespace", (r) => [r.namespace]),
    sources: count("source", (r) => (r.source ? [`${r.namespace}/${r.source}`] : [])), members: count("member", (r) => r.members),
  };
}
