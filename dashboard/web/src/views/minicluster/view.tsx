import { client, data } from "../../api/client";
import type { MiniCluster } from "../../api/types";
import { lazy } from "../../app/lazy";
import { query, setQuery, to, type RouteProps } from "../../app/router";
import { clockTime, plural } from "../../data/format";
import { about, useResource } from "../../data/resource";
import { Actions } from "../../ui/action";
import { Age } from "../../ui/age";
import { CommitText } from "../../ui/commit";
import { Icon, Shape } from "../../ui/icons";
import { Failed, Loading, Outdated } from "../../ui/messages";
import { State } from "../../ui/state";
import { Tabs } from "../../ui/tabs";
import type { TabProps } from "./tab";
import { tabs, type ClusterTab } from "./tabs";
import "./minicluster.css";

const shown = new Map(tabs.map((tab) => [tab.id, lazy<TabProps>(tab.load)]));

/** MiniClusterView is all that is known of one: how far it is and why, and in tabs what came of it. */
export default function MiniClusterView({ params }: RouteProps) {
  const { namespace = "", name = "" } = params;
  const read = useResource(`${namespace}/${name}`, (signal) => data(client.GET("/api/v1/miniclusters/{namespace}/{name}", { params: { path: { namespace, name } }, signal })), {
    affected: about(namespace, name),
    cursor: (cluster) => cluster.cursor,
  });
  const cluster = read.value.value;
  const failure = read.failure.value;
  return (
    <>
      <header class="view-head cluster-head">
        <nav class="crumbs" aria-label="Breadcrumb"><a href="/">Fleet</a><Icon name="chevron" /><a class="clip" href={`/?namespace=${encodeURIComponent(namespace)}`}>{namespace}</a></nav>
        <h1 title={name}>{name}</h1>
        {cluster ? <State state={cluster.state} place={cluster.place} staleSince={cluster.staleSince} /> : null}
        {cluster ? <span class="dim">for <Age since={cluster.since} /></span> : null}
        <span class="grow" />
        {cluster ? <Actions actions={cluster.actions} path={`/api/v1${to("miniclusters", namespace, name)}`} object={name} runs={cluster.runs} size={cluster.size} done={read.refresh} /> : null}
      </header>
      {cluster ? <Body cluster={cluster} /> : <div class="view-body">{failure ? <Failed failure={failure} what="MiniCluster" retry={read.refresh} /> : <Loading what="the MiniCluster" />}</div>}
      {cluster && failure ? <div class="view-body outdated"><Outdated readAt={read.readAt.value} failure={failure} retry={read.refresh} /></div> : null}
    </>
  );
}

function Body({ cluster }: { cluster: MiniCluster }) {
  const wanted = query.value.get("tab");
  const tab = tabs.find((t) => t.id === wanted) ?? (tabs[0] as ClusterTab);
  const Panel = shown.get(tab.id);
  return (
    <>
      {cluster.staleSince ? (
        <p class="banner unk cluster-stale" role="status"><Shape name="unknown" /><span>No news for <Age since={cluster.staleSince} /> from a member that it may run on. What is shown of it is from {clockTime(Date.parse(cluster.staleSince))}.</span></p>
      ) : null}
      <div class="cluster-intro">
        {cluster.why ? <p class="cluster-why">{cluster.why}</p> : null}
        <div class="cluster-facts">
          <span class="cluster-commit"><Icon name="commit" /><CommitText commit={cluster.commit} author /></span>
          {cluster.source ? <span title={cluster.sourcePath}><Icon name="sources" /><a href={to("sources", cluster.namespace, cluster.source)}>{cluster.source}</a>{cluster.sourcePath ? <span class="mono dim clip">{cluster.sourcePath}</span> : null}</span> : null}
          <span><Icon name="members" />{cluster.members.length ? <span class="clip">{cluster.members.join(", ")}</span> : <span class="dim">no member yet</span>}{cluster.wanted > 1 ? <span class="dim">of {cluster.wanted} wanted</span> : null}</span>
          <span><Icon name="pod" /><span class="num">{cluster.pods.ready + cluster.pods.succeeded} of {plural(cluster.pods.desired, "pod")}</span></span>
        </div>
      </div>
      <div class="cluster-tabs"><Tabs label="About this MiniCluster" panel="cluster-panel" current={tab.id} tabs={tabs.map((t) => ({ id: t.id, name: t.name, count: t.count?.(cluster) }))}
        select={(id) => setQuery({ tab: id === tabs[0]?.id ? null : id }, { replace: true })} /></div>
      <div id="cluster-panel" class="cluster-panel" role="tabpanel" aria-labelledby={`cluster-panel-${tab.id}`}>{Panel ? <Panel cluster={cluster} /> : null}</div>
    </>
  );
}
