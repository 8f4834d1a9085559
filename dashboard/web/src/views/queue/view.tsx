import { useSignal } from "@preact/signals";
import { client, data } from "../../api/client";
import type { Line, Place } from "../../api/types";
import { query, setQuery, to } from "../../app/router";
import { count, ordinal, plural } from "../../data/format";
import { useResource } from "../../data/resource";
import { Age } from "../../ui/age";
import { Icon, Shape } from "../../ui/icons";
import { Empty, Failed, Loading, Outdated } from "../../ui/messages";
import { Choice } from "../shared/choice";
import { amountsOf } from "../shared/gang.ts";
import { byMiniCluster, matching, type Waiting } from "./lines";
import "./queue.css";

/** QueueView is the lines for room of all members: who waits where, what each needs, and what is missing. */
export default function QueueView() {
  const q = query.value;
  const read = useResource("queue", (signal) => data(client.GET("/api/v1/queue", { signal })), { affected: (change) => change.queue || change.members.length > 0, cursor: (queue) => queue.cursor });
  const by = q.get("by") === "minicluster" ? "minicluster" : "member";
  const text = q.get("q") ?? "";
  const value = read.value.value;
  const failure = read.failure.value;
  const waiting = value ? byMiniCluster(value.lines) : [];
  return (
    <>
      <header class="view-head">
        <h1>Queue</h1>
        {value ? <span class="dim num">{value.lines.length ? `${plural(waiting.length, "MiniCluster")} in ${plural(value.lines.length, "line")} for room` : ""}</span> : null}
      </header>
      <div class="filter-bar">
        <div class="search"><Icon name="search" /><input type="search" list={undefined} data-search aria-label="Find in the lines" aria-keyshortcuts="/" placeholder="name, namespace or member" value={text} onInput={(event) => setQuery({ q: event.currentTarget.value || null }, { replace: true })} /></div>
        <Choice label="Grouped by" value={by} choose={(next) => setQuery({ by: next === "member" ? null : next })} options={[{ value: "member", name: "By member", tip: "The line for room of each member" }, { value: "minicluster", name: "By MiniCluster", tip: "Each that waits, with its places in all lines" }]} />
      </div>
      <div class="view-body queue">
        {value ? <Outdated readAt={read.readAt.value} failure={failure} retry={read.refresh} /> : null}
        {!value ? (failure ? <Failed failure={failure} what="the lines for room" retry={read.refresh} /> : <Loading what="the lines for room" lines={10} />)
          : value.lines.length === 0 ? <Empty title="Nobody waits for room">A MiniCluster whose pods do not all fit on any member that it may run on waits here, in the line of each of them.</Empty>
            : by === "member" ? <ByMember lines={matching(value.lines, text)} /> : <ByMiniCluster waiting={waiting.filter((w) => `${w.namespace}/${w.name}`.includes(text) || w.places.some((p) => p.member.includes(text)))} />}
      </div>
    </>
  );
}

function None() {
  return <Empty title="Nothing in the lines matches" actions={<button type="button" onClick={() => setQuery({ q: null })}>Clear</button>} />;
}

function ByMember({ lines }: { lines: readonly Line[] }) {
  return lines.length ? <>{lines.map((line) => <LineOf key={line.member} line={line} />)}</> : <None />;
}

const FEW = 6;

function LineOf({ line }: { line: Line }) {
  const all = useSignal(false);
  const shown = all.value ? line.places : line.places.slice(0, FEW);
  return (
    <section class="queue-line" aria-label={`Line for room on ${line.member}`}>
      <h2><a href={to("members", line.member)}>{line.member}</a> <span class="dim num">{plural(line.total, "MiniCluster")} wait{line.total === 1 ? "s" : ""}</span>
        {line.staleSince ? <span class="unk queue-stale"><Shape name="unknown" />no news for <Age since={line.staleSince} /></span> : null}</h2>
      {line.unknown ? <p class="dim">What is free there is not known ({line.unknown}), so it is not said what fits.</p> : null}
      <ol>{shown.map((place) => <li key={place.place} class="queue-row"><PlaceOf place={place} known={!line.unknown} /></li>)}</ol>
      {line.places.length > FEW ? <button type="button" class="plain" aria-expanded={all.value} onClick={() => (all.value = !all.value)}>{all.value ? "Show fewer" : `Show ${count(line.places.length - FEW)} more`}</button> : null}
      {line.total > line.places.length && (all.value || line.places.length <= FEW) ? <p class="dim">{count(line.total - line.places.length)} more stand behind these.</p> : null}
    </section>
  );
}

function PlaceOf({ place, known }: { place: Place; known: boolean }) {
  if (place.hidden) return <><span class="queue-place num">{place.place}</span><span class="queue-name dim">another MiniCluster</span></>;
  return (
    <>
      <span class="queue-place num">{place.place}</span>
      <span class="queue-name"><a href={`${to("miniclusters", place.namespace ?? "", place.name ?? "")}?tab=why`}>{place.name}</a> <span class="dim">{place.namespace}</span></span>
      <Needs pods={place.pods} place={place} />
      {known ? <Fits fits={place.fits} pods={place.pods} /> : <span class="queue-fits dim">–</span>}
      <Missing place={place} known={known} />
      <span class="queue-since dim num">{place.since ? <Age since={place.since} /> : "–"}{place.priority ? <span title="Priority: higher comes first in its namespace"> · priority {place.priority}</span> : null}</span>
    </>
  );
}

const Needs = ({ pods, place }: { pods: number; place: Pick<Place, "each"> }) => <span class="queue-needs num" title="Pods, and what each asks for">{count(pods)} × {amountsOf(place.each)}</span>;

/** Fits: how many of its pods have room, as a picture while they are few. */
function Fits({ fits, pods }: { fits: number; pods: number }) {
  const all = fits >= pods;
  return (
    <span class={`queue-fits ${all ? "ok" : "bad"}`}>
      {pods <= 16 ? <svg class="queue-pods" viewBox={`0 0 ${pods * 9} 8`} width={pods * 9} height="8" aria-hidden="true">{Array.from({ length: pods }, (_, i) => <rect key={i} x={i * 9 + 0.75} y="0.75" width="6.5" height="6.5" rx="1" class={i < fits ? "has" : "lacks"} />)}</svg>
        : <span class="meter" aria-hidden="true"><i style={{ width: `${(100 * fits) / pods}%` }} /></span>}
      <span class="num">{count(fits)} of {count(pods)} fit</span>
    </span>
  );
}

function Missing({ place, known }: { place: Place; known: boolean }) {
  const behind = place.behind ? (place.behind.name ? <>after <a href={to("miniclusters", place.behind.namespace, place.behind.name)}>{place.behind.name}</a></> : <>after another MiniCluster</>) : null;
  const text = place.miss ?? place.turn;
  const turn = !place.miss && !place.turn && !behind;
  return (
    <span class="queue-why">
      {turn ? (known ? <span class="ok">It is its turn: it begins now.</span> : <span class="dim">Waits for news</span>) : <>{text ? <span class="queue-text" title={text}>{text}</span> : null}{behind && !(text ?? "").startsWith("comes after") ? <span class="dim">{text ? ", " : ""}{behind}</span> : null}</>}
    </span>
  );
}

function ByMiniCluster({ waiting }: { waiting: readonly Waiting[] }) {
  if (waiting.length === 0) return <None />;
  return <ul class="queue-all">{waiting.map((w) => <WaitingOf key={`${w.namespace}/${w.name}`} waiting={w} />)}</ul>;
}

function WaitingOf({ waiting: w }: { waiting: Waiting }) {
  return (
    <li class="queue-waiting">
      <div class="queue-head">
        <a href={`${to("miniclusters", w.namespace, w.name)}?tab=why`}><b>{w.name}</b></a> <span class="dim">{w.namespace}</span>
        <Needs pods={w.pods} place={w} />
        <span class="grow" />
        <span class="dim num">{w.since ? <>waits for <Age since={w.since} /></> : null}</span>
      </div>
      <ul>
        {w.places.map(({ member, place, total, known }) => (
          <li key={member} class="queue-where">
            <a class="clip" href={to("members", member)}>{member}</a><span class="dim num nowrap">{ordinal(place.place)} of {total}</span>
            {known ? <Fits fits={place.fits} pods={place.pods} /> : <span class="queue-fits dim">not known</span>}
            <Missing place={place} known={known} />
          </li>
        ))}
      </ul>
    </li>
  );
}
