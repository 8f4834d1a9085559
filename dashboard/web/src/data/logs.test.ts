import { describe, expect, it } from "vitest";
import { readLogs, splitter, type Entry } from "./logs";
import type { LogLine } from "../api/types";

describe("splitter", () => {
  it("puts lines together that come in parts, and shows what is no JSON as it is", () => {
    const got: LogLine[] = [];
    const lines = splitter((line) => got.push(line));
    for (const part of ['{"text":"a', '"}\n{"te', 'xt":"b"}\nplain\n\n{"end":"en', 'ded"}\n', '{"text":"unfinished']) lines.push(part);
    expect(got).toEqual([{ text: "a" }, { text: "b" }, { text: "plain" }, { end: "ended" }]);
  });
});

/** answers in turn; null is a connection that cannot be made. */
function read(answers: (string | { status: number; body: string } | null)[], follow = true) {
  const asked: string[] = [];
  const entries: Entry[] = [];
  const statuses: string[] = [];
  return new Promise<{ asked: string[]; entries: Entry[]; statuses: string[] }>((done) => {
    const stream = readLogs({
      follow, url: (since) => `/logs?since=${since}`,
      add: (more) => entries.push(...more),
      status: (s) => {
        statuses.push(s.kind);
        if (s.kind === "ended" || s.kind === "failed") setTimeout(() => done({ asked, entries, statuses }));
      },
      wait: () => Promise.resolve(),
      fetch: (url) => {
        asked.push(String(url));
        const answer = answers.shift();
        if (answer === undefined) stream.close();
        if (answer === null || answer === undefined) return Promise.reject(new TypeError("network"));
        return Promise.resolve(typeof answer === "string" ? new Response(answer) : new Response(answer.body, { status: answer.status }));
      },
    });
  });
}

const line = (second: number, text: string) => `${JSON.stringify({ time: `2026-01-01T00:00:0${second}.5Z`, text })}\n`;

describe("readLogs", () => {
  it("goes on after the last line when the connection is lost", async () => {
    const got = await read([line(1, "a") + line(2, "b"), null, `{"lost":3}\n${line(5, "c")}{"end":"ended"}\n`]);
    expect(got.asked).toEqual(["/logs?since=", "/logs?since=2026-01-01T00:00:02.5Z", "/logs?since=2026-01-01T00:00:02.5Z"]);
    expect(got.entries.map((e) => `${e.kind} ${e.text}`)).toEqual(["line a", "line b", "lost 3 lines, at least, cannot be had any more", "line c"]);
    expect(got.statuses).toEqual(["following", "retrying", "retrying", "following", "ended"]);
  });
  it("does not try again where it is not followed", async () => {
    const got = await read([line(1, "a")], false);
    expect(got.statuses).toEqual(["reading", "ended"]);
  });
  it("waits for a pod that has no log yet, while it is followed", async () => {
    const none = { status: 409, body: JSON.stringify({ detail: "it has not started" }) };
    expect((await read([none, none, `${line(1, "a")}{"end":"ended"}\n`])).statuses).toEqual(["retrying", "retrying", "following", "ended"]);
    expect((await read([none], false)).statuses).toEqual(["failed"]);
  });
  it("says what the server says when it may not", async () => {
    const got = await read([{ status: 403, body: JSON.stringify({ detail: "no right to read logs" }) }]);
    expect(got.statuses).toEqual(["failed"]);
    expect(got.asked).toHaveLength(1);
  });
});
