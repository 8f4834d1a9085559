import { describe, expect, it } from "vitest";
import type { Change } from "../api/types";
import { ATTEMPTS, createStream, POLL, RETRY_STREAM, SILENCE, type Environment, type Source } from "./stream";

/** World has time that is moved by hand, and a server that answers as it is told. */
class World implements Environment {
  time = 1_000_000;
  timers: { at: number; run: () => void }[] = [];
  frames: (() => void)[] = [];
  opened: { after: string | null; source: FakeSource }[] = [];
  polled: string[] = [];
  answer: (after: string) => Promise<Change> = () => Promise.reject(new Error("no answer"));

  open(after: string | null): Source {
    const source = new FakeSource();
    this.opened.push({ after, source });
    return source;
  }
  poll(after: string): Promise<Change> {
    this.polled.push(after);
    return this.answer(after);
  }
  now = () => this.time;
  setTimeout = (run: () => void, ms: number) => {
    const timer = { at: this.time + ms, run };
    this.timers.push(timer);
    return timer;
  };
  clearTimeout = (timer: unknown) => {
    this.timers = this.timers.filter((t) => t !== timer);
  };
  frame = (run: () => void) => this.frames.push(run);

  paint(): void {
    const frames = this.frames;
    this.frames = [];
    frames.forEach((run) => run());
  }
  async advance(ms: number): Promise<void> {
    const until = this.time + ms;
    for (;;) {
      const next = this.timers.filter((t) => t.at <= until).sort((a, b) => a.at - b.at)[0];
      if (!next) break;
      this.time = next.at;
      this.clearTimeout(next);
      next.run();
      await Promise.resolve();
      await Promise.resolve();
    }
    this.time = until;
  }
  get last(): FakeSource {
    return this.opened[this.opened.length - 1]!.source;
  }
}

class FakeSource implements Source {
  readyState = 1;
  closed = false;
  private listeners = new Map<string, ((event: MessageEvent<string>) => void)[]>();
  addEventListener(type: string, listener: (event: MessageEvent<string>) => void): void {
    this.listeners.set(type, [...(this.listeners.get(type) ?? []), listener]);
  }
  close(): void {
    this.closed = true;
    this.readyState = 2;
  }
  send(type: string, data: unknown = {}): void {
    const event = { data: typeof data === "string" ? data : JSON.stringify(data) } as MessageEvent<string>;
    this.listeners.get(type)?.forEach((listener) => listener(event));
  }
  fail(readyState: number): void {
    this.readyState = readyState;
    this.send("error");
  }
}

const change = (cursor: string, more: Partial<Change> = {}): Change => ({ cursor, reset: false, miniClusters: [], removed: [], members: [], sources: [], queue: false, now: "2026-01-01T00:00:00Z", ...more });

function start() {
  const world = new World();
  const stream = createStream(world);
  const heard: Change[][] = [];
  stream.on((changes) => heard.push([...changes]));
  stream.start();
  return { world, stream, heard };
}

describe("stream", () => {
  it("is live after hello, and has what was read before it compared with its cursor", () => {
    const { world, stream, heard } = start();
    expect(stream.status.value).toBe("connecting");
    world.last.send("hello", change("a1"));
    world.paint();
    expect(stream.status.value).toBe("live");
    expect(heard).toEqual([[expect.objectContaining({ reset: true, cursor: "a1" })]]);
  });

  it("delivers all changes of a frame at once, in order", () => {
    const { world, heard } = start();
    world.last.send("hello", change("a1"));
    world.paint();
    for (let i = 2; i < 202; i++) world.last.send("change", change(`a${i}`));
    expect(heard).toHaveLength(1);
    world.paint();
    expect(heard).toHaveLength(2);
    expect(heard[1]?.map((c) => c.cursor)).toEqual(Array.from({ length: 200 }, (_, i) => `a${i + 2}`));
  });

  it("has everything read again in place of a long backlog", () => {
    const { world, heard } = start();
    for (let i = 0; i < 600; i++) world.last.send("change", change(`a${i}`));
    world.paint();
    expect(heard[0]?.[0]?.reset).toBe(true);
    expect(heard[0]!.length).toBeLessThan(500);
  });

  it("goes on after its cursor when the server falls silent", async () => {
    const { world, stream, heard } = start();
    world.last.send("hello", change("a1"));
    world.last.send("change", change("a2"));
    world.paint();
    await world.advance(SILENCE - 1);
    expect(stream.status.value).toBe("live");
    await world.advance(1);
    expect(stream.status.value).toBe("disconnected");
    await world.advance(0);
    expect(world.opened.map((o) => o.after)).toEqual([null, "a2"]);
    expect(world.opened[0]?.source.closed).toBe(true);
    world.last.send("hello", change("a2"));
    world.paint();
    expect(stream.status.value).toBe("live");
    expect(heard).toHaveLength(1); // Nothing was missed, so nothing is read again.
  });

  it("is kept alive by heartbeats", async () => {
    const { world, stream } = start();
    world.last.send("hello", change("a1"));
    for (let i = 0; i < 5; i++) {
      await world.advance(15_000);
      world.last.send("ping");
    }
    expect(stream.status.value).toBe("live");
    expect(world.opened).toHaveLength(1);
  });

  it("delivers what a hello after a reconnection tells", () => {
    const { world, heard } = start();
    world.last.send("hello", change("a1"));
    world.paint();
    world.last.fail(0); // The browser connects again by itself.
    world.last.send("hello", change("a5", { removed: [{ namespace: "physics", name: "hpcg" }] }));
    world.paint();
    expect(heard[1]).toEqual([expect.objectContaining({ reset: false, cursor: "a5" })]);
  });

  it.each([
    ["an event", (s: FakeSource) => s.send("reset")],
    ["a hello that does not know the cursor", (s: FakeSource) => s.send("hello", change("b1", { reset: true }))],
    ["a change", (s: FakeSource) => s.send("change", change("b1", { reset: true }))],
  ])("has everything read again after a reset by %s", (_, send) => {
    const { world, heard } = start();
    world.last.send("hello", change("a1"));
    world.paint();
    send(world.last);
    world.paint();
    expect(heard[1]?.some((c) => c.reset)).toBe(true);
  });

  it("polls where no stream can be had, and tries for one again later", async () => {
    const { world, stream, heard } = start();
    let cursor = 1;
    world.answer = () => Promise.resolve(change(`p${cursor++}`));
    for (let i = 0; i < ATTEMPTS; i++) {
      world.last.fail(2);
      await world.advance(1_000);
    }
    expect(stream.status.value).toBe("polling");
    await world.advance(POLL * 2);
    expect(world.polled.slice(0, 3)).toEqual(["", "p1", "p2"]);
    world.paint();
    expect(heard.flat().map((c) => c.cursor).slice(0, 3)).toEqual(["p1", "p2", "p3"]);
    const opened = world.opened.length;
    await world.advance(RETRY_STREAM);
    expect(world.opened.length).toBeGreaterThan(opened);
    expect(world.opened[world.opened.length - 1]?.after).toMatch(/^p\d+$/);
    world.last.send("hello", change("p99"));
    expect(stream.status.value).toBe("live");
    const polled = world.polled.length;
    await world.advance(15_000);
    expect(world.polled.length).toBe(polled);
  });

  it("is disconnected when polling fails too", async () => {
    const { world, stream } = start();
    world.last.send("hello", change("a1"));
    world.last.fail(2);
    await world.advance(1_000);
    world.last.fail(2);
    await world.advance(SILENCE);
    expect(stream.status.value).toBe("disconnected");
    world.answer = () => Promise.resolve(change("a2"));
    await world.advance(POLL);
    expect(stream.status.value).toBe("polling");
  });

  it.each([
    ["forbidden", "forbidden"],
    ["login", JSON.stringify("login")],
    ["forbidden", JSON.stringify({ reason: "forbidden" })],
  ])("ends at a bye for %s", async (reason, data) => {
    const { world, stream } = start();
    world.last.send("hello", change("a1"));
    world.last.send("bye", data);
    expect([stream.status.value, stream.reason.value]).toEqual(["ended", reason]);
    await world.advance(120_000);
    expect(world.opened).toHaveLength(1);
    expect(stream.status.value).toBe("ended");
  });

  it("connects to the server that comes after a shutdown", async () => {
    const { world, stream } = start();
    world.last.send("hello", change("a1"));
    world.last.send("bye", "shutdown");
    await world.advance(500);
    expect(world.opened[1]?.after).toBe("a1");
    expect(stream.status.value).not.toBe("ended");
  });

  it("does not listen to a stream that it has given up", async () => {
    const { world, heard } = start();
    const first = world.last;
    first.send("hello", change("a1"));
    world.paint();
    await world.advance(SILENCE);
    await world.advance(0);
    first.send("change", change("stray"));
    world.paint();
    expect(heard.flat().map((c) => c.cursor)).not.toContain("stray");
  });
});
