import { useSignal } from "@preact/signals";
import { useEffect, useMemo } from "preact/hooks";
import { client, data } from "../../api/client";
import type { Bar } from "../../api/types";
import { query, setQuery } from "../../app/router";
import { now, serverNow } from "../../data/clock";
import { age, count, plural } from "../../data/format";
import { createResource, type Resource } from "../../data/resource";
import type { Timeline } from "../../api/types";
import { Empty, Failed, Loading, Outdated } from "../../ui/messages";
import { State } from "../../ui/state";
import { Choice } from "../shared/choice";
import { clearFilters, FilterBar, filterOf, isFiltered, useFacets } from "../shared/filters";
import { NARROW, useMedia } from "../shared/narrow";
import { RunStrip } from "../shared/strip";
import { Chart } from "./chart";
import { pack, startOf } from "./lanes";
import { pan, rangeOf, zoom, type Range, type Shown } from "./scale";
import { BarTable } from "./table";
import "./timeline.css";

const DEFAULT = 2 * 3_600_000;
const MOST = 5000;

/** shownOf reads from the query of the URL what is shown: span in seconds, and to. */
function shownOf(q: URLSearchParams): Shown {
  const span = Number(q.get("span")) * 1000 || DEFAULT;
  const to = Date.parse(q.get("to") ?? "");
  return { span, to: Number.isNaN(to) ? null : to };
}

const queryOf = ({ span, to }: Shown) => ({ span: Math.round(span) === DEFAULT ? null : String(Math.round(span / 1000)), to: to === null ? null : new Date(Math.round(to)).toISOString() });

/** TimelineView is the runs of the fleet as bars, a lane for each member. */
export default function TimelineView() {
  const q = query.value;
  const narrow = useMedia(NARROW).value;
  const filter = filterOf(q);
  const facets = useFacets(filter);
  const table = (q.get("as") ?? (narrow ? "table" : "chart")) === "table";
  const shown = useSignal<Shown>(shownOf(q));
  const text = JSON.stringify(queryOf(shown.value));

  // What is shown goes to the URL soon, and comes from it when that is another.
  useEffect(() => {
    const timer = setTimeout(() => {
      if (JSON.stringify(queryOf(shownOf(query.peek()))) !== text) setQuery(queryOf(shown.peek()), { replace: true });
    }, 300);
    return () => clearTimeout(timer);
  }, [text]);
  useEffect(() => {
    const asked = shownOf(query.peek());
    if (JSON.stringify(queryOf(asked)) !== JSON.stringify(queryOf(shown.peek()))) shown.value = asked;
  }, [q.get("span"), q.get("to")]);

  const key = JSON.stringify(filter);
  const { timeline, loaded } = useMemo(() => read(filter, () => shown.peek()), [key]);
  useEffect(() => () => timeline.close(), [timeline]);
  useEffect(() => {
    const range = rangeOf(shown.value, serverNow());
    const has = loaded();
    if (has && (range.from < has.from || Math.min(range.to, serverNow()) > has.to + (shown.peek().to === null ? Infinity : 0) || shown.value.span * 4 < (has.to - has.from) / 2)) timeline.refresh();
  }, [shown.value, timeline]);

  const fit = () => {
    const bars = timeline.value.peek()?.lanes.flatMap((lane) => lane.bars) ?? [];
    const first = Math.min(...bars.map(startOf));
    if (Number.isFinite(first)) shown.value = { span: Math.max(600_000, (serverNow() - first) * 1.08), to: null };
  };
  const closer = (factor: number) => (shown.value = zoom(shown.peek(), factor, 0.5, serverNow()));
  const move = (share: number) => (shown.value = pan(shown.peek(), share, serverNow()));
  const total = timeline.value.value?.total;
  return (
    <div class={table ? "" : "fill-view"}>
      <header class="view-head timeline-head">
        <h1>Timeline</h1>
        <RangeText shown={shown.value} />
        {total !== undefined && total > MOST ? <span class="dim num">the latest {count(MOST)} of {count(total)} runs</span> : total !== undefined ? <span class="dim num">{plural(total, "run")}</span> : null}
        <span class="grow" />
        <div class="bar timeline-zoom" role="group" aria-label="Time that is shown">
          <button type="button" aria-label="Earlier" onClick={() => move(-0.5)}>‹</button>
          <button type="button" aria-label="Later" disabled={shown.value.to === null} onClick={() => move(0.5)}>›</button>
          <button type="button" aria-label="Zoom out" aria-keyshortcuts="-" onClick={() => closer(2)}>−</button>
          <button type="button" aria-label="Zoom in" aria-keyshortcuts="+" onClick={() => closer(0.5)}>+</button>
          <button type="button" title="All runs that were read" aria-keyshortcuts="0" onClick={fit}>Fit</button>
          <button type="button" title="Follow what happens now" aria-keyshortcuts="n" aria-pressed={shown.value.to === null} class={shown.value.to === null ? "following" : ""} onClick={() => (shown.value = { span: shown.peek().span, to: null })}>Now</button>
        </div>
        <Choice label="Shown as" value={table ? "table" : "chart"} choose={(as) => setQuery({ as })} options={[{ value: "chart", name: "Chart" }, { value: "table", name: "Table", tip: "The same runs as a table" }]} />
      </header>
      <FilterBar facets={facets} />
      <Content timeline={timeline} shown={shown.value} table={table} filtered={isFiltered(filter)} members={filter.member ?? []} show={(next) => (shown.value = next)} fit={fit} />
    </div>
  );
}

/** read bars of what is shown and as much before it. */
function read(filter: ReturnType<typeof filterOf>, shown: () => Shown): { timeline: Resource<Timeline>; loaded: () => Range | null } {
  let range: Range | null = null;
  const timeline = createResource(async (signal) => {
    const { from, to } = rangeOf(shown(), serverNow());
    const span = to - from;
    const wanted = { from: from - span / 2, to: shown().to === null ? Infinity : to + span / 2 };
    const got = await data(client.GET("/api/v1/timeline", { params: { query: { ...filter, from: new Date(wanted.from).toISOString(), ...(wanted.to === Infinity || wanted.to > serverNow() ? {} : { to: new Date(wanted.to).toISOString() }), limit: MOST } }, signal }));
    range = { from: wanted.from, to: Date.parse(got.to) };
    return got;
  }, { cursor: (got) => got.cursor });
  return { timeline, loaded: () => range };
}

function RangeText({ shown }: { shown: Shown }) {
  if (shown.to === null) return <span class="dim num">last {age(shown.span).replace(/ h 00$/, " h")}</span>;
  const { from, to } = rangeOf(shown, 0);
  const text = (at: number) => new Date(at).toLocaleString(undefined, { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit" });
  return <span class="dim num">{text(from)} – {text(to)}</span>;
}

interface ContentProps {
  timeline: Resource<Timeline>;
  shown: Shown;
  table: boolean;
  filtered: boolean;
  /** Only these; empty for all. */
  members: readonly string[];
  show: (shown: Shown) => void;
  fit: () => void;
}

function Content({ timeline, shown, table, filtered, members, show, fit }: ContentProps) {
  const chosen = useSignal<Bar | undefined>(undefined);
  const value = timeline.value.value;
  const failure = timeline.failure.value;
  // A MiniCluster that runs on a chosen member may run on others too.
  const lanes = useMemo(() => value?.lanes.filter((lane) => members.length === 0 || lane.member === "" || members.includes(lane.member)).map(pack) ?? [], [value, members.join()]);
  if (!value) return <div class="view-body">{failure ? <Failed failure={failure} what="the timeline" retry={timeline.refresh} /> : <Loading what="the timeline" lines={12} />}</div>;
  const outdated = failure ? <div class="view-body"><Outdated readAt={timeline.readAt.value} failure={failure} retry={timeline.refresh} /></div> : null;
  if (value.total === 0) {
    return (
      <>{outdated}<Empty title="Nothing ran in this time" actions={<>{filtered ? <button type="button" onClick={clearFilters}>Clear filters</button> : null}<button type="button" onClick={() => show({ span: shown.span * 4, to: shown.to })}>Show four times as much</button></>}>
        Runs that were live then would be bars here, one lane for each member.
      </Empty></>
    );
  }
  if (table) return <>{outdated}<BarTable lanes={lanes} range={rangeOf(shown, now.value)} /></>;
  return (
    <>
      {outdated}
      <Chart lanes={lanes} shown={shown} show={show} fit={fit} chosen={(bar) => (chosen.value = bar)} />
      <RunStrip run={chosen.value} waiting={chosen.value?.waiting ?? false}>
        <div class="legend">
          <span><i class="phase waiting" aria-hidden="true" />waiting</span><span><i class="phase starting" aria-hidden="true" />starting</span><span><i class="phase running" aria-hidden="true" />running</span>
          <span><i class="phase pending" aria-hidden="true" />pending</span><span><i class="phase lost" aria-hidden="true" />no news</span>
          {["Succeeded", "Failed"].map((state) => <State key={state} state={state} />)}
          <span class="optional">arrows go from run to run, + and − zoom, Enter opens</span>
        </div>
      </RunStrip>
    </>
  );
}
