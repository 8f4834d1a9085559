import { age } from "../../data/format";
import { signOf, type Tone } from "../../ui/state";
import type { ShapeName } from "../../ui/icons";
import { load, partsOf, stateOfBar, type LaneRoom, type PackedLane, type Placed } from "./lanes";
import { ticks, type Range } from "./scale";

export const AXIS = 28;

const tones = ["ok", "run", "wait", "bad", "off", "unk"] as const satisfies Tone[];
type Colours = Record<"bg" | "line" | "strong" | "text" | "dim" | "accent" | Tone | `${Tone}-tint`, string> & { hatch: CanvasPattern | string };

/** coloursOf the page, as the canvas wants them. They are another after a change of theme. */
export function coloursOf(canvas: HTMLCanvasElement): Colours {
  const probe = document.createElement("i");
  canvas.parentElement?.append(probe);
  const resolved = (name: string) => {
    probe.style.color = `var(--${name})`;
    return getComputedStyle(probe).color;
  };
  const colours = { bg: resolved("bg"), line: resolved("line"), strong: resolved("line-strong"), text: resolved("text"), dim: resolved("dim"), accent: resolved("accent") } as Colours;
  for (const tone of tones) {
    colours[tone] = resolved(tone);
    colours[`${tone}-tint`] = resolved(`${tone}-tint`);
  }
  colours.hatch = hatch(colours["unk-tint"], colours.unk) ?? colours["unk-tint"];
  probe.remove();
  return colours;
}

function hatch(back: string, line: string): CanvasPattern | null {
  const tile = document.createElement("canvas");
  tile.width = tile.height = 8;
  const c = tile.getContext("2d");
  if (!c) return null;
  c.fillStyle = back;
  c.fillRect(0, 0, 8, 8);
  c.strokeStyle = line;
  c.lineWidth = 1.4;
  c.globalAlpha = 0.6;
  for (const x of [-4, 4, 12]) {
    c.beginPath();
    c.moveTo(x - 5, 9);
    c.lineTo(x + 5, -1);
    c.stroke();
  }
  return c.createPattern(tile, "repeat");
}

// The shapes of states, 12 × 12, as outlines; those of the page are SVG.
const outlines: Partial<Record<ShapeName, { fill?: string; stroke?: string; knock?: string }>> = {
  succeeded: { fill: "M6 0a6 6 0 1 0 0 12A6 6 0 0 0 6 0", knock: "M3.2 6.3 5.2 8.3 8.9 4.3" },
  failed: { fill: "M0 0h12v12H0z", knock: "m3.6 3.6 4.8 4.8m0-4.8-4.8 4.8" },
  running: { stroke: "M6 1.3A4.7 4.7 0 1 0 10.7 6" },
  starting: { stroke: "M6 1.3a4.7 4.7 0 0 1 3.500 1.600M10.7 6a4.7 4.7 0 0 1-1.500 3.300M6 10.7a4.7 4.7 0 0 1-3.500-1.600M1.3 6a4.7 4.7 0 0 1 1.500-3.300" },
  waiting: { stroke: "M2 1h8L6.6 6 10 11H2l3.4-5z" },
  suspended: { stroke: "M3.4 1.500v9M8.6 1.500v9" },
  stopping: { fill: "M3.500 3.500h5v5h-5z", stroke: "M6 .8a5.2 5.2 0 1 0 0 10.400A5.2 5.2 0 0 0 6 .8" },
  cancelled: { stroke: "M6 .8a5.2 5.2 0 1 0 0 10.400A5.2 5.2 0 0 0 6 .8m-3.500 8.700 7-7" },
  replaced: { stroke: "M1.5 7.500a4.5 4.5 0 0 0 8.300 1M10.5 4.500a4.5 4.5 0 0 0-8.300-1M10.7 1v3.500H7.200M1.3 11V7.500h3.500" },
  unknown: { stroke: "M6 .5 11.500 6 6 11.500.5 6zM6 3.500v3M6 8.300v.3" },
};
const paths = new Map<string, Path2D>();
const path = (text: string) => {
  const known = paths.get(text) ?? new Path2D(text);
  paths.set(text, known);
  return known;
};

export interface Scene {
  width: number;
  height: number;
  scrollTop: number;
  range: Range;
  now: number;
  lanes: readonly PackedLane[];
  rooms: readonly LaneRoom[];
  colours: Colours;
  /** Bars of this revision stand out. */
  revision: string | undefined;
}

/** x of a time in a scene, in pixels. */
export function xOf(scene: Pick<Scene, "width" | "range">, time: number): number {
  return ((time - scene.range.from) / (scene.range.to - scene.range.from)) * scene.width;
}

/** draw a scene: axis, lanes that are on the screen, their bars, and now. */
export function draw(c: CanvasRenderingContext2D, scene: Scene): void {
  const { width, height, colours, lanes, rooms, scrollTop } = scene;
  c.fillStyle = colours.bg;
  c.fillRect(0, 0, width, height);
  const marks = axis(c, scene);
  lanes.forEach((lane, i) => {
    const room = rooms[i];
    if (!room) return;
    const top = AXIS + room.top - scrollTop;
    if (top > height || top + room.height < AXIS) return;
    c.fillStyle = colours.line;
    c.fillRect(0, top + room.height - 1, width, 1);
    if (lane.lane.staleSince) silence(c, scene, Date.parse(lane.lane.staleSince), top, room.height);
    if (room.track === 0) area(c, scene, lane, top, room.height);
    else for (const placed of lane.bars) bar(c, scene, placed, top + 5 + placed.track * room.track, room.track);
  });
  c.fillStyle = colours.bg;
  c.fillRect(0, 0, width, AXIS);
  labels(c, scene, marks);
  nowLine(c, scene);
}

function axis(c: CanvasRenderingContext2D, scene: Scene): ReturnType<typeof ticks> {
  const marks = ticks(scene.range, Math.max(2, Math.floor(scene.width / 96)), -new Date(scene.range.to).getTimezoneOffset() * 60_000);
  for (const { at, day } of marks.ticks) {
    c.fillStyle = day ? scene.colours.strong : scene.colours.line;
    c.fillRect(Math.round(xOf(scene, at)), AXIS, 1, scene.height);
  }
  return marks;
}

function labels(c: CanvasRenderingContext2D, scene: Scene, { step, ticks: list }: ReturnType<typeof ticks>): void {
  c.font = font(11.5);
  c.textBaseline = "middle";
  c.fillStyle = scene.colours.strong;
  c.fillRect(0, AXIS - 1, scene.width, 1);
  for (const { at, day } of list) {
    const x = Math.round(xOf(scene, at));
    const date = new Date(at);
    const text = step >= 86_400_000 || day ? date.toLocaleDateString(undefined, { day: "numeric", month: "short" }) : date.toLocaleTimeString(undefined, { hour: "2-digit", minute: "2-digit", ...(step < 60_000 ? { second: "2-digit" } : {}) });
    c.fillStyle = day ? scene.colours.text : scene.colours.dim;
    c.fillText(text, x + 4, AXIS / 2);
    c.fillStyle = scene.colours.strong;
    c.fillRect(x, AXIS - 6, 1, 5);
  }
}

function nowLine(c: CanvasRenderingContext2D, scene: Scene): void {
  const x = Math.round(xOf(scene, scene.now));
  if (x < 0 || x > scene.width) return;
  c.fillStyle = scene.colours.bad;
  c.fillRect(x, AXIS - 8, 1.5, scene.height);
  c.beginPath();
  c.arc(x + 0.75, AXIS - 8, 3.5, 0, 7);
  c.fill();
}

/** silence: nothing is known of the member since then. */
function silence(c: CanvasRenderingContext2D, scene: Scene, since: number, top: number, height: number): void {
  const from = Math.max(0, xOf(scene, since));
  const to = Math.min(scene.width, xOf(scene, scene.now));
  if (to <= from) return;
  c.globalAlpha = 0.35;
  c.fillStyle = scene.colours.hatch;
  c.fillRect(from, top, to - from, height - 1);
  c.globalAlpha = 1;
}

/** area of how many there are at once. */
function area(c: CanvasRenderingContext2D, scene: Scene, lane: PackedLane, top: number, height: number): void {
  const steps = load(lane.bars, scene.now);
  const most = Math.max(1, ...steps.map(([, count]) => count));
  const tone = lane.lane.member ? "run" : "wait";
  const y = (count: number) => top + height - 5 - (count / most) * (height - 14);
  c.beginPath();
  c.moveTo(-10, y(0));
  for (const [i, [at, count]] of steps.entries()) {
    const x = Math.min(scene.width + 10, Math.max(-10, xOf(scene, at)));
    c.lineTo(x, y(steps[i - 1]?.[1] ?? 0));
    c.lineTo(x, y(count));
  }
  c.fillStyle = scene.colours[`${tone}-tint`];
  c.fill();
  c.strokeStyle = scene.colours[tone];
  c.lineWidth = 1.5;
  c.stroke();
}

const font = (size: number) => `${size}px system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", sans-serif`;

function bar(c: CanvasRenderingContext2D, scene: Scene, placed: Placed, top: number, track: number): void {
  const { bar: run, start } = placed;
  const end = Math.min(placed.end, scene.now);
  const left = Math.max(-4, xOf(scene, start));
  const right = Math.min(scene.width + 4, Math.max(xOf(scene, end), left + 3));
  if (right < 0 || left > scene.width) return;
  const height = track - (track > 10 ? 3 : 2);
  const state = stateOfBar(run);
  const sign = signOf(state);
  const ink = scene.colours[sign.tone];
  c.save();
  c.beginPath();
  c.roundRect(left, top, right - left, height, Math.min(3, (right - left) / 2));
  c.clip();
  for (const part of partsOf(run, scene.now)) {
    const x = Math.max(left, xOf(scene, part.from));
    const width = Math.min(right, Math.max(xOf(scene, part.to), x + 1)) - x;
    if (width <= 0) continue;
    // What is too low for a shape tells failure by a solid bar.
    if (track < 14 && state === "Failed") c.fillStyle = ink;
    else c.fillStyle = part.phase === "lost" ? scene.colours.hatch : part.phase === "pending" ? scene.colours["wait-tint"] : part.phase === "waiting" || part.phase === "starting" ? scene.colours.bg : scene.colours[`${sign.tone}-tint`];
    c.fillRect(x, top, width, height);
    if (part.phase === "starting" || part.phase === "pending") stripes(c, x, top, width, height, part.phase === "pending" ? scene.colours.wait : ink);
  }
  c.restore();
  outline(c, left, top, right, height, ink, run.waiting, scene.revision !== undefined && run.commit?.revision === scene.revision ? scene.colours.accent : "");
  if (track >= 14 && right - left > 26) text(c, scene, run.name, sign.shape, ink, Math.max(left, 0), right, top, height, age(end - start));
}

/** stripes upright: it is live, and no pod of it runs. */
function stripes(c: CanvasRenderingContext2D, x: number, top: number, width: number, height: number, ink: string): void {
  c.fillStyle = ink;
  c.globalAlpha = 0.3;
  for (let at = Math.max(x, 0); at < Math.min(x + width, 8000); at += 4) c.fillRect(at, top, 1.5, height);
  c.globalAlpha = 1;
}

function outline(c: CanvasRenderingContext2D, left: number, top: number, right: number, height: number, ink: string, dashed: boolean, same: string): void {
  c.strokeStyle = same || ink;
  c.lineWidth = same ? 2 : 1;
  c.setLineDash(dashed ? [4, 3] : []);
  c.beginPath();
  c.roundRect(left + 0.5, top + 0.5, Math.max(1, right - left - 1), height - 1, Math.min(3, (right - left) / 2));
  c.stroke();
  c.setLineDash([]);
  if (!dashed) {
    c.fillStyle = ink;
    c.fillRect(left, top, Math.min(3, right - left), height);
  }
}

function text(c: CanvasRenderingContext2D, scene: Scene, name: string, shape: ShapeName, ink: string, left: number, right: number, top: number, height: number, long: string): void {
  const size = Math.min(10, height - 3);
  glyph(c, shape, left + 7, top + (height - size) / 2, size, ink, scene.colours.bg);
  const from = left + 12 + size;
  const room = right - from - 5;
  if (room < 30 || height < 10) return;
  c.font = font(height > 13 ? 11.5 : 10);
  c.textBaseline = "middle";
  c.save();
  c.beginPath();
  c.rect(from, top, room, height);
  c.clip();
  c.fillStyle = scene.colours.text;
  c.fillText(name, from, top + height / 2 + 0.5);
  const width = c.measureText(name).width;
  if (room > width + 60) {
    c.fillStyle = scene.colours.dim;
    c.fillText(long, from + width + 8, top + height / 2 + 0.5);
  }
  c.restore();
}

function glyph(c: CanvasRenderingContext2D, shape: ShapeName, x: number, y: number, size: number, ink: string, knock: string): void {
  const of = outlines[shape];
  if (!of) return;
  c.save();
  c.translate(x, y);
  c.scale(size / 12, size / 12);
  c.fillStyle = c.strokeStyle = ink;
  c.lineWidth = 1.8;
  if (of.fill) c.fill(path(of.fill));
  if (of.stroke) c.stroke(path(of.stroke));
  if (of.knock) {
    c.strokeStyle = knock;
    c.stroke(path(of.knock));
  }
  c.restore();
}
