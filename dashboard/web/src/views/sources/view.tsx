import { client, data } from "../../api/client";
import type { Source } from "../../api/types";
import { query, setQuery, to } from "../../app/router";
import { count, plural } from "../../data/format";
import { useResource } from "../../data/resource";
import { Age } from "../../ui/age";
import { CommitText } from "../../ui/commit";
import { Icon } from "../../ui/icons";
import { Empty, Failed, Loading, Outdated } from "../../ui/messages";
import { byAttention, State } from "../../ui/state";
import { shownOf } from "./source";
import "../shared/shared.css";
import "./sources.css";

/** SourcesView lists the repositories that declare MiniClusters: those first that need somebody. */
export default function SourcesView() {
  const read = useResource("sources", (signal) => data(client.GET("/api/v1/sources", { signal })), { affected: (change) => change.sources.length > 0, cursor: (sources) => sources.cursor });
  const text = (query.value.get("q") ?? "").toLowerCase();
  const value = read.value.value;
  const failure = read.failure.value;
  const all = value ? [...value.items].sort((a, b) => byAttention(shownOf(a).state, shownOf(b).state) || (`${a.namespace}/${a.name}` < `${b.namespace}/${b.name}` ? -1 : 1)) : [];
  const items = all.filter((s) => !text || `${s.namespace}/${s.name} ${s.url} ${s.ref}`.toLowerCase().includes(text));
  return (
    <>
      <header class="view-head"><h1>Sources</h1>{value ? <span class="dim num">{count(all.filter((s) => shownOf(s).state === "Synced").length)} of {plural(all.length, "source")} synced</span> : null}</header>
      {all.length > 6 || text ? <div class="filter-bar"><div class="search"><Icon name="search" /><input type="search" list={undefined} data-search aria-label="Find sources" aria-keyshortcuts="/" placeholder="name, namespace or repository" value={query.value.get("q") ?? ""} onInput={(event) => setQuery({ q: event.currentTarget.value || null }, { replace: true })} /></div></div> : null}
      <div class="view-body">
        {value ? <Outdated readAt={read.readAt.value} failure={failure} retry={read.refresh} /> : null}
        {!value ? (failure ? <Failed failure={failure} what="sources" retry={read.refresh} /> : <Loading what="sources" />)
          : all.length === 0 ? <Empty title="No repository is followed yet">Create a GitSource with the URL of a repository: the MiniCluster manifests in it are applied, and each run tells its commit.</Empty>
            : items.length === 0 ? <Empty title="No source matches" actions={<button type="button" onClick={() => setQuery({ q: null })}>Clear</button>} />
              : <Table items={items} />}
      </div>
    </>
  );
}

function Table({ items }: { items: readonly Source[] }) {
  return (
    <table class="table sources">
      <thead><tr><th>Source</th><th>State</th><th>Applied</th><th class="right">MiniClusters</th><th class="right">Problems</th><th>Repository</th><th class="right">Since</th></tr></thead>
      <tbody>{items.map((s) => (
        <tr key={`${s.namespace}/${s.name}`}>
          <td class="s-name"><a href={to("sources", s.namespace, s.name)}><b>{s.name}</b></a> <span class="dim">{s.namespace}</span></td>
          <td class="s-state"><State {...shownOf(s)} />{s.message && shownOf(s).state !== "Synced" ? <div class="s-message dim" title={s.message}>{s.message}</div> : null}</td>
          <td class="s-commit"><CommitText commit={s.commit} />{s.commit?.author ? <div class="dim clip">{s.commit.author}{s.commit.time ? <>, <Age since={s.commit.time} /> ago</> : null}</div> : null}</td>
          <td class="s-count right num" data-label="MiniClusters"><a href={`/?source=${encodeURIComponent(`${s.namespace}/${s.name}`)}`}>{count(s.miniClusters)}</a></td>
          <td class="s-problems right num" data-label="problems">{s.problems ? <b class="bad">{count(s.problems)}</b> : 0}</td>
          <td class="s-url"><span class="mono">{s.url}</span><div class="dim">{s.ref}{s.path ? `, in ${s.path}` : ""}</div></td>
          <td class="s-since right dim"><Age since={s.since} /></td>
        </tr>
      ))}</tbody>
    </table>
  );
}
