import { useSignal } from "@preact/signals";
import { useEffect, useMemo } from "preact/hooks";
import { client, data } from "../../api/client";
import { navigate, query, setQuery, to } from "../../app/router";
import { plural } from "../../data/format";
import { createList, mayMove, type List } from "../../data/list";
import { onChange, summary } from "../../data/live";
import type { Key } from "../../data/query";
import { session } from "../../data/session";
import { Facet } from "../../ui/facets";
import { Icon } from "../../ui/icons";
import { lazy } from "../../app/lazy";
import { Empty, Failed, Loading, Outdated } from "../../ui/messages";
import { Search } from "../../ui/search";
import { states } from "../../ui/state";
import { Health, Room } from "./health";
import { Rows } from "./rows";
import { StaleMembers } from "./stale";
import { Tiles } from "./tiles";
import "./fleet.css";

const StartRun = lazy(() => import("./start"));

const filters = ["state", "namespace", "source", "member"] as const;

/** Fleet lists MiniClusters: what wants attention first. Filters, order and mode are in the URL. */
export default function Fleet() {
  const q = query.value;
  const sort = q.get("sort") ?? "attention";
  const order = q.get("order") === "desc" ? "desc" : "asc";
  const tiles = q.get("mode") === "tiles";
  const key = JSON.stringify([q.get("q"), ...filters.map((f) => q.getAll(f)), sort, order]);
  const list = useMemo(() => open(q, sort, order), [key]);
  const starting = useSignal(false);
  useEffect(() => {
    const off = onChange((changes) => list.apply(changes));
    return () => {
      off();
      list.close();
    };
  }, [list]);

  const values = (of: Key): readonly string[] => {
    // Of the whole fleet: what is typed so far may match nothing.
    const found = summary.value?.facets ?? list.facets.value;
    if (of === "state") return states.map((s) => s.toLowerCase());
    const from = { member: found?.members, source: found?.sources, ns: found?.namespaces }[of as string];
    return (from ?? []).map((c) => (of === "source" ? c.value.slice(c.value.indexOf("/") + 1) : c.value));
  };
  const facets = list.facets.value ?? summary.value?.facets;
  const total = list.total.value;
  return (
    <>
      <header class="view-head">
        <h1>Fleet</h1>
        <span class="dim num only-wide">{total === null ? "" : plural(total, "MiniCluster")}</span>
        <Room />
        <span class="grow" />
        <div class="segmented" role="group" aria-label="Shown as">
          <button type="button" aria-pressed={!tiles} title="Rows" aria-label="Rows" onClick={() => setQuery({ mode: null })}><Icon name="rows" /></button>
          <button type="button" aria-pressed={tiles} title="Tiles, for a wall screen" aria-label="Tiles" onClick={() => setQuery({ mode: "tiles" })}><Icon name="tiles" /></button>
        </div>
        {session.value?.writes ? <button type="button" onClick={() => (starting.value = true)}>Start a run…</button> : null}
      </header>
      <StaleMembers />
      <Health facets={facets} chosen={q.getAll("state")} choose={(state) => setQuery({ state })} large={tiles} />
      <div class="filters">
        <Search value={q.get("q") ?? ""} change={(text) => setQuery({ q: text || null }, { replace: true })} values={values} />
        <Facet name="Namespace" values={facets?.namespaces ?? []} chosen={q.getAll("namespace")} choose={(namespace) => setQuery({ namespace })} />
        <Facet name="Source" values={facets?.sources ?? []} chosen={q.getAll("source")} choose={(source) => setQuery({ source })} />
        <Facet name="Member" values={facets?.members ?? []} chosen={q.getAll("member")} choose={(member) => setQuery({ member })} />
        <label class="only-narrow sort-by"><span class="hidden">Sorted by</span>
          <select value={sort} onChange={(event) => setQuery({ sort: event.currentTarget.value === "attention" ? null : event.currentTarget.value, order: null })}>
            <option value="attention">Attention first</option><option value="since">Latest first</option><option value="name">Name</option><option value="state">State</option><option value="member">Member</option>
          </select>
        </label>
        {filtered(q) ? <button type="button" class="plain" onClick={clear}>Clear filters</button> : null}
      </div>
      <Content list={list} tiles={tiles} sort={sort} order={order} filtered={filtered(q)} />
      {starting.value ? <StartRun close={() => (starting.value = false)} /> : null}
    </>
  );
}

const filtered = (q: URLSearchParams) => q.has("q") || filters.some((f) => q.has(f));
const clear = () => setQuery({ q: null, state: null, namespace: null, source: null, member: null });

/** open the list that the query asks for. */
function open(q: URLSearchParams, sort: string, order: "asc" | "desc"): List {
  const text = q.get("q");
  const filter = { ...(text ? { q: text } : {}), ...Object.fromEntries(filters.map((f) => [f, q.getAll(f)])) };
  return createList({
    read: (offset, limit, signal) => data(client.GET("/api/v1/miniclusters", { params: { query: { ...filter, sort: sort as "attention", order, offset, limit } }, signal })),
    moved: mayMove(sort, filtered(q)),
  });
}

function Content({ list, tiles, sort, order, filtered: some }: { list: List; tiles: boolean; sort: string; order: string; filtered: boolean }) {
  const total = list.total.value;
  const failure = list.failure.value;
  if (total === null) {
    return <div class="view-body">{failure ? <Failed failure={failure} what="MiniClusters" retry={list.refresh} /> : <Loading what="MiniClusters" lines={10} />}</div>;
  }
  const outdated = failure ? <div class="view-body"><Outdated readAt={list.readAt.value} failure={failure} retry={list.refresh} /></div> : null;
  if (total === 0) {
    return some ? (
      <>{outdated}<Empty title="No MiniCluster matches" actions={<button type="button" onClick={clear}>Clear filters</button>}>Values of one filter are alternatives; different filters must all hold.</Empty></>
    ) : (
      <>{outdated}<Empty title="Nothing runs in this fleet yet">Push a MiniCluster manifest to a source of the fleet, or start a run here. What you may not see is not shown either.</Empty></>
    );
  }
  return (
    <>
      {outdated}
      {tiles ? <Tiles list={list} total={total} /> : (
        <Rows list={list} total={total} sort={sort} order={order} open={(row) => navigate(to("miniclusters", row.namespace, row.name))} change={(by, direction) => setQuery({ sort: by, order: direction })} />
      )}
    </>
  );
}
