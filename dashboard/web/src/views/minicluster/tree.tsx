import { useSignal } from "@preact/signals";
import { useRef } from "preact/hooks";
import { client, data } from "../../api/client";
import type { MiniCluster, TreeNode } from "../../api/types";
import { navigate, to } from "../../app/router";
import { count, plural } from "../../data/format";
import { about, useResource } from "../../data/resource";
import { Age } from "../../ui/age";
import { Icon, Shape, type IconName } from "../../ui/icons";
import { Failed, Loading, Outdated } from "../../ui/messages";
import { signOf, State } from "../../ui/state";
import type { TabProps } from "./tab";

const icons: Record<TreeNode["kind"], IconName> = { Commit: "commit", Source: "sources", MiniCluster: "minicluster", Member: "members", Job: "job", Pods: "pod", Pod: "pod", Object: "job", Rejected: "close" };
const kinds: Partial<Record<TreeNode["kind"], string>> = { Commit: "Commit", Source: "Source", MiniCluster: "MiniCluster", Job: "Job" };

/** Tree is what came of a commit, down to the pods, live; beside it what was asked for. */
export default function Tree({ cluster }: TabProps) {
  const { namespace, name } = cluster;
  const read = useResource(`${namespace}/${name}`, (signal) => data(client.GET("/api/v1/miniclusters/{namespace}/{name}/tree", { params: { path: { namespace, name } }, signal })), { affected: about(namespace, name) });
  const tree = read.value.value;
  const failure = read.failure.value;
  return (
    <div class="tree-and-facts">
      <div>
        <Outdated readAt={tree ? read.readAt.value : 0} failure={failure} retry={read.refresh} />
        {tree ? <Branches root={tree} cluster={cluster} /> : failure ? <Failed failure={failure} what="tree" retry={read.refresh} /> : <Loading what="the tree" />}
      </div>
      <Facts cluster={cluster} />
    </div>
  );
}

function Branches({ root, cluster }: { root: TreeNode; cluster: MiniCluster }) {
  const folded = useSignal<ReadonlySet<string>>(new Set());
  const active = useSignal(root.id);
  const tree = useRef<HTMLUListElement>(null);
  function toggle(id: string, fold = !folded.value.has(id)): void {
    const next = new Set(folded.value);
    if (fold) next.add(id);
    else next.delete(id);
    folded.value = next;
  }
  function focus(item: HTMLElement | null | undefined): void {
    if (!item) return;
    active.value = item.dataset.node ?? root.id;
    item.focus();
  }
  function key(event: KeyboardEvent): void {
    const item = (event.target as HTMLElement).closest<HTMLElement>("[role=treeitem]");
    if (!item || !tree.current || event.altKey || event.ctrlKey || event.metaKey) return;
    const items = [...tree.current.querySelectorAll<HTMLElement>("[role=treeitem]")];
    const at = items.indexOf(item);
    const expanded = item.getAttribute("aria-expanded");
    const id = item.dataset.node ?? "";
    if (event.key === "ArrowDown") focus(items[at + 1]);
    else if (event.key === "ArrowUp") focus(items[at - 1]);
    else if (event.key === "Home") focus(items[0]);
    else if (event.key === "End") focus(items[items.length - 1]);
    else if (event.key === "ArrowRight" && expanded === "false") toggle(id, false);
    else if (event.key === "ArrowRight") focus(items[at + 1]);
    else if (event.key === "ArrowLeft" && expanded === "true") toggle(id, true);
    else if (event.key === "ArrowLeft") focus(item.parentElement?.parentElement?.closest("li")?.querySelector<HTMLElement>("[role=treeitem]"));
    else if (event.key === "Enter") item.querySelector("a")?.click();
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  // A tree whose active item has disappeared begins at its root again.
  const known = new Set<string>();
  const walk = (node: TreeNode): void => {
    known.add(node.id);
    if (!folded.value.has(node.id)) node.children.forEach(walk);
  };
  walk(root);
  const current = known.has(active.value) ? active.value : root.id;

  const treeitem = (node: TreeNode, level: number) => ({
    role: "treeitem" as const,
    "data-node": node.id,
    "aria-level": level,
    tabIndex: node.id === current ? 0 : -1,
    onFocus: () => (active.value = node.id),
  });
  const item = (node: TreeNode, level: number, member: string) => {
    const inner = node.kind === "Member" ? node.name : member;
    const pods = node.children.filter((c) => c.kind === "Pod");
    const rest = node.children.filter((c) => c.kind !== "Pod");
    const open = !folded.value.has(node.id);
    return (
      <li key={node.id} role="none">
        <div {...treeitem(node, level)} aria-expanded={node.children.length ? open : undefined} class={`tree-row ${node.kind === "Rejected" ? "rejected" : ""}`}>
          {node.children.length ? <span class="twist" aria-hidden="true" onClick={() => toggle(node.id)}><Icon name="chevron" /></span> : <span class="twist none" />}
          <Icon name={icons[node.kind]} />
          <Name node={node} cluster={cluster} />
          {node.state && node.kind !== "Pods" ? <State state={node.state} staleSince={node.staleSince} /> : null}
          {node.text ? <span class="tree-text dim">{node.text}</span> : null}
          {node.staleSince && signOf(node.state ?? "").tone !== "unk" ? <span class="dim">no news for <Age since={node.staleSince} /></span> : node.since && node.kind === "Commit" ? <span class="dim"><Age since={node.since} /> ago</span> : null}
        </div>
        {open && pods.length ? <ul role="none" class="pods-cells">{pods.map((pod) => cell(pod, level + 1, inner))}</ul> : null}
        {open && rest.length ? <ul role="none">{rest.map((child) => item(child, level + 1, inner))}</ul> : null}
      </li>
    );
  };
  const cell = (pod: TreeNode, level: number, member: string) => {
    const sign = signOf(pod.state ?? "Unknown");
    const tip = [`${pod.name}: ${pod.state}`, pod.node && `on ${pod.node}`, pod.text].filter(Boolean).join("\n");
    const body = <><Shape name={sign.shape} /><span class="hidden">rank </span><span class="num">{pod.rank ?? ""}</span><span class="hidden">, {pod.state}{pod.node ? ` on ${pod.node}` : ""}</span></>;
    return (
      <li key={pod.id} role="none" class={`pod-cell ${sign.tone}`}>
        <span {...treeitem(pod, level)} title={tip}>{cluster.mayReadLogs ? <a tabIndex={-1} href={logsOf(cluster, member, pod.rank)}>{body}</a> : <span>{body}</span>}</span>
      </li>
    );
  };
  return <ul class="tree" role="tree" aria-label="From the commit to the pods" ref={tree} onKeyDown={key}>{item(root, 1, "")}</ul>;
}

const logsOf = (cluster: MiniCluster, member: string, rank: number | undefined) => `${to("miniclusters", cluster.namespace, cluster.name)}?tab=logs&member=${encodeURIComponent(member)}&rank=${rank ?? 0}`;


function Name({ node, cluster }: { node: TreeNode; cluster: MiniCluster }) {
  if (node.kind === "Pods") {
    const sign = signOf(node.state ?? "Unknown");
    return <span class={`state ${sign.tone}`}><Shape name={sign.shape} /><span class="num">{count(node.count ?? 0)} {node.state}</span></span>;
  }
  const name = <b class="tree-name">{node.name}</b>;
  const kind = kinds[node.kind];
  const link = node.link && node.link !== to("miniclusters", cluster.namespace, cluster.name) ? node.link : "";
  return (
    <span class="tree-title">
      {kind ? <span class="dim">{kind} </span> : null}
      {link.startsWith("/") ? <a tabIndex={-1} href={link} onClick={(event) => {
        event.preventDefault();
        navigate(link);
      }}>{name}</a> : name}
    </span>
  );
}

function Facts({ cluster }: { cluster: MiniCluster }) {
  const labels = Object.entries(cluster.labels);
  // Those that speak of something wrong: some do when they are true, the others when they are not.
  const bad = cluster.conditions.filter((c) => c.message && (["Failed", "Stalled"].includes(c.type) ? c.status === "True" : ["Ready", "Healthy"].includes(c.type) && c.status !== "True"));
  return (
    <aside class="facts-side" aria-label="What was asked for">
      <h2>Asked for</h2>
      <dl class="facts">
        <dt>Pods</dt><dd>{cluster.size}{cluster.maxSize ? <span class="dim">, at most {cluster.maxSize}</span> : null}{cluster.tasks ? <span class="dim">; {plural(cluster.tasks, "task")}</span> : null}</dd>
        <dt>Image</dt><dd class="mono">{cluster.images.join(", ") || "–"}</dd>
        {cluster.command ? <><dt>Command</dt><dd class="mono">{cluster.command}</dd></> : null}
        <dt>Placement</dt><dd>{cluster.placement ?? "its own"}{cluster.wanted > 1 ? `, ${cluster.wanted} members` : ""}</dd>
        <dt>Priority</dt><dd>{cluster.priority}</dd>
        <dt>Retries</dt><dd>{cluster.retries}</dd>
        {cluster.onChange ? <><dt>On change</dt><dd>{cluster.onChange}</dd></> : null}
        {labels.length ? <><dt>Labels</dt><dd>{labels.map(([k, v]) => <div key={k}><a class="mono label" href={`/?q=${encodeURIComponent(`${k}=${v}`)}`}>{k}={v}</a></div>)}</dd></> : null}
      </dl>
      <h2>On members</h2>
      {cluster.onMembers.length === 0 ? <p class="dim">On none yet.</p> : null}
      <ul class="on-members">
        {cluster.onMembers.map((m) => (
          <li key={m.member}>
            <div class="bar"><a href={to("members", m.member)}><b>{m.member}</b></a><State state={m.state} staleSince={m.staleSince} />{m.sync === "Unknown" && m.health === "Unknown" ? null : <span class="dim">{m.sync}, {m.health}</span>}</div>
            {m.because ? <p class="dim">Chosen because {m.because}</p> : null}
            {m.overrides.length ? <p class="dim">Overrides: {m.overrides.join(", ")}</p> : null}
          </li>
        ))}
        {cluster.waitingFor.map((w) => <li key={w.member}><b>{w.member}</b> <span class="dim">would be chosen with more room: {w.reason}</span></li>)}
      </ul>
      {bad.length ? <><h2>Conditions</h2><dl class="facts">{bad.map((c) => <><dt key={c.type}>{c.type}</dt><dd><b>{c.reason}</b>: {c.message}</dd></>)}</dl></> : null}
    </aside>
  );
}

