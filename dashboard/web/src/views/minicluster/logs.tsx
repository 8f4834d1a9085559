import { useSignal } from "@preact/signals";
import { useEffect, useLayoutEffect, useMemo, useRef } from "preact/hooks";
import type { MiniCluster } from "../../api/types";
import { query, setQuery, to } from "../../app/router";
import { count } from "../../data/format";
import { HELD, readLogs, type Entry } from "../../data/logs";
import { windowOf } from "../../data/window";
import { Icon, Shape } from "../../ui/icons";
import { Empty, Forbidden } from "../../ui/messages";
import type { TabProps } from "./tab";

/** Height of a line in pixels. */
const LINE = 20;

type Status = Parameters<Parameters<typeof readLogs>[0]["status"]>[0];

/** Logs of one pod of it, by rank; followed as they come. What is read, and how, is in the URL. */
export default function Logs({ cluster }: TabProps) {
  const q = query.value;
  const members = [...new Set([...cluster.onMembers.map((m) => m.member), ...cluster.runs.map((r) => r.member)])];
  const member = q.get("member") ?? members[0] ?? "";
  const run = q.get("run") ?? "";
  const rank = Math.max(0, Number(q.get("rank") ?? 0) || 0);
  const previous = q.get("previous") === "true";
  const follow = q.get("follow") !== "false";
  if (!cluster.mayReadLogs) return <Forbidden what="logs of it" absent={false} />;
  if (members.length === 0) return <Empty title="There are no logs yet">It has not run on any member.</Empty>;
  const runs = cluster.runs.filter((r) => r.member === member && !r.remembered);
  const set = (changes: Record<string, string | null>) => setQuery(changes, { replace: true });
  return (
    <>
      <div class="bar log-controls">
        <label class="bar">Member <select value={member} onChange={(event) => set({ member: event.currentTarget.value, run: null })}>{members.map((m) => <option key={m} value={m}>{m}</option>)}</select></label>
        <label class="bar">Run <select value={run} onChange={(event) => set({ run: event.currentTarget.value || null })}><option value="">latest</option>{runs.map((r) => <option key={r.id} value={r.id}>{r.id} · {r.state}</option>)}</select></label>
        <label class="bar">Rank <input type="number" list={undefined} class="log-rank" min={0} max={Math.max(0, cluster.size - 1)} value={String(rank)} onChange={(event) => set({ rank: event.currentTarget.value === "0" ? null : event.currentTarget.value })} /></label>
        <label class="check"><input type="checkbox" checked={follow} onChange={(event) => set({ follow: event.currentTarget.checked ? null : "false" })} />Follow</label>
        <label class="check" title="Of the container before its last restart"><input type="checkbox" checked={previous} onChange={(event) => set({ previous: event.currentTarget.checked ? "true" : null })} />Previous</label>
      </div>
      <Reader key={[member, run, rank, previous, follow].join(" ")} cluster={cluster} member={member} run={run} rank={rank} previous={previous} follow={follow && !previous} />
    </>
  );
}

interface ReaderProps {
  cluster: MiniCluster;
  member: string;
  run: string;
  rank: number;
  previous: boolean;
  follow: boolean;
}

function Reader({ cluster, member, run, rank, previous, follow }: ReaderProps) {
  const lines = useRef<Entry[]>([]);
  const dropped = useRef(0);
  const version = useSignal(0);
  const status = useSignal<Status>({ kind: "reading", text: "" });
  const search = useSignal("");
  const hit = useSignal(-1);
  const bottom = useSignal(true);
  const top = useSignal(0);
  const box = useRef<HTMLDivElement>(null);

  useEffect(() => {
    let frame = 0;
    const stream = readLogs({
      follow,
      url: (since) => `/api/v1${to("miniclusters", cluster.namespace, cluster.name)}/logs?${new URLSearchParams({ member, rank: String(rank), follow: String(follow), ...(run ? { run } : {}), ...(previous ? { previous: "true" } : {}), ...(since ? { since } : { tail: "5000" }) })}`,
      status: (next) => (status.value = next),
      add: (entries) => {
        lines.current.push(...entries);
        const over = lines.current.length - HELD;
        if (over > 0) {
          lines.current.splice(0, over);
          dropped.current += over;
        }
        cancelAnimationFrame(frame);
        frame = requestAnimationFrame(() => version.value++);
      },
    });
    return () => {
      stream.close();
      cancelAnimationFrame(frame);
    };
  }, []);
  useLayoutEffect(() => {
    if (bottom.peek() && box.current) box.current.scrollTop = box.current.scrollHeight;
  }, [version.value]);

  const wanted = search.value.toLowerCase();
  const hits = useMemo(() => (wanted ? lines.current.flatMap((line, i) => (line.text.toLowerCase().includes(wanted) ? [i] : [])) : []), [wanted, version.value]);
  function go(step: number): void {
    if (hits.length === 0 || !box.current) return;
    hit.value = (hit.value + step + hits.length) % hits.length;
    bottom.value = false;
    box.current.scrollTop = Math.max(0, (hits[hit.value] ?? 0) * LINE - box.current.clientHeight / 2);
  }
  const total = lines.current.length;
  const shown = windowOf(top.value, box.current?.clientHeight ?? 600, LINE, total, 10);
  const current = hits[hit.value];
  return (
    <div class="log">
      <div class="bar log-bar">
        <div class="search"><Icon name="search" /><input type="search" list={undefined} data-search aria-label="Search in the log" placeholder="Search in the log" value={search.value} onInput={(event) => {
          search.value = event.currentTarget.value;
          hit.value = -1;
        }} onKeyDown={(event) => event.key === "Enter" && (event.preventDefault(), go(event.shiftKey ? -1 : 1))} /></div>
        {wanted ? <><span class="dim num" role="status">{hits.length ? `${hit.value < 0 ? "" : `${hit.value + 1} of `}${count(hits.length)}` : "none"}</span>
          <button type="button" aria-label="Hit before" onClick={() => go(-1)}><Icon name="up" /></button><button type="button" aria-label="Next hit" onClick={() => go(1)}><Icon name="down" /></button></> : null}
        <span class="grow" />
        <LogStatus status={status.value} lines={total} />
      </div>
      <div ref={box} class="log-lines" tabIndex={0} role="region" aria-label={`Log of rank ${rank} on ${member}`} onScroll={(event) => {
        const at = event.currentTarget;
        top.value = at.scrollTop;
        bottom.value = at.scrollHeight - at.scrollTop - at.clientHeight < 2 * LINE;
      }}>
        {dropped.current ? <p class="log-dropped">The first {count(dropped.current)} lines are not held here any more.</p> : null}
        {total === 0 ? <p class="dim log-none">{status.value.kind === "failed" ? status.value.text : status.value.kind === "ended" ? "The log is empty." : "Nothing yet."}</p> : null}
        <div class="log-space" style={{ height: `${total * LINE}px` }}>
          <div style={{ transform: `translateY(${shown.first * LINE}px)` }}>
            {lines.current.slice(shown.first, shown.first + shown.count).map((line, i) => (
              <div key={shown.first + i} class={`log-line ${line.kind} ${shown.first + i === current ? "current" : ""}`}>
                <time dateTime={line.time}>{line.time.slice(11, 19)}</time>
                <span>{line.kind === "lost" ? `⋯ ${line.text} ⋯` : marked(line.text, wanted)}</span>
              </div>
            ))}
          </div>
        </div>
      </div>
      {!bottom.value && follow ? <button type="button" class="log-latest" onClick={() => {
        bottom.value = true;
        if (box.current) box.current.scrollTop = box.current.scrollHeight;
      }}><Icon name="down" />Latest</button> : null}
    </div>
  );
}

function LogStatus({ status, lines }: { status: Status; lines: number }) {
  const text = { reading: "Reading", following: "Following", retrying: status.text, ended: status.text || "Ended", failed: "" }[status.kind];
  if (status.kind === "failed") return <span class="state bad"><Shape name="failed" /><span>{status.text}</span></span>;
  return <span class={status.kind === "retrying" ? "state unk" : "dim"} role="status">{status.kind === "retrying" ? <Shape name="unknown" /> : null}<span>{text}</span>{lines ? <span class="num"> · {count(lines)} lines</span> : null}</span>;
}

/** marked text: what was searched for stands out. */
function marked(text: string, wanted: string) {
  const at = wanted ? text.toLowerCase().indexOf(wanted) : -1;
  if (at < 0) return text;
  return <>{text.slice(0, at)}<mark>{text.slice(at, at + wanted.length)}</mark>{text.slice(at + wanted.length)}</>;
}
