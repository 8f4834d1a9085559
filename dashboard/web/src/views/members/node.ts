import type { Amount, Member, Node, Taint } from "../../api/types";
import { bytes, cores, count } from "../../data/format";

/** Shown is how a member is said to be: a state of <State>, the word for it, and since when nothing was heard. */
export interface Shown {
  state: string;
  word: string;
  staleSince?: string;
}

/** shownOf a member: what it cannot do comes before what it is kept from. */
export function shownOf(m: Pick<Member, "ready" | "reason" | "lastHeard" | "deleting" | "drained" | "draining" | "cordoned">): Shown {
  if (!m.ready) {
    const word = m.reason === "Ready" || m.reason === "" ? "NotReady" : m.reason;
    // Refused and misconfigured are known; of the rest it is known only as of the last news.
    if (["Forbidden", "Invalid", "Unauthorized"].includes(word)) return { state: "Invalid", word };
    return { state: "Unknown", word, ...(m.lastHeard ? { staleSince: m.lastHeard } : {}) };
  }
  if (m.deleting) return { state: "Deleting", word: "Being removed" };
  if (m.drained) return { state: "Suspended", word: "Drained" };
  if (m.draining) return { state: "Stopping", word: "Draining" };
  if (m.cordoned) return { state: "Suspended", word: "Cordoned" };
  return { state: "Ready", word: "Ready" };
}

export type Resource = "cpu" | "memory" | "gpus";
const resources: Resource[] = ["cpu", "memory", "gpus"];

/** Use is how much of something is taken, from 0 to 1, of the resource that is scarcest. */
export interface Use {
  share: number;
  resource: Resource;
}

export function useOf({ free, total }: { free: Amount; total: Amount }): Use {
  let most: Use = { share: 0, resource: "cpu" };
  for (const resource of resources) {
    if (total[resource] <= 0) continue;
    const share = Math.min(1, Math.max(0, 1 - free[resource] / total[resource]));
    if (share > most.share) most = { share, resource };
  }
  return most;
}

/** freeOf one resource: 20 of 32 CPU. */
export function freeOf({ free, total }: { free: Amount; total: Amount }, resource: Resource): string {
  if (resource === "memory") return `${bytes(Math.max(0, free.memory))} of ${bytes(total.memory)}`;
  return resource === "cpu" ? `${cores(free.cpu)} of ${cores(total.cpu)} CPU` : `${count(free.gpus)} of ${count(total.gpus)} GPU`;
}

export const taintOf = (t: Taint) => `${t.key}${t.value ? `=${t.value}` : ""}:${t.effect}`;

/** sentenceOfNode says of a node what is free there, and what keeps pods from it. */
export function sentenceOfNode(node: Node): string {
  const parts = resources.filter((r) => node.total[r] > 0).map((r) => freeOf(node, r));
  const kept = [...(node.unschedulable ? ["cordoned"] : []), ...(node.taints ?? []).filter((t) => !(node.unschedulable && t.key === "node.kubernetes.io/unschedulable")).map((t) => `taint ${taintOf(t)}`)];
  return `${node.name}: ${parts.join(", ")} free${kept.length ? `; ${kept.join(", ")}` : ""}`;
}

/** Level of use that colours a cell; how full it is drawn tells the same. */
export type Level = "low" | "high" | "full";
export const levelOf = (share: number): Level => (share >= 0.97 ? "full" : share >= 0.75 ? "high" : "low");

/** sizeOf a cell in pixels, so that many nodes are seen at once. */
export const sizeOf = (nodes: number) => (nodes <= 40 ? 34 : nodes <= 200 ? 26 : nodes <= 800 ? 20 : 15);

/** Paths of all cells together: a few elements whatever their number. */
export interface Paths {
  frames: string;
  fills: Record<Level, string>;
  cordoned: string;
  tainted: string;
}

/** pathsOf nodes as cells of a size in so many columns. */
export function pathsOf(nodes: readonly Node[], columns: number, size: number): Paths {
  const paths: Paths = { frames: "", fills: { low: "", high: "", full: "" }, cordoned: "", tainted: "" };
  const inner = size - 3;
  nodes.forEach((node, i) => {
    const x = (i % columns) * size + 0.5;
    const y = Math.floor(i / columns) * size + 0.5;
    paths.frames += `M${x} ${y}h${inner}v${inner}h-${inner}z`;
    const { share } = useOf(node);
    const height = Math.round(share * inner);
    if (height > 0) paths.fills[levelOf(share)] += `M${x} ${y + inner - height}h${inner}v${height}h-${inner}z`;
    if (node.unschedulable) paths.cordoned += `M${x} ${y}l${inner} ${inner}m0 -${inner}l-${inner} ${inner}`;
    else if (node.taints?.length) paths.tainted += `M${x} ${y}h${Math.round(inner / 2.2)}l-${Math.round(inner / 2.2)} ${Math.round(inner / 2.2)}z`;
  });
  return paths;
}
