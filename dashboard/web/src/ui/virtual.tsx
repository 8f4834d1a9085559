import { useSignal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useEffect, useId, useLayoutEffect, useRef } from "preact/hooks";
import { restore } from "../app/router";
import { windowOf, type Window } from "../data/window";

interface VirtualProps {
  /** What is listed, for screen readers. */
  label: string;
  total: number;
  /** Height of each row in pixels. */
  rowHeight: number;
  /** Rows of the header are part of the grid; they stay on the screen. */
  header?: ComponentChildren;
  row: (index: number) => ComponentChildren;
  /** What the row is about, e.g. NAMESPACE/NAME: a press that begins on a row which moves away then opens nothing else. */
  about?: (index: number) => string | undefined;
  /** Called when other rows come to be shown. */
  show: (first: number, count: number) => void;
  /** Called for the row that is chosen by Enter. */
  open: (index: number) => void;
  columns: number;
  class?: string;
}

/**
 * VirtualGrid renders the rows that are on the screen, at most 60, of a list that scrolls with the page. It is one stop of the
 * Tab key; arrows, j and k, PageUp, PageDown, Home and End go from row to row, and Enter opens one.
 */
export function VirtualGrid({ label, total, rowHeight, header, row, about, show, open, columns, class: name = "" }: VirtualProps) {
  const body = useRef<HTMLDivElement>(null);
  const grid = useRef<HTMLDivElement>(null);
  const shown = useSignal<Window>({ first: 0, count: Math.min(total, 40) });
  const active = useSignal(-1);
  const id = useId();

  function measure(): void {
    if (!body.current) return;
    const next = windowOf(-body.current.getBoundingClientRect().top, window.innerHeight, rowHeight, total);
    if (next.first !== shown.peek().first || next.count !== shown.peek().count) shown.value = next;
    show(next.first, next.count);
  }
  useLayoutEffect(() => {
    // Of a list that Back returns to, the rows are there again only now.
    if (restore.peek() !== null && total > 0) {
      const top = restore.peek() ?? 0;
      restore.value = null;
      window.scrollTo(0, top);
    }
    measure();
    let frame = 0;
    const soon = () => {
      cancelAnimationFrame(frame);
      frame = requestAnimationFrame(measure);
    };
    addEventListener("scroll", soon, { passive: true });
    addEventListener("resize", soon);
    return () => {
      cancelAnimationFrame(frame);
      removeEventListener("scroll", soon);
      removeEventListener("resize", soon);
    };
  }, [total, rowHeight]);
  useEffect(() => {
    if (active.value >= total) active.value = total - 1;
  }, [total]);

  function go(index: number): void {
    const next = Math.max(0, Math.min(total - 1, index));
    active.value = next;
    if (!body.current) return;
    const top = body.current.getBoundingClientRect().top + next * rowHeight;
    const above = (grid.current?.querySelector<HTMLElement>("[data-header]")?.offsetHeight ?? 0) + 8;
    const below = window.innerHeight - rowHeight - bottomInset();
    if (top < above) window.scrollBy(0, top - above);
    else if (top > below) window.scrollBy(0, top - below);
    measure();
  }
  function key(event: KeyboardEvent): void {
    if (event.target !== grid.current || event.ctrlKey || event.metaKey || event.altKey) return;
    const at = active.peek();
    const page = Math.max(1, Math.floor(window.innerHeight / rowHeight) - 4);
    const next = { ArrowDown: at + 1, j: at + 1, ArrowUp: at - 1, k: at - 1, PageDown: at + page, PageUp: at - page, Home: 0, End: total - 1 }[event.key];
    if (next !== undefined) go(next);
    else if (event.key === "Enter" && at >= 0) open(at);
    else return;
    event.preventDefault();
  }

  const { first, count } = shown.value;
  const last = Math.min(first + count, total);
  const indexes = Array.from({ length: Math.max(0, last - first) }, (_, i) => first + i);
  const keys = new Set<string | number>();
  // What is listed twice for a moment, since it has moved, is the same row once.
  const keyOf = (index: number) => {
    const of = about?.(index);
    const key = of === undefined || keys.has(of) ? index : of;
    keys.add(key);
    return key;
  };
  const inDocument = active.value >= first && active.value < last;
  return (
    <div ref={grid} data-rows class={`vgrid ${name}`} role="grid" aria-label={label} aria-rowcount={total + (header ? 1 : 0)} aria-colcount={columns} tabIndex={0}
      aria-activedescendant={inDocument ? `${id}-${active.value}` : undefined} onKeyDown={key} onFocus={(event) => {
        if (event.target === grid.current && active.peek() < 0 && total > 0) active.value = first;
      }}>
      {header}
      <div ref={body} class="vbody" role="rowgroup" style={{ height: `${total * rowHeight}px` }}>
        <div role="presentation" class="vwindow" style={{ transform: `translateY(${first * rowHeight}px)` }}>
          {indexes.map((index) => (
            <div key={keyOf(index)} id={`${id}-${index}`} role="row" aria-rowindex={index + (header ? 2 : 1)} class={`vrow ${index === active.value ? "active" : ""}`} style={{ height: `${rowHeight}px` }}
              onClick={(event) => {
                if ((event.target as Element).closest("a,button") || getSelection()?.toString()) return;
                open(index);
              }}>
              {row(index)}
            </div>
          ))}
        </div>
      </div>
    </div>
  );
}

/** bottomInset is how much of the screen's lower edge the navigation covers, in pixels. */
function bottomInset(): number {
  return parseFloat(getComputedStyle(document.documentElement).getPropertyValue("--nav-bottom")) || 0;
}
