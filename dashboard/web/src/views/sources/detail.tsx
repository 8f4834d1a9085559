import { useSignal } from "@preact/signals";
import { client, data } from "../../api/client";
import type { Action, Commit, Row, SourceDetail } from "../../api/types";
import { to, type RouteProps } from "../../app/router";
import { absolute, count, plural, shortHash } from "../../data/format";
import { useResource } from "../../data/resource";
import { session } from "../../data/session";
import { Actions } from "../../ui/action";
import { Age } from "../../ui/age";
import { Icon, Shape } from "../../ui/icons";
import { Failed, Loading, Outdated } from "../../ui/messages";
import { signOf, State } from "../../ui/state";
import { byRevision, filesOf, shownOf, type File } from "./source";
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
          <a href={`/?source=${encodeURIComponent(`${s.namespace}/${s.name}`)}`}>{plural(s.miniClusters, "MiniCluster")}</a></p>
      </div>
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
      <Revisions source={s} />
    </>
  );
}

const FEW = 12;

/** Names of objects, KIND/NAME. MiniClusters are links. */
function Names({ names, namespace }: { names: readonly string[]; namespace: string }) {
  const all = useSignal(false);
  return (
    <>
      <ul class="names">{(all.value ? names : names.slice(0, FEW)).map((each) => {
        const [kind = "", name = ""] = each.split("/");
        return <li key={each}>{kind === "FleetMiniCluster" ? <a href={to("miniclusters", namespace, name)}>{name}</a> : <>{name} <span class="dim">{kind}</span></>}</li>;
      })}</ul>
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

function RevisionOf({ commit, applied, rows }: { commit: Commit; applied: boolean; rows: readonly Row[] }) {
  return (
    <li class={`revision ${applied ? "applied" : ""}`}>
      <span class="revision-mark" aria-hidden="true" />
      <div class="revision-what">
        <p class="revision-line"><span class="mono" title={commit.hash ?? commit.revision}>{shortHash(commit.hash || commit.revision)}</span><b class="revision-subject" title={commit.subject}>{commit.subject ?? commit.revision}</b>{applied ? <State state="Synced" word="Applied" /> : null}</p>
        <p class="dim">{commit.author ? <span class="overflow-any">{commit.author}</span> : null}{commit.time ? <span title={absolute.format(new Date(commit.time))}>{commit.author ? ", " : ""}<Age since={commit.time} /> ago</span> : null}</p>
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
