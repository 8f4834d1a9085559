import { useSignal } from "@preact/signals";
import type { GangFit, NodeFit } from "../../api/types";
import { count, plural } from "../../data/format";
import { Shape } from "../../ui/icons";
import { amountOf, amountsOf, pictureOf, scarceOf, sentenceOfNode, shownOf, type Picture, type Resource, type Slot } from "./gang.ts";
import "./gang.css";

const FEW = 12;

/** Gang is drawn onto the nodes of a member: where its pods fit, and what is missing for the others. */
export function Gang({ gang }: { gang: GangFit }) {
  const all = useSignal(false);
  if (gang.unknown) return <p class="banner unk"><Shape name="unknown" /><span>What is free on {gang.member} is not known: {gang.unknown}.</span></p>;
  if (gang.nodes.length === 0) return <p class="dim">{count(gang.fits)} of its {plural(gang.pods, "pod")} fit. The nodes are not shown to you.</p>;
  const resource = scarceOf(gang);
  const shown = all.value ? gang.nodes : shownOf(gang.nodes, FEW);
  const unit = pictureOf(gang.nodes[0] as NodeFit, gang.each, resource).unit;
  return (
    <div class="gang">
      <p class="gang-key dim">
        <span>Each pod asks for {amountsOf(gang.each)}. A slot is {amountOf(resource, unit)}:</span>
        {(["taken", "gang", "free", "lacking"] as const).map((kind) => <span key={kind} class="nowrap"><svg class="slots" viewBox="0 0 12 12" width="12" height="12" aria-hidden="true"><path class={kind} d="M1.500 1.500h9v9h-9z" /></svg>{{ taken: "taken", gang: "its pods", free: "free", lacking: "missing" }[kind]}</span>)}
      </p>
      <ul class="gang-nodes">{shown.map((node) => <NodePicture key={node.node} node={node} gang={gang} resource={resource} />)}</ul>
      {gang.nodes.length > FEW ? <p class="dim"><button type="button" aria-expanded={all.value} onClick={() => (all.value = !all.value)}>{all.value ? "Show fewer" : `Show ${count(gang.nodes.length)} nodes`}</button>{gang.total > gang.nodes.length ? ` of ${count(gang.total)}: those that are nearest` : ""}</p>
        : gang.total > gang.nodes.length ? <p class="dim">{plural(gang.total - gang.nodes.length, "node")} with less room are not shown.</p> : null}
      {gang.beside ? <p>All its pods fit, and beside them the pod of services lacks {gang.beside}.</p> : null}
    </div>
  );
}

function NodePicture({ node, gang, resource }: { node: NodeFit; gang: GangFit; resource: Resource }) {
  const picture = pictureOf(node, gang.each, resource);
  const tone = node.pods > 0 ? "ok" : node.excluded ? "off" : "bad";
  return (
    <li class={`gang-node ${tone} ${node.excluded ? "excluded" : ""}`} aria-label={sentenceOfNode(node, resource)}>
      <span class="gang-name" aria-hidden="true"><b class="clip" title={node.node}>{node.node}</b><span class="dim num nowrap">{amountOf(resource, node.free[resource])} free</span></span>
      <Slots picture={picture} />
      <span class="gang-says" aria-hidden="true" title={node.excluded}>
        <Shape name={node.pods > 0 ? "succeeded" : node.excluded ? "cancelled" : "failed"} />
        <span class="clip">{node.excluded ? node.excluded : node.pods > 0 ? `${plural(node.pods, "pod")} fit${node.pods === 1 ? "s" : ""}` : `lacks ${node.lacks ?? "room"}`}</span>
      </span>
    </li>
  );
}

const SIZE = 12;
const COLUMNS = 16;

function Slots({ picture }: { picture: Picture }) {
  const columns = Math.min(COLUMNS, picture.slots.length);
  const rows = Math.ceil(picture.slots.length / columns);
  const path = (kind: Slot) => picture.slots.map((slot, i) => (slot === kind ? `M${(i % columns) * SIZE + 1.5} ${Math.floor(i / columns) * SIZE + 1.5}h9v9h-9z` : "")).join("");
  return (
    <svg class="slots" viewBox={`0 0 ${COLUMNS * SIZE} ${rows * SIZE}`} width="100%" aria-hidden="true">
      {(["free", "taken", "gang", "lacking"] as const).map((kind) => <path key={kind} class={kind} d={path(kind)} />)}
    </svg>
  );
}
