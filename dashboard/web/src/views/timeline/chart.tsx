import { useSignal } from "@preact/signals";
import { useEffect, useLayoutEffect, useRef } from "preact/hooks";
import type { Bar } from "../../api/types";
import { navigate, to } from "../../app/router";
import { theme } from "../../app/theme";
import { now, serverNow } from "../../data/clock";
import { cores, count, plural } from "../../data/format";
import { AgeText } from "../../ui/age";
import { Shape } from "../../ui/icons";
import { announce } from "../../ui/toast";
import { useMedia } from "../shared/narrow";
import { pageOf, sentenceOf } from "../shared/run";
import { AXIS, coloursOf, draw, xOf } from "./draw";
import { at, FOLD, roomsOf, step, type PackedLane, type Placed, type Place } from "./lanes";
import { pan, rangeOf, reveal, zoom, type Shown } from "./scale";

interface ChartProps {
  lanes: PackedLane[];
  shown: Shown;
  show: (shown: Shown) => void;
  fit: () => void;
  /** Called with the bar that is pointed at, or else the one that has the focus. */
  chosen: (bar: Bar | undefined) => void;
}

/** pathOf the page about a bar. */
const hrefOf = (bar: Bar) => pageOf(bar.waiting ? { namespace: bar.namespace, name: bar.name } : bar);
const said = (bar: Bar) => (bar.waiting ? `${bar.name} waits for room${bar.message ? `: ${bar.message}` : ""}` : sentenceOf(bar, serverNow()));

/**
 * Chart paints bars on a canvas. The bar that is current is a link above it, one stop of the Tab key: arrows go from bar to bar,
 * so that each can be reached, named and opened by keyboard.
 */
export function Chart({ lanes, shown, show, fit, chosen }: ChartProps) {
  const box = useRef<HTMLDivElement>(null);
  const canvas = useRef<HTMLCanvasElement>(null);
  const link = useRef<HTMLAnchorElement>(null);
  const size = useSignal({ width: 0, height: 0, top: 0 });
  const turned = useSignal<ReadonlySet<string>>(new Set());
  const current = useSignal<{ member: string; id: string } | null>(null);
  const focused = useSignal(false);
  const hover = useSignal<Placed | null>(null);
  const dark = useMedia("(prefers-color-scheme: dark)").value;
  const colours = useRef<ReturnType<typeof coloursOf> | null>(null);
  const rooms = roomsOf(lanes, turned.value);
  const height = rooms.length ? (rooms.at(-1)?.top ?? 0) + (rooms.at(-1)?.height ?? 0) : 0;
  const time = now.value;
  const range = rangeOf(shown, time);

  useLayoutEffect(() => {
    if (canvas.current) colours.current = coloursOf(canvas.current);
  }, [theme.value, dark]);
  function measure(): void {
    const of = canvas.current?.parentElement;
    if (!of || !box.current) return;
    const next = { width: of.clientWidth, height: box.current.clientHeight, top: box.current.scrollTop };
    const had = size.peek();
    if (next.width !== had.width || next.height !== had.height || next.top !== had.top) size.value = next;
  }
  useLayoutEffect(() => {
    measure();
    const sized = new ResizeObserver(measure);
    if (box.current) sized.observe(box.current);
    return () => sized.disconnect();
  }, []);

  const place = placeOf(lanes, current.value);
  const bar = place && lanes[place.lane]?.bars[place.index];
  const pointed = hover.value?.bar ?? (focused.value ? bar?.bar : undefined);
  useEffect(() => chosen(pointed ?? (current.value ? bar?.bar : undefined)), [pointed, bar?.bar, current.value]);

  const scene = { width: size.value.width, height: size.value.height, scrollTop: size.value.top, range, now: time, lanes, rooms, revision: pointed?.commit?.revision };
  useLayoutEffect(() => {
    const of = canvas.current;
    const context = of?.getContext("2d");
    if (!of || !context || !colours.current || scene.width === 0) return;
    const ratio = devicePixelRatio || 1;
    if (of.width !== Math.round(scene.width * ratio) || of.height !== Math.round(scene.height * ratio)) {
      of.width = Math.round(scene.width * ratio);
      of.height = Math.round(scene.height * ratio);
    }
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    draw(context, { ...scene, colours: colours.current });
  });

  /** under says which bar is at a point of the canvas. */
  function under(event: MouseEvent): { placed: Placed; lane: number } | undefined {
    const edge = canvas.current?.getBoundingClientRect();
    if (!edge || event.clientY - edge.top < AXIS) return undefined;
    const y = event.clientY - edge.top - AXIS + size.peek().top;
    const lane = rooms.findIndex((room) => y >= room.top && y < room.top + room.height);
    const at_ = range.from + ((event.clientX - edge.left) / edge.width) * (range.to - range.from);
    const [packed, room] = [lanes[lane], rooms[lane]];
    const placed = packed && room && at(packed, room, at_, y - room.top, time, (4 / edge.width) * (range.to - range.from));
    return placed ? { placed, lane } : undefined;
  }

  const drag = useRef<{ x: number; from: Shown; moved: boolean } | null>(null);
  function pressed(event: PointerEvent): void {
    if (event.button !== 0) return;
    drag.current = { x: event.clientX, from: shown, moved: false };
  }
  function moved(event: PointerEvent): void {
    const of = drag.current;
    const width = canvas.current?.clientWidth ?? 1;
    if (of && (of.moved || Math.abs(event.clientX - of.x) > 4)) {
      if (!of.moved) canvas.current?.setPointerCapture(event.pointerId);
      of.moved = true;
      hover.value = null;
      show(pan(of.from, (of.x - event.clientX) / width, serverNow()));
      return;
    }
    if (event.pointerType === "mouse") hover.value = under(event)?.placed ?? null;
  }
  function released(event: PointerEvent): void {
    const of = drag.current;
    drag.current = null;
    if (of?.moved) return;
    const found = under(event);
    if (!found) return;
    current.value = { member: lanes[found.lane]?.lane.member ?? "", id: found.placed.bar.id };
    // A finger first shows what it is about, in the strip below; a mouse has seen that before.
    if (event.pointerType === "mouse" && !event.ctrlKey && !event.metaKey && !event.shiftKey) navigate(hrefOf(found.placed.bar));
    else if (event.pointerType === "mouse") window.open(hrefOf(found.placed.bar), "_blank", "noopener");
    else link.current?.focus({ preventScroll: true });
  }
  useEffect(() => {
    const of = canvas.current;
    const wheel = (event: WheelEvent) => {
      const edge = of?.getBoundingClientRect();
      if (!edge || !box.current) return;
      const sideways = event.shiftKey ? event.deltaY : event.deltaX;
      const scrolls = box.current.scrollHeight > box.current.clientHeight + 1 && event.clientY - edge.top > AXIS && !event.ctrlKey;
      if (Math.abs(sideways) > Math.abs(event.shiftKey ? 0 : event.deltaY)) show(pan(latest.current, sideways / edge.width, serverNow()));
      else if (!scrolls) show(zoom(latest.current, Math.exp(event.deltaY / 400), (event.clientX - edge.left) / edge.width, serverNow()));
      else return;
      event.preventDefault();
    };
    of?.addEventListener("wheel", wheel, { passive: false });
    return () => of?.removeEventListener("wheel", wheel);
  }, []);
  const latest = useRef(shown);
  latest.current = shown;

  function key(event: KeyboardEvent): void {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const by = { "+": 0.5, "=": 0.5, "-": 2 }[event.key];
    if (by) show(zoom(shown, by, 0.5, serverNow()));
    else if (event.key === "0") fit();
    else if (event.key === "n") show({ span: shown.span, to: null });
    else if (event.shiftKey && event.key === "ArrowLeft") show(pan(shown, -0.25, serverNow()));
    else if (event.shiftKey && event.key === "ArrowRight") show(pan(shown, 0.25, serverNow()));
    else if (place && ["ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown", "Home", "End"].includes(event.key)) go(step(lanes, place, event.key));
    else return;
    event.preventDefault();
  }
  function go(next: Place): void {
    const lane = lanes[next.lane];
    const found = lane?.bars[next.index];
    const room = rooms[next.lane];
    if (!lane || !found || !room || !box.current) return;
    current.value = { member: lane.lane.member, id: found.bar.id };
    hover.value = null;
    show(reveal(shown, { from: found.start, to: Math.min(found.end, serverNow()) }, serverNow()));
    const top = room.top + found.track * room.track;
    if (top < box.current.scrollTop) box.current.scrollTop = Math.max(0, top - 10);
    else if (top + 30 > box.current.scrollTop + box.current.clientHeight - AXIS) box.current.scrollTop = top + 40 - box.current.clientHeight + AXIS;
    announce(said(found.bar));
  }

  const outline = (placed: Placed | undefined | null, lane: number) => {
    const room = rooms[lane];
    if (!placed || !room || scene.width === 0) return undefined;
    const left = Math.max(0, Math.min(scene.width - 6, xOf(scene, placed.start)));
    const right = Math.min(scene.width, Math.max(left + 6, xOf(scene, Math.min(placed.end, time))));
    return { left: `${left}px`, width: `${right - left}px`, top: `${AXIS + room.top + (room.track ? 4 + placed.track * room.track : 4)}px`, height: `${room.track ? room.track - 1 : room.height - 8}px` };
  };
  return (
    <div ref={box} class="timeline" role="group" aria-label="Runs over time, a lane for each member" onScroll={measure} onKeyDown={key}>
      <div class="timeline-space" style={{ height: `${AXIS + height}px` }}>
        <div class="timeline-plot">
          <canvas ref={canvas} style={{ height: `${size.value.height}px` }} class={hover.value ? "pointed" : ""} aria-hidden="true" onPointerDown={pressed} onPointerMove={moved} onPointerUp={released} onPointerCancel={() => (drag.current = null)} onPointerLeave={() => (hover.value = null)} />
          {hover.value ? <div class="timeline-tip" style={outline(hover.value, lanes.findIndex((lane) => lane.bars.includes(hover.value as Placed)))} /> : null}
          {bar && place ? (
            <a ref={link} class="timeline-link" href={hrefOf(bar.bar)} aria-label={said(bar.bar)} style={outline(bar, place.lane)}
              onFocus={() => {
                focused.value = true;
                current.value ??= { member: lanes[place.lane]?.lane.member ?? "", id: bar.bar.id };
              }} onBlur={() => (focused.value = false)} />
          ) : null}
        </div>
        <div class="timeline-labels">
          <div class="timeline-corner dim">Member</div>
          {lanes.map((lane, i) => <Label key={lane.lane.member} lane={lane} top={AXIS + (rooms[i]?.top ?? 0)} height={rooms[i]?.height ?? 0} folded={rooms[i]?.track === 0} turn={() => {
            const next = new Set(turned.peek());
            if (!next.delete(lane.lane.member)) next.add(lane.lane.member);
            turned.value = next;
          }} />)}
        </div>
      </div>
    </div>
  );
}

/** placeOf the current bar; before there is one, of the latest bar of the first lane that has any. */
function placeOf(lanes: readonly PackedLane[], current: { member: string; id: string } | null): Place | undefined {
  if (current) {
    const lane = lanes.findIndex((l) => l.lane.member === current.member);
    const index = lanes[lane]?.bars.findIndex((p) => p.bar.id === current.id) ?? -1;
    if (index >= 0) return { lane, index };
  }
  const lane = lanes.findIndex((l) => l.bars.length > 0 && l.lane.member !== "");
  const found = lane >= 0 ? lane : lanes.findIndex((l) => l.bars.length > 0);
  const bars = lanes[found]?.bars;
  return bars ? { lane: found, index: bars.length - 1 } : undefined;
}

function Label({ lane, top, height, folded, turn }: { lane: PackedLane; top: number; height: number; folded: boolean; turn: () => void }) {
  const { member, room, staleSince } = lane.lane;
  return (
    <div class="timeline-label" style={{ top: `${top}px`, height: `${height}px` }}>
      {member ? <a class="clip" href={to("members", member)} title={member}>{member}</a> : <a class="clip" href="/queue">Waiting for room</a>}
      {staleSince ? <span class="unk timeline-stale"><Shape name="unknown" />no news <AgeText since={staleSince} /></span>
        : room ? <span class="dim num clip">{cores(room.free.cpu)} of {cores(room.total.cpu)} CPU free</span>
          : member ? null : <span class="dim num">{plural(lane.bars.length, "MiniCluster")}</span>}
      {lane.tracks > FOLD ? <button type="button" aria-expanded={!folded} onClick={turn}>{folded ? `Show ${count(lane.bars.length)}` : "Fold"}</button> : null}
    </div>
  );
}
