import { describe, expect, it } from "vitest";
import type { Bar } from "../src/api/types";
import { at, load, pack, partsOf, roomsOf, step } from "../src/views/timeline/lanes";
import { pan, rangeOf, reveal, ticks, zoom } from "../src/views/timeline/scale";

const minute = 60_000;
const iso = (minutes: number) => new Date(minutes * minute).toISOString();
const bar = (id: string, start: number, end?: number, more: Partial<Bar> = {}): Bar => ({ id, namespace: "physics", name: id, member: "alpine", state: "Running", digest: "", attempt: 0, waiting: false, start: iso(start), ...(end === undefined ? {} : { end: iso(end) }), ...more });
const lane = (...bars: Bar[]) => ({ member: "alpine", bars });

describe("lanes", () => {
  it("stacks bars so that none overlaps another", () => {
    const packed = pack(lane(bar("a", 0, 10), bar("b", 5, 12), bar("c", 10, 20), bar("d", 11), bar("e", 30)));
    expect(packed.bars.map((p) => [p.bar.id, p.track])).toEqual([["a", 0], ["b", 1], ["c", 0], ["d", 2], ["e", 0]]);
    expect(packed.tracks).toBe(3);
    for (const p of packed.bars) for (const o of packed.bars) if (p !== o && p.track === o.track) expect(p.end <= o.start || o.end <= p.start).toBe(true);
  });

  const parts: Record<string, { bar: Bar; want: [string, number, number][] }> = {
    "waits": { bar: bar("a", 0, undefined, { waiting: true }), want: [["waiting", 0, 60]] },
    "starts": { bar: bar("a", 10), want: [["starting", 10, 60]] },
    "runs": { bar: bar("a", 10, undefined, { running: iso(12) }), want: [["starting", 10, 12], ["running", 12, 60]] },
    "has no pod that runs": { bar: bar("a", 10, undefined, { running: iso(12), pending: iso(40) }), want: [["starting", 10, 12], ["running", 12, 40], ["pending", 40, 60]] },
    "has no news": { bar: bar("a", 10, undefined, { running: iso(12), staleSince: iso(50) }), want: [["starting", 10, 12], ["running", 12, 50], ["lost", 50, 60]] },
    "has ended": { bar: bar("a", 10, 30, { running: iso(12), staleSince: iso(50) }), want: [["starting", 10, 12], ["running", 12, 30]] },
    "has ended before its pods ran": { bar: bar("a", 10, 30, { state: "Failed" }), want: [["starting", 10, 30]] },
  };
  it.each(Object.entries(parts))("draws in parts one that %s", (_, { bar: of, want }) => {
    expect(partsOf(of, 60 * minute).map((p) => [p.phase, p.from / minute, p.to / minute])).toEqual(want);
  });

  it("counts how many there are at once", () => {
    const packed = pack(lane(bar("a", 0, 10), bar("b", 5), bar("c", 10, 20)));
    expect(load(packed.bars, 60 * minute).map(([time, count]) => [time / minute, count])).toEqual([[0, 1], [5, 2], [10, 2], [20, 1], [60, 0]]);
  });

  it("folds a lane with many tracks, and finds bars by place", () => {
    const many = pack({ member: "basalt", bars: Array.from({ length: 40 }, (_, i) => bar(`b${i}`, i)) });
    const few = pack(lane(bar("a", 0, 10), bar("b", 5, 12)));
    expect(roomsOf([few, many], new Set()).map((r) => r.track > 0)).toEqual([true, false]);
    expect(roomsOf([few, many], new Set(["basalt"])).map((r) => r.track > 0)).toEqual([true, true]);
    const room = roomsOf([few], new Set())[0]!;
    expect(at(few, room, 6 * minute, 5 + room.track + 2, 60 * minute, 0)?.bar.id).toBe("b");
    expect(at(few, room, 11 * minute, 6, 60 * minute, 0)).toBeUndefined();
  });

  it("goes from bar to bar by keys", () => {
    const lanes = [pack(lane(bar("a", 0, 10), bar("b", 50))), pack({ member: "basalt", bars: [] }), pack({ member: "cinder", bars: [bar("c", 2), bar("d", 44)] })];
    expect(step(lanes, { lane: 0, index: 0 }, "ArrowRight")).toEqual({ lane: 0, index: 1 });
    expect(step(lanes, { lane: 0, index: 1 }, "ArrowDown")).toEqual({ lane: 2, index: 1 });
    expect(step(lanes, { lane: 2, index: 0 }, "ArrowUp")).toEqual({ lane: 0, index: 0 });
    expect(step(lanes, { lane: 2, index: 1 }, "ArrowDown")).toEqual({ lane: 2, index: 1 });
  });
});

describe("scale", () => {
  const now = 1_000 * minute;
  it("keeps what is under the pointer in its place when it zooms", () => {
    const before = { span: 100 * minute, to: 900 * minute };
    const after = zoom(before, 0.5, 0.25, now);
    const under = (s: typeof before) => rangeOf(s, now).from + 0.25 * s.span;
    expect(under(after as typeof before)).toBe(under(before));
    expect(after.span).toBe(50 * minute);
  });

  it("follows now when it is panned there, and no further", () => {
    const shown = pan({ span: 100 * minute, to: 990 * minute }, 0.5, now);
    expect(shown.to).toBeNull();
    expect(rangeOf(shown, now).to).toBe(now + 4 * minute);
    expect(pan(shown, -0.5, now).to).toBe(now + 4 * minute - 50 * minute);
  });

  it("reveals what is not shown", () => {
    const shown = { span: 100 * minute, to: null };
    expect(reveal(shown, { from: 950 * minute, to: 960 * minute }, now)).toBe(shown);
    expect(reveal(shown, { from: 300 * minute, to: 310 * minute }, now)).toEqual({ span: 100 * minute, to: 360 * minute });
  });

  it("has ticks at round local times", () => {
    const { step: every, ticks: list } = ticks({ from: 7 * minute, to: 127 * minute }, 8, 0);
    expect(every).toBe(15 * minute);
    expect(list.map((t) => t.at / minute)).toEqual([15, 30, 45, 60, 75, 90, 105, 120]);
  });
});
