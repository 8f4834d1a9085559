import { useSignal } from "@preact/signals";
import { client, data } from "../../api/client";
import type { Action, AppliedCommit, Row, SourceDetail } from "../../api/types";
import { to, type RouteProps } from "../../app/router";
import { absolute, count, plural, shortHash } from "../../data/format";
import { useResource } from "../../data/resource";
import { session } from "../../data/session";
import { Actions } from "../../ui/action";
import { Age } from "../../ui/age";
import { Icon, Shape } from "../../ui/icons";
import { Failed, Loading, Outdated } from "../../ui/messages";
import { signOf, State } from "../../ui/state";
import { byConsequence, byRevision, changedBy, filesOf, inventoryShown, inventoryStates, plannedOf, shownOf, type File } from "./source";
import "../shared/shared.css";
import "./sources.css";

/** What an approval is about is the commit, by its full hash, that its effect was told of, also when a later one is applied meanwhile. */
const revisions = new WeakMap<Action, string>();

/** SourceView is one repository: what waits for approval, what is wrong in it, and its revisions with what came of them. */
export default function SourceView({ params }: RouteProps) {
  const { namespace = "", name = "" } = params;
  const same = (o: { namespace: string; name: string }) => o.namespace === namespace && o.name === name;
  const read = useResource(`source ${namespace}/${name}`, (signal) => data(client.GET("/api/v1/sources/{namespace}/{name}", { params: { path: { namespace, name } }, signal })), { affected: (change) => change.sources.some(same), cursor: (s) => s.cursor });
  const source = read.value.value;
  const failure = read.failure.value;
  for (const action of source?.actions ?? []) if (source?.commit) revisions.set(action, source.commit.hash ?? "");
  return (
    <>
      <header class="view-head source-head">
        <nav class="crumbs-to" aria-label="Breadcrumb"><a href="/sources">Sources</a><Icon name="chevron" /><span class="dim">{namespace}</span><Icon name="chevron" /></nav>
        <h1 class="clip" title={name}>{name}</h1>
        {source ? <><State {...shownOf(source)} /><span class="dim">for <Age since={source.since} /></span></> : null}
        <span class="grow" />
        {source && session.value?.writes ? (
          <Actions actions={source.actions} path={`/api/v1${to("sources", namespace, name)}`} object={name} done={read.refresh}
            body={(action) => (action.name.startsWith("approve-") ? { revision: revisions.get(action) ?? "" } : undefined)} />
        ) : null}
      </header>
      <div class="view-body source">
        {source ? <><Outdated readAt={read.readAt.value} failure={failure} retry={read.refresh} /><Body source={source} /></> : failure ? <Failed failure={failure} what="source" retry={read.refresh} /> : <Loading what="the source" lines={10} />}
      </div>
    </>
  );
}

function Body({ source: s }: { source: SourceDetail }) {
  return (
    <>
      <div class="source-intro">
        {s.message ? <p class="source-message">{s.message}</p> : null}
        <p class="source-facts"><span class="mono overflow-any">{s.url}</span><span>{s.ref}{s.path ? <span class="dim"> in {s.path}</span> : null}</span>
          {s.verify ? <span>{s.verify === "HEAD" ? "Commits" : s.verify === "Tag" ? "Tags" : "Commits and tags"} have to be signed</span> : null}
          <a href={`/?source=${encodeURIComponent(`${s.namespace}/${s.name}`)}`}>{plural(s.miniClusters, "MiniCluster")}</a></p>
      </div>
      {s.attempted && s.attempted.hash !== s.planned?.commit.hash ? <Attempted source={s} commit={s.attempted} /> : null}
      {s.planned ? <Planned source={s} planned={s.planned} /> : null}
      {s.pruneBlocked || s.prune.length ? (
        <section class="blocked">
          <h2><Shape name="waiting" /> Would be deleted, and waits for approval</h2>
          <p>{s.commit ? <>At <span class="mono">{s.commit.revision}</span> these</> : "These"} {plural(s.prune.length, "object")} {s.prune.length === 1 ? "is" : "are"} not in the repository any more. {s.pruneLiveRuns > 0 ? <b>Deleting them stops {plural(s.pruneLiveRuns, "live run")}.</b> : "No live run is stopped by deleting them."} Approve the prune, or restore the files.</p>
          <Names names={s.prune} namespace={s.namespace} />
        </section>
      ) : null}
      {s.runsBlocked || s.runsAnew.length ? (
        <section class="blocked">
          <h2><Shape name="waiting" /> Would run anew, and waits for approval</h2>
          <p>{s.commit ? <>At <span class="mono">{s.commit.revision}</span> these</> : "These"} {plural(s.runsAnew.length, "MiniCluster")} {s.runsAnew.length === 1 ? "is" : "are"} different from what has run. Approve the runs, or push the change in smaller parts.</p>
          <Names names={s.runsAnew} namespace={s.namespace} />
        </section>
      ) : null}
      {s.problemList.length ? <Problems source={s} /> : null}
      <Inventory source={s} />
      <Revisions source={s} />
    </>
  );
}

/** Attempted is the commit that was read last and is not the one that is applied. */
function Attempted({ source: s, commit }: { source: SourceDetail; commit: AppliedCommit }) {
  return (
    <section class="attempted">
      <h2>Read last{s.dryRun ? "" : ", and not applied"}</h2>
      <CommitLine commit={commit} />
    </section>
  );
}

/** Planned is what a dry run has found: nothing of it was done. */
function Planned({ source: s, planned }: { source: SourceDetail; planned: NonNullable<SourceDetail["planned"]> }) {
  const all = useSignal(false);
  const changes = byConsequence(planned.changes);
  const shown = all.value ? changes : changes.slice(0, FEW);
  return (
    <section>
      <h2>Dry run <span class="dim num">{planned.total ? `${plural(planned.total, "object")} would change` : "nothing would change"}</span></h2>
      <CommitLine commit={planned.commit} />
      {changes.length ? (
        <table class="table planned">
          <thead><tr><th>What would be done</th><th>Object</th><th>File</th></tr></thead>
          <tbody>{shown.map((c) => (
            <tr key={`${c.action} ${c.object}`}>
              <td><State {...plannedOf(c)} />{c.needsApproval ? <div class="dim">after approval</div> : null}</td>
              <td><Name object={c.object} namespace={s.namespace} known={c.action !== "Create"} />{c.message ? <div class="dim overflow-any">{c.message}</div> : null}</td>
              <td class="mono dim overflow-any">{c.path}</td>
            </tr>
          ))}</tbody>
        </table>
      ) : null}
      {changes.length > FEW ? <button type="button" class="plain more-names" aria-expanded={all.value} onClick={() => (all.value = !all.value)}>{all.value ? "Show fewer" : `Show ${count(changes.length - FEW)} more`}</button> : null}
      {planned.total > changes.length ? <p class="dim">{count(planned.total - changes.length)} more are not listed.</p> : null}
    </section>
  );
}

/** Inventory is how many objects the source has in each state, and those that are not as Git declares them. */
function Inventory({ source: s }: { source: SourceDetail }) {
  if (s.inventory.length === 0) return null;
  const { counts, rest } = inventoryStates(s.inventory);
  return (
    <section>
      <h2>Objects <span class="dim num">{count(s.objects)}</span></h2>
      <p class="inventory-counts">{[...counts].map(([state, n]) => { const { state: sign, word } = inventoryShown(state); return <span key={state}><State state={sign} word={`${count(n)} ${word.toLowerCase()}`} /></span>; })}
        {s.objects > s.inventory.length ? <span class="dim">{count(s.objects - s.inventory.length)} more are not listed</span> : null}</p>
      {rest.length ? (
        <ul class="inventory">{rest.slice(0, MANY).map((o) => (
          <li key={o.object}><State {...inventoryShown(o.state)} /><Name object={o.object} namespace={s.namespace} known /><span class="mono dim overflow-any">{o.path}</span></li>
        ))}</ul>
      ) : null}
      {rest.length > MANY ? <p class="dim">{count(rest.length - MANY)} more are not listed.</p> : null}
    </section>
  );
}

const FEW = 12;
const MANY = 100;

/** Name of an object, KIND/NAME. A MiniCluster that is there is a link. */
function Name({ object, namespace, known }: { object: string; namespace: string; known: boolean }) {
  const [kind = "", name = ""] = object.split("/");
  if (kind === "FleetMiniCluster") return known ? <a class="overflow-any" href={to("miniclusters", namespace, name)}>{name}</a> : <b class="overflow-any">{name}</b>;
  return <span class="overflow-any">{name} <span class="dim">{kind}</span></span>;
}

/** Names of objects, KIND/NAME. MiniClusters are links. */
function Names({ names, namespace }: { names: readonly string[]; namespace: string }) {
  const all = useSignal(false);
  return (
    <>
      <ul class="names">{(all.value ? names : names.slice(0, FEW)).map((each) => <li key={each}><Name object={each} namespace={namespace} known /></li>)}</ul>
      {names.length > FEW ? <button type="button" class="plain more-names" aria-expanded={all.value} onClick={() => (all.value = !all.value)}>{all.value ? "Show fewer" : `Show ${count(names.length - FEW)} more`}</button> : null}
    </>
  );
}

function Problems({ source: s }: { source: SourceDetail }) {
  const files = filesOf(s.problemList);
  const rest = s.problems - s.problemList.length;
  return (
    <section>
      <h2>Problems <span class="dim num">{count(s.problems)} in {plural(files.length, "file")}</span></h2>
      {files.map((file) => <FileOf key={file.path} file={file} />)}
      {rest > 0 ? <p class="dim">{count(rest)} more are not listed.</p> : null}
    </section>
  );
}

function FileOf({ file }: { file: File }) {
  return (
    <div class="file">
      <h3 class="mono overflow-any">{file.path}</h3>
      <ul>{file.problems.map((p, i) => (
        <li key={i}>
          <span class="line-number mono">{p.line ? `:${p.line}` : ""}</span>
          <State state={p.warning ? "Pending" : "Failed"} word={p.warning ? "Warning" : "Error"} />
          <span class="overflow-any">{p.object ? <b>{p.object}</b> : null}{p.field ? <span class="mono"> {p.field}</span> : null}{p.object || p.field ? ": " : ""}{p.message}</span>
        </li>
      ))}</ul>
    </div>
  );
}

/** Revisions, the latest first, each with the MiniClusters that it was the last to change. */
function Revisions({ source: s }: { source: SourceDetail }) {
  const key = `${s.namespace}/${s.name}`;
  const read = useResource(`of ${key}`, (signal) => data(client.GET("/api/v1/miniclusters", { params: { query: { source: [key], limit: 1000, sort: "attention" } }, signal })), {
    affected: (change) => change.removed.length > 0 || change.miniClusters.some((row) => row.namespace === s.namespace && row.source === s.name), cursor: (rows) => rows.cursor, interval: 3_000,
  });
  const groups = byRevision(read.value.value?.items ?? []);
  const listed = new Set(s.commits.map((commit) => commit.revision));
  const older = [...groups].filter(([revision]) => !listed.has(revision)).flatMap(([, rows]) => rows);
  return (
    <section>
      <h2>Revisions <span class="dim">and the MiniClusters that each was the last to change</span></h2>
      {s.commits.length === 0 ? <p class="dim">None has been applied yet.</p> : (
        <ol class="revisions">
          {s.commits.map((commit) => <RevisionOf key={commit.revision} commit={commit} applied={commit.revision === s.commit?.revision} rows={groups.get(commit.revision) ?? []} />)}
          {older.length ? <li class="revision"><span class="revision-mark" /><div class="revision-what"><p class="dim">Earlier revisions</p><Chips rows={older} /></div></li> : null}
        </ol>
      )}
    </section>
  );
}

/** CommitLine is a commit with its subject, its author, and by whose key it is signed. */
function CommitLine({ commit, applied = false }: { commit: AppliedCommit; applied?: boolean }) {
  return (
    <>
      <p class="revision-line"><span class="mono" title={commit.hash ?? commit.revision}>{shortHash(commit.hash || commit.revision)}</span><b class="revision-subject" title={commit.subject}>{commit.subject ?? commit.revision}</b>{applied ? <State state="Synced" word="Applied" /> : null}</p>
      <p class="dim revision-about">{commit.author || commit.time ? <span>{commit.author ? <span class="overflow-any">{commit.author}</span> : null}{commit.time ? <span title={absolute.format(new Date(commit.time))}>{commit.author ? ", " : ""}<Age since={commit.time} /> ago</span> : null}</span> : null}
        {commit.signedBy.length ? <span class="overflow-any" title={commit.signedBy.join("\n")}>signed by <span class="mono">{commit.signedBy.join(", ")}</span></span> : null}</p>
    </>
  );
}

function RevisionOf({ commit, applied, rows }: { commit: AppliedCommit; applied: boolean; rows: readonly Row[] }) {
  return (
    <li class={`revision ${applied ? "applied" : ""}`}>
      <span class="revision-mark" aria-hidden="true" />
      <div class="revision-what">
        <CommitLine commit={commit} applied={applied} />
        {changedBy(commit) ? <p class="dim" title={commit.changed.join("\n")}>{changedBy(commit)}{commit.applied ? <>, applied <span title={absolute.format(new Date(commit.applied))}><Age since={commit.applied} /> ago</span></> : null}</p> : null}
        <Chips rows={rows} />
      </div>
    </li>
  );
}

const CHIPS = 8;

function Chips({ rows }: { rows: readonly Row[] }) {
  const all = useSignal(false);
  if (rows.length === 0) return null;
  return (
    <ul class="came">
      {(all.value ? rows : rows.slice(0, CHIPS)).map((row) => {
        const sign = signOf(row.state);
        return <li key={row.uid}><a class="came-one" href={to("miniclusters", row.namespace, row.name)} title={`${row.state}: ${row.why}`}><span class={`came-state ${sign.tone}`}><Shape name={sign.shape} /><span class="hidden">{row.state}</span></span><span class="clip">{row.name}</span></a></li>;
      })}
      {rows.length > CHIPS ? <li><button type="button" class="plain more-names" aria-expanded={all.value} onClick={() => (all.value = !all.value)}>{all.value ? "Show fewer" : `${count(rows.length - CHIPS)} more`}</button></li> : null}
    </ul>
  );
}
