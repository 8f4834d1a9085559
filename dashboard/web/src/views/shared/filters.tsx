import { client, data } from "../../api/client";
import { query, setQuery } from "../../app/router";
import { summary } from "../../data/live";
import { useResource } from "../../data/resource";
import type { Key } from "../../data/query";
import { Facet } from "../../ui/facets";
import { Search } from "../../ui/search";
import { states } from "../../ui/state";
import type { Facets } from "../../api/types";
import type { ComponentChildren } from "preact";
import "./shared.css";

const names = ["state", "namespace", "source", "member"] as const;

/** Filter says which MiniClusters are meant, as the API takes it. */
export interface Filter {
  q?: string;
  state?: string[];
  namespace?: string[];
  source?: string[];
  member?: string[];
}

/** filterOf reads it from the query of the URL, where Fleet has it too. */
export function filterOf(q: URLSearchParams): Filter {
  const filter: Filter = {};
  if (q.get("q")) filter.q = q.get("q") ?? "";
  for (const name of names) if (q.has(name)) filter[name] = q.getAll(name);
  return filter;
}

export const isFiltered = (filter: Filter) => Object.keys(filter).length > 0;
export const clearFilters = () => setQuery({ q: null, state: null, namespace: null, source: null, member: null });

/** useFacets reads how many MiniClusters have which values under a filter; before that, of the whole fleet. */
export function useFacets(filter: Filter): Facets | undefined {
  const read = useResource(`facets ${JSON.stringify(filter)}`, (signal) => data(client.GET("/api/v1/summary", { params: { query: filter }, signal })), { cursor: (s) => s.cursor, interval: 5_000 });
  return read.value.value?.facets ?? summary.value?.facets;
}

/** FilterBar is the filter of Fleet over another view. Children stand at its end. */
export function FilterBar({ facets, member = true, children }: { facets: Facets | undefined; member?: boolean; children?: ComponentChildren }) {
  const q = query.value;
  const values = (of: Key): readonly string[] => {
    if (of === "state") return states.map((s) => s.toLowerCase());
    const from = { member: facets?.members, source: facets?.sources, ns: facets?.namespaces }[of as string];
    return (from ?? []).map((c) => (of === "source" ? c.value.slice(c.value.indexOf("/") + 1) : c.value));
  };
  return (
    <div class="filter-bar">
      <Search value={q.get("q") ?? ""} change={(text) => setQuery({ q: text || null }, { replace: true })} values={values} />
      <Facet name="State" values={facets?.states ?? []} chosen={q.getAll("state")} choose={(state) => setQuery({ state })} />
      <Facet name="Namespace" values={facets?.namespaces ?? []} chosen={q.getAll("namespace")} choose={(namespace) => setQuery({ namespace })} />
      <Facet name="Source" values={facets?.sources ?? []} chosen={q.getAll("source")} choose={(source) => setQuery({ source })} />
      {member ? <Facet name="Member" values={facets?.members ?? []} chosen={q.getAll("member")} choose={(chosen) => setQuery({ member: chosen })} /> : null}
      {isFiltered(filterOf(q)) ? <button type="button" class="plain" onClick={clearFilters}>Clear filters</button> : null}
      {children}
    </div>
  );
}
