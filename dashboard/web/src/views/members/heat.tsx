import { useSignal } from "@preact/signals";
import { useId, useLayoutEffect, useMemo, useRef } from "preact/hooks";
import type { Node } from "../../api/types";
import { query, setQuery } from "../../app/router";
import { count, plural } from "../../data/format";
import { Headers } from "../../ui/columns";
import { VirtualGrid } from "../../ui/virtual";
import { Choice } from "../shared/choice";
import { NARROW, useMedia } from "../shared/narrow";
import { freeOf, levelOf, pathsOf, sentenceOfNode, sizeOf, taintOf, useOf, type Resource } from "./node";

/** Nodes of a member: how full each is, as a map or as a table. */
export function Nodes({ nodes }: { nodes: readonly Node[] }) {
  const q = query.value;
  const table = q.get("nodes") === "table";
  const full = q.get("order") === "full";
  const sorted = useMemo(() => (full ? [...nodes].sort((a, b) => useOf(b).share - useOf(a).share || (a.name < b.name ? -1 : 1)) : [...nodes]), [nodes, full]);
  return (
    <section class="member-nodes">
      <div class="bar">
        <h2>Room per node</h2><span class="dim num">{plural(nodes.length, "node")}{nodes.length >= 5000 ? ", the first ones" : ""}</span>
        <span class="grow" />
        <Choice label="Order" value={full ? "full" : "name"} choose={(order) => setQuery({ order: order === "full" ? order : null }, { replace: true })} options={[{ value: "name", name: "By name" }, { value: "full", name: "Fullest first" }]} />
        <Choice label="Shown as" value={table ? "table" : "map"} choose={(as) => setQuery({ nodes: as === "table" ? as : null }, { replace: true })} options={[{ value: "map", name: "Map" }, { value: "table", name: "Table" }]} />
      </div>
      {table ? <NodeTable nodes={sorted} /> : <HeatMap nodes={sorted} />}
    </section>
  );
}

/** HeatMap has a cell for each node, filled as far as its scarcest resource is taken. It is one stop of the Tab key. */
function HeatMap({ nodes }: { nodes: readonly Node[] }) {
  const box = useRef<HTMLDivElement>(null);
  const width = useSignal(0);
  const active = useSignal(0);
  const hover = useSignal(-1);
  const id = useId();
  useLayoutEffect(() => {
    const measure = () => (width.value = box.current?.clientWidth ?? 0);
    measure();
    const sized = new ResizeObserver(measure);
    if (box.current) sized.observe(box.current);
    return () => sized.disconnect();
  }, []);
  const size = sizeOf(nodes.length);
  const columns = Math.max(1, Math.floor((width.value || 800) / size));
  const rows = Math.ceil(nodes.length / columns);
  const paths = useMemo(() => pathsOf(nodes, columns, size), [nodes, columns, size]);
  const at = Math.min(active.value, nodes.length - 1);
  const shown = nodes[hover.value] ?? nodes[at];
  const place = (index: number) => ({ left: `${(index % columns) * size}px`, top: `${Math.floor(index / columns) * size}px`, width: `${size - 2}px`, height: `${size - 2}px` });
  const indexOf = (event: MouseEvent) => {
    const edge = box.current?.getBoundingClientRect();
    if (!edge) return -1;
    const column = Math.floor((event.clientX - edge.left) / size);
    const index = Math.floor((event.clientY - edge.top) / size) * columns + column;
    return column >= 0 && column < columns && index >= 0 && index < nodes.length ? index : -1;
  };
  function key(event: KeyboardEvent): void {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const next = { ArrowRight: at + 1, ArrowLeft: at - 1, ArrowDown: at + columns, ArrowUp: at - columns, Home: 0, End: nodes.length - 1, PageDown: at + columns * 8, PageUp: at - columns * 8 }[event.key];
    if (next === undefined) return;
    event.preventDefault();
    if (next < 0 || next >= nodes.length) return;
    active.value = next;
    hover.value = -1;
    requestAnimationFrame(() => box.current?.querySelector("[role=option]")?.scrollIntoView({ block: "nearest" }));
  }
  return (
    <>
      <div ref={box} class="heat" role="listbox" aria-label={`${count(nodes.length)} nodes`} aria-activedescendant={`${id}-node`} tabIndex={0} onKeyDown={key}
        onPointerMove={(event) => (hover.value = event.pointerType === "mouse" ? indexOf(event) : -1)} onPointerLeave={() => (hover.value = -1)} onClick={(event) => {
          const index = indexOf(event);
          if (index >= 0) active.value = index;
        }} style={{ height: `${rows * size}px` }}>
        <svg width={columns * size} height={rows * size} aria-hidden="true">
          <path class="frame" d={paths.frames} />
          <path class="low" d={paths.fills.low} /><path class="high" d={paths.fills.high} /><path class="full" d={paths.fills.full} />
          <path class="tainted" d={paths.tainted} /><path class="cordoned" d={paths.cordoned} />
        </svg>
        {nodes[at] ? <div id={`${id}-node`} role="option" aria-selected="true" aria-setsize={nodes.length} aria-posinset={at + 1} aria-label={sentenceOfNode(nodes[at] as Node)} class="heat-active" style={place(at)} /> : null}
        {hover.value >= 0 ? <div class="heat-hover" style={place(hover.value)} /> : null}
      </div>
      <div class="heat-foot">
        {shown ? <NodeFacts node={shown} /> : null}
        <p class="legend dim heat-legend">
          {([["low", 0.4, "in use"], ["high", 0.85, "three quarters or more"], ["full", 1, "full"]] as const).map(([level, share, text]) => <span key={level}><svg class="heat-key" width="14" height="14" aria-hidden="true"><path class="frame" d="M.5.5h13v13h-13z" /><path class={level} d={`M.5 ${13.5 - 13 * share}h13v${13 * share}h-13z`} /></svg>{text}</span>)}
          <span><svg class="heat-key" width="14" height="14" aria-hidden="true"><path class="frame" d="M.5.5h13v13h-13z" /><path class="cordoned" d="M.5.5l13 13m0-13l-13 13" /></svg>cordoned</span>
          <span><svg class="heat-key" width="14" height="14" aria-hidden="true"><path class="frame" d="M.5.5h13v13h-13z" /><path class="tainted" d="M.5.5h7l-7 7z" /></svg>tainted</span>
          <span>of its scarcest resource</span>
        </p>
      </div>
    </>
  );
}

function NodeFacts({ node }: { node: Node }) {
  const scarce = useOf(node).resource;
  return (
    <div class="node-facts" aria-hidden="true">
      <b class="clip node-name" title={node.name}>{node.name}</b>
      {(["cpu", "memory", "gpus"] as const).filter((r) => node.total[r] > 0).map((r) => <span key={r} class={`nowrap ${r === scarce ? "" : "dim"}`}><Meter share={1 - node.free[r] / node.total[r]} /> {freeOf(node, r)} free</span>)}
      {node.unschedulable ? <span>cordoned</span> : null}
      {node.taints?.length ? <span class="mono clip" title={node.taints.map(taintOf).join(", ")}>{node.taints.map(taintOf).join(", ")}</span> : null}
    </div>
  );
}

/** Meter is filled as far as something is taken. */
export function Meter({ share }: { share: number }) {
  const taken = Math.min(1, Math.max(0, share));
  return <span class={`meter use ${levelOf(taken)}`} aria-hidden="true"><i style={{ width: `${taken * 100}%` }} /></span>;
}

const columns = [{ name: "Node" }, { name: "CPU free" }, { name: "Memory free", class: "only-wide" }, { name: "GPU free", class: "only-wide" }, { name: "Kept from it" }];

function NodeTable({ nodes }: { nodes: readonly Node[] }) {
  const narrow = useMedia(NARROW).value;
  const cell = (node: Node, resource: Resource) => (node.total[resource] > 0 ? <span class="bar nowrap"><Meter share={1 - node.free[resource] / node.total[resource]} />{freeOf(node, resource)}</span> : <span class="dim">–</span>);
  return (
    <VirtualGrid class="node-table" label="Nodes" total={nodes.length} rowHeight={narrow ? 58 : 36} columns={columns.length} show={() => {}} open={() => {}} header={<Headers columns={columns} sort="" order="" change={() => {}} />}
      row={(index) => {
        const node = nodes[index];
        if (!node) return null;
        const kept = [...(node.unschedulable ? ["cordoned"] : []), ...(node.taints ?? []).map(taintOf)].join(", ");
        return (
          <>
            <div role="gridcell" class="clip" title={node.name}>{node.name}</div><div role="gridcell">{cell(node, "cpu")}</div>
            <div role="gridcell" class="only-wide">{cell(node, "memory")}</div><div role="gridcell" class="only-wide">{cell(node, "gpus")}</div>
            <div role="gridcell" class="clip" title={kept}>{kept || <span class="dim nothing">nothing</span>}</div>
          </>
        );
      }} />
  );
}
