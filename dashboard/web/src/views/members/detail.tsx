import { useSignal } from "@preact/signals";
import { client, data } from "../../api/client";
import type { MemberDetail, Run } from "../../api/types";
import { to, type RouteProps } from "../../app/router";
import { clockTime, count, plural } from "../../data/format";
import { useResource } from "../../data/resource";
import { session } from "../../data/session";
import { Actions } from "../../ui/action";
import { Age } from "../../ui/age";
import { CommitText } from "../../ui/commit";
import { Icon, Shape } from "../../ui/icons";
import { Failed, Loading, Outdated } from "../../ui/messages";
import { State } from "../../ui/state";
import { pageOf, stateOf } from "../shared/run";
import { Meter, Nodes } from "./heat";
import { freeOf, shownOf } from "./node";
import { Tags } from "./view";
import "../shared/shared.css";
import "./members.css";

/** MemberView is one member: its room per node, what runs there, who waits for it, and what is left over on it. */
export default function MemberView({ params }: RouteProps) {
  const { name = "" } = params;
  const read = useResource(`member ${name}`, (signal) => data(client.GET("/api/v1/members/{name}", { params: { path: { name } }, signal })), {
    affected: (change) => change.members.includes(name) || change.queue || change.miniClusters.some((row) => row.members.includes(name)),
    cursor: (m) => m.cursor,
    interval: 2_000,
  });
  const member = read.value.value;
  const failure = read.failure.value;
  return (
    <>
      <header class="view-head member-head">
        <nav class="crumbs-of" aria-label="Breadcrumb"><a href="/members">Members</a><Icon name="chevron" /></nav>
        <h1 class="clip" title={name}>{name}</h1>
        {member ? <><State {...shownOf(member)} />{!member.ready && member.cordoned ? <State state="Suspended" word="Cordoned" /> : null}<span class="dim">for <Age since={member.since} /></span></> : null}
        <span class="grow" />
        {member && session.value?.writes ? <Actions actions={member.actions} path={`/api/v1${to("members", name)}`} object={name} done={read.refresh} /> : null}
      </header>
      <div class="view-body member">
        {member ? <><Outdated readAt={read.readAt.value} failure={failure} retry={read.refresh} /><Body member={member} /></> : failure ? <Failed failure={failure} what="member" retry={read.refresh} /> : <Loading what="the member" lines={10} />}
      </div>
    </>
  );
}

function Body({ member: m }: { member: MemberDetail }) {
  const shown = shownOf(m);
  return (
    <>
      {!m.ready ? (
        <p class={`banner ${shown.state === "Unknown" ? "unk" : "bad"}`} role="status"><Shape name={shown.state === "Unknown" ? "unknown" : "invalid"} />
          <span>{m.lastHeard ? <><b>No news for <Age since={m.lastHeard} />.</b> What is shown is from {clockTime(Date.parse(m.lastHeard))}; what ran there may go on, and is not repeated elsewhere.</> : <b>It has never been heard of.</b>} {m.message}</span></p>
      ) : null}
      <dl class="facts member-facts">
        {m.room ? <><dt>Room free</dt><dd class="member-room">{(["cpu", "gpus", "memory"] as const).filter((r) => m.room && m.room.total[r] > 0).map((r) => <span key={r} class="num nowrap"><Meter share={m.room ? 1 - m.room.free[r] / m.room.total[r] : 0} /> {m.room ? freeOf(m.room, r) : ""}{r === "memory" ? " memory" : ""}</span>)}</dd></> : <><dt>Room</dt><dd class="dim">not known{m.nodesError ? `: ${m.nodesError}` : ""}</dd></>}
        <dt>Labels, taints</dt><dd><Tags member={m} /></dd>
        {m.version ? <><dt>Kubernetes</dt><dd>{m.version}</dd></> : null}
        {m.conditions.filter((c) => c.type !== "Ready").map((c) => <><dt key={c.type}>{c.type}</dt><dd key={`${c.type} is`}>{c.status === "True" ? "Yes" : c.status === "False" ? "Not yet" : "Not known"}: {c.message || c.reason}, <span class="dim">since <Age since={c.since} /></span></dd></>)}
      </dl>
      {m.unownedJobs.length + m.orphans > 0 ? <LeftOver member={m} /> : null}
      {m.nodes.length ? <Nodes nodes={m.nodes} /> : m.ready ? <section><h2>Room per node</h2><p class="dim">{m.nodesError ? `The nodes are not known: ${m.nodesError}` : "It has no nodes, or you may not see them."}</p></section> : null}
      <div class="member-columns">
        <LiveRuns runs={m.runs} live={m.live} />
        <Waiting member={m} />
      </div>
    </>
  );
}

function LeftOver({ member: m }: { member: MemberDetail }) {
  return (
    <section class="left-over">
      <h2>Nobody owns</h2>
      {m.unownedJobs.length ? (
        <>
          <p>{plural(m.unownedJobs.length, "live Job")} of this fleet there {m.unownedJobs.length === 1 ? "belongs" : "belong"} to no run that the hub knows, so {m.unownedJobs.length === 1 ? "it takes" : "they take"} room and no one waits for {m.unownedJobs.length === 1 ? "it" : "them"}. If the work is still wanted, let it end; else delete it on the member:</p>
          <ul>{m.unownedJobs.map((job) => (
            <li key={`${job.namespace}/${job.name}`}>
              <span class="overflow"><b>{job.name}</b> <span class="dim">{job.namespace}{job.owner ? `, was of ${job.owner}` : ""}{job.run ? `, run ${job.run}` : ""}; seen for <Age since={job.since} /></span></span>
              <code class="command">kubectl --context {m.name} -n {job.namespace} delete job {job.name}</code>
            </li>
          ))}</ul>
        </>
      ) : null}
      {m.orphans ? <p>{plural(m.orphans, "orphan")}: objects of MiniClusters that are not on the hub any more. They are deleted as soon as the member lets the hub do so; there is nothing to do while it can be reached.</p> : null}
    </section>
  );
}

const FEW = 12;

function LiveRuns({ runs, live }: { runs: readonly Run[]; live: number }) {
  const all = useSignal(false);
  const shown = all.value ? runs : runs.slice(0, FEW);
  return (
    <section>
      <h2>Live runs <span class="dim num">{count(live)}</span></h2>
      {runs.length === 0 ? <p class="dim">Nothing that you may see runs here.</p> : (
        <ul class="member-runs">{shown.map((run) => (
          <li key={run.id}>
            <a class="clip" href={pageOf(run)}><b>{run.name}</b> <span class="dim">{run.namespace}</span></a>
            <State state={stateOf(run)} staleSince={run.staleSince} />
            <CommitText commit={run.commit} />
            <span class="dim num right">{run.start ? <Age since={run.start} /> : "–"}</span>
          </li>
        ))}</ul>
      )}
      {runs.length > FEW ? <button type="button" class="plain more" aria-expanded={all.value} onClick={() => (all.value = !all.value)}>{all.value ? "Show fewer" : `Show ${count(runs.length - FEW)} more`}</button> : null}
    </section>
  );
}

function Waiting({ member: m }: { member: MemberDetail }) {
  const places = m.line.places.slice(0, FEW);
  return (
    <section>
      <h2>Line for room <span class="dim num">{count(m.line.total)}</span>{m.line.total ? <a class="in-queue" href={`/queue?q=${encodeURIComponent(m.name)}`}>in the queue</a> : null}</h2>
      {places.length === 0 ? <p class="dim">Nobody waits for room here.</p> : (
        <ol class="member-line">{places.map((p) => (
          <li key={p.place}><span class="dim num">{p.place}</span>
            {p.hidden ? <span class="dim">another MiniCluster</span> : <span class="overflow"><a href={`${to("miniclusters", p.namespace ?? "", p.name ?? "")}?tab=why`}><b>{p.name}</b></a> <span class="num">{p.fits} of {p.pods} fit</span>{p.miss ?? p.turn ? <span class="dim">; {p.miss ?? p.turn}</span> : null}</span>}
          </li>
        ))}</ol>
      )}
    </section>
  );
}
