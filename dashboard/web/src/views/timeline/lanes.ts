import type { Bar, Lane } from "../../api/types";
import { stateOf } from "../shared/run";
import type { Range } from "./scale";

export type Phase = "waiting" | "starting" | "running" | "pending" | "lost";

export interface Part extends Range {
  phase: Phase;
}

/** Placed is a bar on a track of its lane. */
export interface Placed {
  bar: Bar;
  track: number;
  start: number;
  /** Infinity while it is live. */
  end: number;
}

export interface PackedLane {
  lane: Lane;
  /** By start. */
  bars: Placed[];
  tracks: number;
}

const time = (text: string | undefined) => (text ? Date.parse(text) : NaN);

/** startOf a bar in milliseconds: the first that is known of it. */
export function startOf(bar: Bar): number {
  return [bar.start, bar.running, bar.end, bar.lost, bar.staleSince].map(time).find((t) => !Number.isNaN(t)) ?? 0;
}

/** stateOfBar is the word for it. */
export const stateOfBar = (bar: Bar) => (bar.waiting ? "Waiting" : stateOf(bar));

/** pack bars onto tracks so that none overlaps another: each on the first track that is free when it starts. */
export function pack(lane: Lane): PackedLane {
  const free: number[] = [];
  const bars = [...lane.bars].map((bar) => ({ bar, start: startOf(bar), end: bar.end ? time(bar.end) : Infinity })).sort((a, b) => a.start - b.start || (a.bar.id < b.bar.id ? -1 : 1));
  const placed = bars.map(({ bar, start, end }): Placed => {
    let track = free.findIndex((until) => until <= start);
    if (track < 0) track = free.length;
    free[track] = Math.max(end, start + 1);
    return { bar, track, start, end };
  });
  return { lane, bars: placed, tracks: Math.max(1, free.length) };
}

/** partsOf a bar by what it did when, without gaps, until its end or now. */
export function partsOf(bar: Bar, now: number): Part[] {
  const start = startOf(bar);
  const end = bar.end ? time(bar.end) : Math.max(now, start);
  if (bar.waiting) return [{ phase: "waiting", from: start, to: end }];
  const marks: [number, Phase][] = [[start, "starting"]];
  const add = (text: string | undefined, phase: Phase) => {
    const at = time(text);
    if (!Number.isNaN(at)) marks.push([Math.min(Math.max(at, start), end), phase]);
  };
  add(bar.running, "running");
  if (!bar.end) {
    add(bar.pending, "pending");
    add(bar.lost ?? bar.staleSince, "lost");
  } else if (!bar.running) marks[0] = [start, bar.state === "Succeeded" ? "running" : "starting"];
  marks.sort((a, b) => a[0] - b[0]);
  return marks.map(([from, phase], i) => ({ phase, from, to: marks[i + 1]?.[0] ?? end })).filter((part, _, all) => part.to > part.from || all.length === 1);
}

/** How many run at once over time: [time, count], the count from that time on. */
export function load(bars: readonly Placed[], now: number): [number, number][] {
  const changes = bars.flatMap(({ start, end }): [number, number][] => [[start, 1], [Math.min(end, now), -1]]).sort((a, b) => a[0] - b[0]);
  const steps: [number, number][] = [];
  let count = 0;
  for (const [at, by] of changes) {
    count += by;
    if (steps.at(-1)?.[0] === at) steps.pop();
    steps.push([at, count]);
  }
  return steps;
}

/** Room is where a lane is drawn, in pixels. */
export interface LaneRoom {
  top: number;
  height: number;
  /** Of a track; 0 where the lane is folded. */
  track: number;
}

/** Lanes with more tracks are folded to how many there are at once, unless the reader unfolds them. */
export const FOLD = 24;

/** roomsOf lanes one below the other. turned are those that are not as they are at first. */
export function roomsOf(lanes: readonly PackedLane[], turned: ReadonlySet<string>): LaneRoom[] {
  let top = 0;
  return lanes.map(({ lane, tracks }) => {
    const folded = tracks > FOLD !== turned.has(lane.member);
    const track = folded ? 0 : tracks <= 6 ? 20 : tracks <= 14 ? 14 : 9;
    const height = folded ? 74 : Math.max(44, tracks * track + 10);
    const room = { top, height, track };
    top += height;
    return room;
  });
}

/** at finds the bar that is drawn at a time and a height, which is from the top of its lane; slack in milliseconds. */
export function at(lane: PackedLane, room: LaneRoom, time: number, y: number, now: number, slack: number): Placed | undefined {
  if (room.track === 0) return undefined;
  const track = Math.floor((y - 5) / room.track);
  return lane.bars.findLast((p) => p.track === track && p.start - slack <= time && time <= Math.min(p.end, now) + slack);
}

/** Place of a bar among lanes. */
export interface Place {
  lane: number;
  index: number;
}

/** step goes from a bar to another by keys: along its lane, or to the one that is nearest in time in the next lane that has any. */
export function step(lanes: readonly PackedLane[], place: Place, key: string): Place {
  const here = lanes[place.lane];
  if (!here) return place;
  const last = here.bars.length - 1;
  switch (key) {
    case "ArrowRight": return { ...place, index: Math.min(last, place.index + 1) };
    case "ArrowLeft": return { ...place, index: Math.max(0, place.index - 1) };
    case "Home": return { ...place, index: 0 };
    case "End": return { ...place, index: last };
  }
  const by = key === "ArrowDown" ? 1 : key === "ArrowUp" ? -1 : 0;
  const start = here.bars[place.index]?.start ?? 0;
  for (let i = place.lane + by; by !== 0 && i >= 0 && i < lanes.length; i += by) {
    const bars = lanes[i]?.bars ?? [];
    if (bars.length === 0) continue;
    const index = bars.reduce((best, bar, j) => (Math.abs(bar.start - start) < Math.abs((bars[best]?.start ?? Infinity) - start) ? j : best), 0);
    return { lane: i, index };
  }
  return place;
}
