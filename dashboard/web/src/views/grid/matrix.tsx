import { useSignal } from "@preact/signals";
import { Component } from "preact";
import { useEffect, useId, useLayoutEffect, useRef } from "preact/hooks";
import type { GridRow, Run } from "../../api/types";
import { navigate, to } from "../../app/router";
import { serverNow } from "../../data/clock";
import { shortHash } from "../../data/format";
import { windowOf } from "../../data/window";
import { AgeText } from "../../ui/age";
import { Shape } from "../../ui/icons";
import { signOf } from "../../ui/state";
import { lengthOf, lengthShare, pageOf, sentenceOf, stateOf } from "../shared/run";
import { CELL, cellsOf, LABEL, leftOf, membersOf, NAME, nextRun, visible, type Cell, type Layout } from "./columns";
import type { Pages } from "./pages";

const ROW = 32;

interface MatrixProps {
  pages: Pages;
  layout: Layout;
  total: number;
  narrow: boolean;
  /** Called with the run that is pointed at, or else chosen. */
  chosen: (run: Run | undefined) => void;
}

interface Spot {
  row: number;
  /** -1: the name. */
  column: number;
}

/** Matrix scrolls in both directions; of it the document holds what is on the screen. */
export function Matrix({ pages, layout, total, narrow, chosen }: MatrixProps) {
  const box = useRef<HTMLDivElement>(null);
  const frame = useRef(0);
  const id = useId();
  const shown = useSignal({ first: 0, count: Math.min(30, total), from: 0, last: 60 });
  const active = useSignal<Spot>({ row: -1, column: -1 });
  const hover = useSignal<Spot | null>(null);
  const nameWidth = narrow ? 132 : 230;
  const headHeight = layout.by === "commits" ? 96 : 34;
  void pages.version.value;

  function measure(): void {
    const of = box.current;
    if (!of) return;
    const rows = windowOf(of.scrollTop - headHeight, of.clientHeight, ROW, total);
    const columns = visible(layout, of.scrollLeft - 100, of.scrollLeft + of.clientWidth - nameWidth + 100);
    const next = { first: rows.first, count: rows.count, from: columns.first, last: columns.last };
    const now = shown.peek();
    if (now.first !== next.first || now.count !== next.count || now.from !== next.from || now.last !== next.last) shown.value = next;
    pages.show(rows.first, rows.count);
  }
  useLayoutEffect(() => {
    measure();
    const sized = new ResizeObserver(measure);
    if (box.current) sized.observe(box.current);
    return () => sized.disconnect();
  }, [layout, total, nameWidth]);

  const cells = (row: number): Cell[] => {
    const of = pages.at(row);
    return of ? cellsOf(layout, of) : [];
  };
  const runAt = (spot: Spot | null) => (spot && spot.row >= 0 ? cells(spot.row).find((c) => c.column === spot.column)?.run : undefined);
  const hot = hover.value ?? (active.value.row >= 0 ? active.value : null);
  const run = runAt(hover.value) ?? runAt(active.value);
  useEffect(() => chosen(run), [run]);

  function go(row: number, column: number): void {
    const next = { row: clamp(row, 0, total - 1), column: clamp(column, -1, layout.columns.length - 1) };
    active.value = next;
    hover.value = null;
    const of = box.current;
    if (!of) return;
    const top = next.row * ROW;
    if (top < of.scrollTop) of.scrollTop = top;
    else if (top + ROW > of.scrollTop + of.clientHeight - headHeight - 8) of.scrollTop = top + ROW - of.clientHeight + headHeight + 8;
    if (next.column >= 0) {
      const left = leftOf(layout, next.column);
      const wide = of.clientWidth - nameWidth;
      if (left - 30 < of.scrollLeft) of.scrollLeft = left - 30;
      else if (left + CELL + 30 > of.scrollLeft + wide) of.scrollLeft = left + CELL + 30 - wide;
    }
    measure();
  }

  function key(event: KeyboardEvent): void {
    if (event.target !== box.current || event.metaKey || event.altKey) return;
    const { row, column } = active.peek();
    const page = Math.max(1, Math.floor(((box.current?.clientHeight ?? 0) - headHeight) / ROW) - 2);
    const jump = event.ctrlKey;
    const steps: Record<string, [number, number]> = {
      ArrowDown: [jump ? total - 1 : row + 1, column], ArrowUp: [jump ? 0 : row - 1, column],
      ArrowRight: [row, jump ? nextRun(cells(row), column, 1) : column + 1], ArrowLeft: [row, jump ? nextRun(cells(row), column, -1) : column - 1],
      PageDown: [row + page, column], PageUp: [row - page, column],
      Home: [jump ? 0 : row, -1], End: [jump ? total - 1 : row, nextRun(cells(row), Infinity, -1) === Infinity ? column : nextRun(cells(row), Infinity, -1)],
    };
    const next = steps[event.key];
    if (next) go(...next);
    else if (event.key === "Enter" && row >= 0) openAt(active.peek());
    else return;
    event.preventDefault();
  }

  function openAt(spot: Spot): void {
    const of = pages.at(spot.row);
    if (of) navigate(runAt(spot) ? pageOf(runAt(spot) as Run) : to("miniclusters", of.namespace, of.name));
  }

  /** spot of the cell that an event is about. */
  function spotOf(event: Event): Spot | null {
    const cell = (event.target as Element).closest<HTMLElement>("[data-column]");
    const row = (event.target as Element).closest<HTMLElement>("[data-row]");
    return cell && row ? { row: Number(row.dataset.row), column: Number(cell.dataset.column) } : null;
  }

  const { first, count, from, last } = shown.value;
  const rows = Array.from({ length: Math.max(0, Math.min(first + count, total) - first) }, (_, i) => first + i);
  const activeShown = active.value.row >= first && active.value.row < first + count;
  const revision = run?.commit?.revision;
  const groups = layout.groups.map((group, index) => ({ group, index })).filter(({ group }) => group.first < last && group.first + group.count > from);
  return (
    <div ref={box} class="matrix" role="grid" aria-label="Runs of MiniClusters on members" aria-rowcount={total + (layout.by === "commits" ? 2 : 1)} aria-colcount={layout.columns.length + 1} tabIndex={0}
      aria-activedescendant={active.value.row >= 0 && activeShown ? cellId(id, active.value) : undefined}
      onScroll={() => {
        cancelAnimationFrame(frame.current);
        frame.current = requestAnimationFrame(measure);
      }} onKeyDown={key} onFocus={(event) => {
        if (event.target === box.current && active.peek().row < 0) go(first, cells(first)[0]?.column ?? -1);
      }}
      onPointerMove={(event) => {
        if (event.pointerType !== "mouse") return;
        const spot = spotOf(event);
        const now = hover.peek();
        if (spot?.row !== now?.row || spot?.column !== now?.column) hover.value = spot;
      }} onPointerLeave={() => (hover.value = null)}
      onClick={(event) => {
        const spot = spotOf(event);
        if (spot && !(event.target as Element).closest("a, button")) go(spot.row, spot.column);
      }} onDblClick={(event) => {
        const spot = spotOf(event);
        if (spot) openAt(spot);
      }}
      style={{ "--name": `${nameWidth}px`, "--head": `${headHeight}px` }}>
      <div class="matrix-space" role="presentation" style={{ width: `${nameWidth + layout.width}px`, height: `${headHeight + total * ROW}px` }}>
        <div class="matrix-head" role="rowgroup">
          <div role="row" aria-rowindex={1} class="matrix-members">
            <div role="columnheader" aria-colindex={1} class="matrix-corner">MiniCluster</div>
            {layout.by === "packed" ? <div role="columnheader" aria-colindex={2} aria-colspan={Math.max(1, layout.columns.length)} class="matrix-member matrix-packed" style={{ left: `${nameWidth}px`, width: `${layout.width}px` }}><span class="dim">Runs on each member, the latest rightmost</span></div> : groups.map(({ group }) => (
              <div key={group.member} role="columnheader" aria-colindex={group.first + 2} aria-colspan={group.count} class={`matrix-member ${group.staleSince ? "unk" : ""}`} style={{ left: `${nameWidth + group.left}px`, width: `${Math.max(group.count * CELL, NAME)}px` }}>
                <span class="clip" title={group.member}>{group.member}{group.staleSince ? <span class="matrix-age" title="No news since then"> <Shape name="unknown" /><AgeText since={group.staleSince} /></span> : null}</span>
              </div>
            ))}
          </div>
          {layout.by === "commits" ? (
            <div role="row" aria-rowindex={2} class="matrix-commits">
              {layout.columns.slice(from, last).map((column, i) => (
                <div key={from + i} role="columnheader" aria-colindex={from + i + 2} class={`matrix-commit ${column.revision && column.revision === revision ? "same" : ""}`} style={{ left: `${nameWidth + leftOf(layout, from + i)}px` }}>
                  <span class="mono">{column.revision ? shortHash(column.revision) : <span class="hidden">no run</span>}</span>
                </div>
              ))}
            </div>
          ) : null}
        </div>
        {hot && hot.column >= 0 && layout.by !== "packed" ? <div class="matrix-column" role="presentation" style={{ left: `${nameWidth + leftOf(layout, hot.column)}px` }} /> : null}
        <div class="matrix-body" role="rowgroup" style={{ transform: `translateY(${first * ROW}px)` }}>
          {rows.map((row) => (
            <MatrixRow key={row} index={row} id={id} data={pages.at(row)} layout={layout} from={from} last={last} revision={revision} hot={hot?.row === row}
              active={active.value.row === row ? active.value.column : undefined} before={row === first || pages.at(row - 1)?.namespace !== pages.at(row)?.namespace} lines={layout.by === "commits" ? 3 : 2}
              jump={(column) => {
                go(row, column);
                box.current?.focus();
              }} />
          ))}
        </div>
      </div>
    </div>
  );
}

const clamp = (n: number, low: number, high: number) => Math.max(low, Math.min(high, n));
const cellId = (id: string, { row, column }: Spot) => `${id}-${row}-${column}`;

interface RowProps {
  id: string;
  index: number;
  data: GridRow | undefined;
  layout: Layout;
  /** First column that is shown, and the one after the last. */
  from: number;
  last: number;
  /** Runs of it stand out. */
  revision: string | undefined;
  hot: boolean;
  /** Column that is active in this row; -1 for its name. */
  active: number | undefined;
  /** Whether its namespace is another one than that of the row above. */
  before: boolean;
  lines: number;
  jump: (column: number) => void;
}

/** A row is rendered again only if something of it is different. */
class MatrixRow extends Component<RowProps> {
  override shouldComponentUpdate(next: RowProps): boolean {
    const now = this.props;
    const concerns = (revision: string | undefined) => revision !== undefined && (next.data?.runs.some((run) => run.commit?.revision === revision) ?? false);
    return now.data !== next.data || now.layout !== next.layout || now.from !== next.from || now.last !== next.last || now.hot !== next.hot || now.active !== next.active
      || now.before !== next.before || (now.revision !== next.revision && (concerns(now.revision) || concerns(next.revision)));
  }

  override render({ id, index, data, layout, from, last, revision, hot, active, before, lines, jump }: RowProps) {
    if (!data) return <div role="row" aria-rowindex={index + lines} data-row={index} class="matrix-row"><div role="rowheader" aria-colindex={1} class="matrix-name"><i class="matrix-loading" /><span class="hidden">Loading</span></div></div>;
    const all = cellsOf(layout, data);
    const cells = all.filter((c) => c.column >= from && c.column < last);
    const left = all.findLast((c) => c.column < from);
    const right = all.find((c) => c.column >= last);
    const lefts = new Set(all.filter((c) => c.column < from).map((c) => layout.columns[c.column]?.group)).size;
    const rights = new Set(all.filter((c) => c.column >= last).map((c) => layout.columns[c.column]?.group)).size;
    const empty = active !== undefined && active >= from && active < last && !cells.some((c) => c.column === active);
    return (
      <div role="row" aria-rowindex={index + lines} data-row={index} class={`matrix-row ${hot ? "hot" : ""}`}>
        <div role="rowheader" aria-colindex={1} id={cellId(id, { row: index, column: -1 })} data-column={-1} class={`matrix-name ${active === -1 ? "active" : ""}`}>
          <span class={`matrix-state ${signOf(data.state).tone}`} title={data.state}><Shape name={signOf(data.state).shape} /></span>
          <a class="clip" tabIndex={-1} href={to("miniclusters", data.namespace, data.name)} title={`${data.namespace}/${data.name}`}>{data.name}</a>
          <span class="hidden">{data.state}</span><span class={`dim clip matrix-namespace ${before ? "" : "again"}`}>{data.namespace}</span>
          {left ? <button type="button" tabIndex={-1} class="matrix-jump" aria-label={`${lefts} members with runs to the left`} onClick={() => jump(left.column)}>‹{lefts}</button> : null}
          {right ? <button type="button" tabIndex={-1} class="matrix-jump" aria-label={`${rights} members with runs to the right`} onClick={() => jump(right.column)}>{rights}›</button> : null}
        </div>
        {all.length === 0 ? <div role="gridcell" aria-colindex={2} class="matrix-none dim">has not run: {data.state}</div> : null}
        {layout.by === "packed" ? membersOf(data).map((member, i) => {
          const group = layout.groups[i];
          return group ? <span key={member} aria-hidden="true" title={member} class="matrix-label clip" style={{ left: `calc(var(--name) + ${group.left - LABEL}px)` }}>{member}</span> : null;
        }) : null}
        {cells.map((cell) => <RunCell key={cell.column} id={id} row={index} cell={cell} layout={layout} active={active === cell.column} same={revision !== undefined && cell.run.commit?.revision === revision} />)}
        {empty ? <div role="gridcell" aria-colindex={active + 2} id={cellId(id, { row: index, column: active })} data-column={active} class="cell none active" aria-label={`No run${memberAt(layout, data, active)}`} style={{ left: `calc(var(--name) + ${leftOf(layout, active)}px)` }} /> : null}
      </div>
    );
  }
}

/** memberAt is " on MEMBER" for a column of a row, where there is one. */
function memberAt(layout: Layout, row: GridRow, column: number): string {
  const group = layout.columns[column]?.group ?? 0;
  const member = layout.by === "packed" ? membersOf(row)[group] : layout.groups[group]?.member;
  return member ? ` on ${member}` : "";
}

function RunCell({ id, row, cell, layout, active, same }: { id: string; row: number; cell: Cell; layout: Layout; active: boolean; same: boolean }) {
  const { run, column, more } = cell;
  const sign = signOf(stateOf(run));
  const now = serverNow();
  const said = sentenceOf(run, now) + (more ? `; ${more} more at this commit` : "");
  return (
    <div role="gridcell" aria-colindex={column + 2} id={cellId(id, { row, column })} data-column={column} aria-label={said} title={said} class={`cell ${sign.tone} ${active ? "active" : ""} ${same ? "same" : ""}`}
      style={{ left: `calc(var(--name) + ${leftOf(layout, column)}px)`, "--long": `${Math.round(2 + 20 * lengthShare(lengthOf(run, now) ?? 0))}px` }}>
      <Shape name={sign.shape} />{more ? <sup>{more + 1}</sup> : null}
    </div>
  );
}
