import type { Amount, GangFit, NodeFit } from "../../api/types";
import { bytes, cores, count } from "../../data/format";

export type Resource = "cpu" | "gpus" | "memory";
const resources: Resource[] = ["gpus", "cpu", "memory"];

/** amountOf a resource for people: 8 CPU, 2 GPU, 16 GiB. */
export function amountOf(resource: Resource, n: number): string {
  if (resource === "memory") return bytes(n);
  return resource === "cpu" ? `${cores(n)} CPU` : `${count(n)} GPU`;
}

/** amountsOf what a pod asks for, without what it does not ask for. */
export function amountsOf(amount: Amount): string {
  return (["cpu", "gpus", "memory"] as const).filter((r) => amount[r] > 0).map((r) => amountOf(r, amount[r])).join(", ") || "nothing";
}

/** scarceOf a gang is the resource that most nodes have too little of: the one that a picture of it is about. */
export function scarceOf(gang: Pick<GangFit, "each" | "nodes">): Resource {
  const votes: Record<Resource, number> = { gpus: 0, cpu: 0, memory: 0 };
  const asked = resources.filter((r) => gang.each[r] > 0);
  for (const node of gang.nodes) {
    if (node.excluded) continue;
    const most = (r: Resource) => Math.floor(node.free[r] / gang.each[r] + 1e-9);
    const least = Math.min(...asked.map(most));
    for (const r of asked) if (most(r) === least) votes[r]++;
  }
  return asked.sort((a, b) => votes[b] - votes[a])[0] ?? "cpu";
}

/** Slot is one part of a node: taken by others, for a pod of the gang, free, or missing for one more pod. */
export type Slot = "taken" | "gang" | "free" | "lacking";

export interface Picture {
  /** How much a slot is. */
  unit: number;
  slots: Slot[];
  /** What is missing for one more pod; 0 where nothing is, or not of this resource. */
  lacking: number;
}

/** A node is drawn in at most so many slots. */
export const SLOTS = 32;

const steps = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048];

/** pictureOf a node: its slots of one resource, those of the gang beside what is taken. */
export function pictureOf(node: NodeFit, each: Amount, resource: Resource): Picture {
  const base = resource === "memory" ? 2 ** 30 : 1;
  const total = node.total[resource];
  const unit = base * (steps.find((s) => total / (s * base) <= SLOTS) ?? Math.ceil(total / base / SLOTS));
  const gang = Math.min(node.free[resource], node.pods * each[resource]);
  const rest = node.free[resource] - gang;
  const lacking = node.lacks && !node.excluded ? Math.max(0, each[resource] - rest) : 0;
  // Edges are rounded, not lengths, so that all slots together are the node.
  const edge = (n: number) => Math.round(n / unit);
  const taken = edge(total - node.free[resource]);
  const until = edge(total - rest);
  const all = Math.max(1, edge(total));
  const slots: Slot[] = Array.from({ length: all }, (_, i) => (i < taken ? "taken" : i < until ? "gang" : "free"));
  if (lacking > 0) slots.push(...Array.from({ length: Math.min(SLOTS / 2, Math.max(1, Math.round(lacking / unit))) }, (): Slot => "lacking"));
  return { unit, slots, lacking };
}

/** sentenceOf a node of a gang, for a picture's name. */
export function sentenceOfNode(node: NodeFit, resource: Resource): string {
  const free = resource === "cpu" ? cores(node.free.cpu) : resource === "gpus" ? count(node.free.gpus) : bytes(node.free.memory);
  const room = `${free} of ${amountOf(resource, node.total[resource])} free`;
  if (node.excluded) return `${node.node}: no pod may lie here, ${node.excluded}`;
  const fits = node.pods === 0 ? "no pod fits" : node.pods === 1 ? "1 pod fits" : `${node.pods} pods fit`;
  return `${node.node}: ${fits}, ${room}${node.lacks ? `, lacks ${node.lacks} for ${node.pods ? "one more" : "one"}` : ""}`;
}

/** shownOf the nodes of a gang: those that take pods, then the nearest misses, at most so many. */
export function shownOf(nodes: readonly NodeFit[], most: number): NodeFit[] {
  if (nodes.length <= most) return [...nodes];
  const misses = nodes.filter((n) => n.pods === 0).slice(0, Math.ceil(most / 3));
  const takes = nodes.filter((n) => n.pods > 0).slice(0, most - misses.length);
  return [...takes, ...misses];
}
