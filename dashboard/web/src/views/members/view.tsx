import { client, data } from "../../api/client";
import type { Member } from "../../api/types";
import { query, setQuery, to } from "../../app/router";
import { count, plural } from "../../data/format";
import { useResource } from "../../data/resource";
import { session } from "../../data/session";
import { Facet } from "../../ui/facets";
import { Icon } from "../../ui/icons";
import { Empty, Failed, Forbidden, Loading, Outdated } from "../../ui/messages";
import { byAttention, State } from "../../ui/state";
import { Meter } from "./heat";
import { freeOf, shownOf, taintOf, useOf } from "./node";
import "../shared/shared.css";
import "./members.css";

/** MembersView lists members: those first that cannot be reached or take no runs. */
export default function MembersView() {
  if (session.value && !session.value.members) return <><header class="view-head"><h1>Members</h1></header><Forbidden what="members" absent={false} /></>;
  return <List />;
}

function List() {
  const q = query.value;
  const read = useResource("members", (signal) => data(client.GET("/api/v1/members", { signal })), { affected: (change) => change.members.length > 0 || change.queue, cursor: (members) => members.cursor, interval: 2_000 });
  const text = (q.get("q") ?? "").toLowerCase();
  const states = q.getAll("state");
  const value = read.value.value;
  const failure = read.failure.value;
  const all = value ? [...value.items].sort((a, b) => byAttention(shownOf(a).state, shownOf(b).state) || (a.name < b.name ? -1 : 1)) : [];
  const items = all.filter((m) => (!text || textOf(m).includes(text)) && (!states.length || states.includes(shownOf(m).word)));
  const counts = new Map<string, number>();
  for (const m of all) counts.set(shownOf(m).word, (counts.get(shownOf(m).word) ?? 0) + 1);
  return (
    <>
      <header class="view-head"><h1>Members</h1>{value ? <span class="dim num">{count(all.filter((m) => m.ready).length)} of {plural(all.length, "member")} can be reached</span> : null}</header>
      <div class="filter-bar">
        <div class="search"><Icon name="search" /><input type="search" list={undefined} data-search aria-label="Find members" aria-keyshortcuts="/" placeholder="name, label=value or taint" value={q.get("q") ?? ""} onInput={(event) => setQuery({ q: event.currentTarget.value || null }, { replace: true })} /></div>
        <Facet name="State" values={[...counts].map(([state, n]) => ({ value: state, count: n }))} chosen={states} choose={(state) => setQuery({ state })} />
      </div>
      <div class="view-body">
        {value ? <Outdated readAt={read.readAt.value} failure={failure} retry={read.refresh} /> : null}
        {!value ? (failure ? <Failed failure={failure} what="members" retry={read.refresh} /> : <Loading what="members" lines={10} />)
          : all.length === 0 ? <Empty title="This fleet has no members yet">Register one with <code>minifleet cluster join</code>: it makes a MemberCluster with a Secret on the hub, and least-privilege credentials on the member.</Empty>
            : items.length === 0 ? <Empty title="No member matches" actions={<button type="button" onClick={() => setQuery({ q: null, state: null })}>Clear filters</button>} />
              : <Table items={items} />}
      </div>
    </>
  );
}

const textOf = (m: Member) => [m.name, ...Object.entries(m.labels).map(([k, v]) => `${k}=${v}`), ...(m.taints ?? []).map(taintOf), m.message].join(" ").toLowerCase();

function Table({ items }: { items: readonly Member[] }) {
  return (
    <table class="table members">
      <thead><tr><th>Member</th><th>State</th><th>Room free</th><th class="right">Nodes</th><th class="right">Live runs</th><th class="right">Waiting</th><th>Labels and taints</th><th>Version</th></tr></thead>
      <tbody>{items.map((m) => <MemberRow key={m.name} member={m} />)}</tbody>
    </table>
  );
}

function MemberRow({ member: m }: { member: Member }) {
  const shown = shownOf(m);
  return (
    <tr>
      <td class="m-name"><a href={to("members", m.name)}><b>{m.name}</b></a></td>
      <td class="m-state"><State {...shown} />{!m.ready && m.cordoned ? <span class="dim"> cordoned</span> : null}
        {m.message && shown.state !== "Ready" ? <div class="m-message dim" title={m.message}>{m.message}</div> : null}
        {m.unowned + m.orphans > 0 ? <div class="m-attention"><State state="Invalid" word={[m.unowned ? `${plural(m.unowned, "Job")} without an owner` : "", m.orphans ? plural(m.orphans, "orphan") : ""].filter(Boolean).join(", ")} /></div> : null}</td>
      <td class="m-room">{m.room ? <span class="m-amounts"><Meter share={useOf(m.room).share} />
        <span class="num nowrap">{freeOf(m.room, "cpu")}</span>{m.room.total.gpus > 0 ? <span class="num nowrap">{freeOf(m.room, "gpus")}</span> : null}<span class="dim num nowrap">{freeOf(m.room, "memory")}</span></span>
        : <span class="dim">not known{m.ready ? "" : " while it is not reached"}</span>}</td>
      <td class="m-nodes right num" data-label="nodes">{m.room ? count(m.room.nodes) : "–"}</td>
      <td class="m-live right num" data-label="live runs">{m.live ? <a href={`/?member=${encodeURIComponent(m.name)}&state=Running&state=Starting&state=Stopping&state=Unknown&state=Suspended`}>{count(m.live)}</a> : 0}</td>
      <td class="m-waiting right num" data-label="waiting">{m.waiting ? <a href={`/queue?q=${encodeURIComponent(m.name)}`}>{count(m.waiting)}</a> : 0}</td>
      <td class="m-labels"><Tags member={m} most={4} /></td>
      <td class="m-version dim">{m.version || "–"}</td>
    </tr>
  );
}

/** Tags are labels and taints. Pressed, a label shows all members that have it. */
export function Tags({ member, most = Infinity }: { member: Pick<Member, "labels" | "taints">; most?: number }) {
  const labels = Object.entries(member.labels);
  const taints = member.taints ?? [];
  if (labels.length + taints.length === 0) return <span class="dim">none</span>;
  return (
    <span class="tags">
      {taints.map((t) => <span key={taintOf(t)} class="tag taint" title={`Taint ${taintOf(t)}`}>⊘ {taintOf(t)}</span>)}
      {labels.slice(0, most).map(([k, v]) => <a key={k} class="tag" title={`${k}=${v}`} href={`/members?q=${encodeURIComponent(`${k}=${v}`)}`}>{k}={v}</a>)}
      {labels.length > most ? <span class="dim">{labels.length - most} more</span> : null}
    </span>
  );
}
