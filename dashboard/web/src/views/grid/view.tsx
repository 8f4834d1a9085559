import { useSignal } from "@preact/signals";
import { useEffect, useMemo, useRef } from "preact/hooks";
import { client, data } from "../../api/client";
import type { Run } from "../../api/types";
import { query, setQuery } from "../../app/router";
import { plural } from "../../data/format";
import { onChange } from "../../data/live";
import { Icon } from "../../ui/icons";
import { Empty, Failed, Loading, Outdated } from "../../ui/messages";
import { State } from "../../ui/state";
import { Choice } from "../shared/choice";
import { clearFilters, FilterBar, filterOf, isFiltered, useFacets, type Filter } from "../shared/filters";
import { NARROW, useMedia } from "../shared/narrow";
import { RunStrip } from "../shared/strip";
import { layoutOf, type By, type Layout, type Member } from "./columns";
import { Matrix } from "./matrix";
import { createPages, type Pages } from "./pages";
import "./grid.css";

/** So many revisions at most are columns of their own unless the reader says otherwise. */
const FEW = 12;
/** With more members rows are packed unless the reader says otherwise. */
const MANY = 8;
const MOST = ["5", "10", "20", "50"] as const;

/** GridView is MiniClusters × members × revisions; each cell is a run. */
export default function GridView() {
  const q = query.value;
  const narrow = useMedia(NARROW).value;
  const filter = filterOf(q);
  const facets = useFacets(filter);
  const most = Number(q.get("runs") ?? 10) || 10;
  const names = (facets?.members ?? []).map((m) => m.value).sort();
  // On a narrow screen there is one member at a time, and only what has run there.
  const one = narrow ? (q.getAll("member")[0] ?? names[0] ?? "") : "";
  const asked: Filter = one ? { ...filter, member: [one] } : filter;
  const key = JSON.stringify([asked, most]);
  const pages = useMemo(() => createPages((offset, limit, signal) => data(client.GET("/api/v1/grid", { params: { query: { ...asked, offset, limit, revisions: most } }, signal }))), [key]);
  const by = byOf(pages, asked.member?.length ?? names.length, narrow);
  useEffect(() => {
    const off = onChange((changes) => pages.apply(changes));
    return () => {
      off();
      pages.close();
    };
  }, [pages]);
  return (
    <div class="fill-view grid-view">
      <header class="view-head">
        <h1>Grid</h1>
        <span class="dim num">{pages.total.value === null ? "" : plural(pages.total.value, "MiniCluster")}</span>
        <span class="grow" />
        <ColumnsChoice by={by} narrow={narrow} />
        <label class="bar only-wide"><span class="dim">Runs each</span>
          <select value={String(most)} onChange={(event) => setQuery({ runs: event.currentTarget.value === "10" ? null : event.currentTarget.value })}>{MOST.map((n) => <option key={n}>{n}</option>)}</select></label>
      </header>
      <FilterBar facets={facets} member={!narrow} />
      {narrow && names.length ? <Switcher names={names} current={one} /> : null}
      <Content pages={pages} by={by} asked={asked} listed={names} most={most} narrow={narrow} />
    </div>
  );
}

/** byOf says what columns are: so many members that most of the grid would be empty are packed. */
function byOf(pages: Pages, members: number, narrow: boolean): By {
  const asked = query.value.get("by");
  if (asked === "commits" || asked === "runs") return asked;
  if (asked === "packed" && !narrow) return asked;
  if (!narrow && members > MANY) return "packed";
  void pages.shape.value;
  return pages.revisions().length <= FEW ? "commits" : "runs";
}

function ColumnsChoice({ by, narrow }: { by: By; narrow: boolean }) {
  const options: { value: By; name: string; tip: string }[] = [
    { value: "packed", name: "Packed", tip: "Each row shows only members that it has run on" },
    { value: "runs", name: "By run", tip: "Columns are members, in each the latest runs, the last one rightmost" },
    { value: "commits", name: "By commit", tip: "Columns are members, in each the revisions that have run there" },
  ];
  return <Choice label="Columns" value={by} choose={(value) => setQuery({ by: value })} options={narrow ? options.slice(1) : options} />;
}

/** Switcher goes from member to member. */
function Switcher({ names, current }: { names: readonly string[]; current: string }) {
  const step = (by: number) => setQuery({ member: names[(names.indexOf(current) + by + names.length) % names.length] ?? null }, { replace: true });
  return (
    <div class="grid-switch">
      <button type="button" aria-label="Member before" onClick={() => step(-1)}><span class="turned"><Icon name="chevron" /></span></button>
      <label class="grow"><span class="hidden">Member</span>
        <select value={current} onChange={(event) => setQuery({ member: event.currentTarget.value }, { replace: true })}>{names.map((name) => <option key={name}>{name}</option>)}</select></label>
      <button type="button" aria-label="Next member" onClick={() => step(1)}><Icon name="chevron" /></button>
    </div>
  );
}

function Content({ pages, by, asked, listed, most, narrow }: { pages: Pages; by: By; asked: Filter; listed: string[]; most: number; narrow: boolean }) {
  const run = useSignal<Run | undefined>(undefined);
  const shape = pages.shape.value;
  const before = useRef<Layout | null>(null);
  const layout = useMemo(() => {
    const read = pages.members();
    const stale = new Map(read.map((m) => [m.member, m.staleSince]));
    // Members on which none of these has run need no columns.
    const wanted = asked.member ?? (listed.length ? listed : read.map((m) => m.member));
    const members = wanted.map((member): Member => ({ member, staleSince: stale.get(member) }));
    // The same layout stays the same value, so that rows are not rendered again for it.
    const next = layoutOf(by, members, pages.rows(), pages.revisions(), most);
    if (JSON.stringify(next) !== JSON.stringify(before.current)) before.current = next;
    return before.current ?? next;
  }, [shape, by, most, listed.join(), pages]);
  const total = pages.total.value;
  const failure = pages.failure.value;
  if (total === null) return <div class="view-body">{failure ? <Failed failure={failure} what="the grid" retry={pages.refresh} /> : <Loading what="the grid" lines={12} />}</div>;
  const outdated = failure ? <div class="view-body"><Outdated readAt={pages.readAt.value} failure={failure} retry={pages.refresh} /></div> : null;
  if (total === 0) {
    return isFiltered(asked)
      ? <>{outdated}<Empty title="No MiniCluster matches" actions={<button type="button" onClick={clearFilters}>Clear filters</button>}>Values of one filter are alternatives; different filters must all hold.</Empty></>
      : <>{outdated}<Empty title="Nothing has run in this fleet yet">Each run will be a cell here: which MiniCluster, at which commit, on which member.</Empty></>;
  }
  return (
    <>
      {outdated}
      <Matrix key={`${by} ${JSON.stringify(asked)}`} pages={pages} layout={layout} total={total} narrow={narrow} chosen={(r) => (run.value = r)} />
      <RunStrip run={run.value}>
        <div class="legend">
          {["Succeeded", "Running", "Failed", "Unknown"].map((state) => <State key={state} state={state} />)}
          <span class="optional"><i class="grid-mark" aria-hidden="true" />how long it has run</span>
          <span class="optional">Ctrl + → goes to the next run of a row, Enter opens it</span>
        </div>
      </RunStrip>
    </>
  );
}
