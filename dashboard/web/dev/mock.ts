// A server of made-up data for developing: it is no part of the build. The query of the page's own address steers nothing here;
// the environment does: MOCK_ROWS, MOCK_MEMBERS, MOCK_CHURN (changes a second), MOCK_LOGIN=1 (asks for a token), MOCK_STREAM=0
// (no stream, so that the page polls), MOCK_ERROR=1 (reads fail).
import type { IncomingMessage, ServerResponse } from "node:http";
import type { Connect, Plugin } from "vite";
import type { components } from "../src/api/schema";
import { Problem, type Handler } from "./answer.ts";
import { makeFleet, type Fleet } from "./fleet.ts";
import * as detail from "./detail.ts";
import * as views from "./views.ts";
import { facets, filtered, sorted } from "./query.ts";

type Schemas = components["schemas"];
type Row = Schemas["Row"];

/** handlers by METHOD and path; each * is a parameter. Add those of a view here, and keep what they need in a file of its own. */
export const handlers: Record<string, Handler> = {
  "GET /session": () => ({ name: "ada@example.org", groups: ["physics", "system:authenticated"], writes: true, members: true, version: "dev", now: new Date().toISOString() }),
  "GET /summary": (fleet, { query, cursor }) => summary(fleet, query, cursor),
  "GET /miniclusters": (fleet, { query, cursor }) => list(fleet, query, cursor),
  ...detail.handlers,
  ...views.handlers,
};

function summary(fleet: Fleet, query: URLSearchParams, cursor: string): Schemas["Summary"] {
  const rows = filtered(fleet.rows, query);
  const ready = fleet.members.filter((m) => m.ready);
  const sum = (of: "free" | "total") => ready.reduce((a, m) => ({ cpu: a.cpu + m.room![of].cpu, memory: a.memory + m.room![of].memory, gpus: a.gpus + m.room![of].gpus }), { cpu: 0, memory: 0, gpus: 0 });
  return {
    miniClusters: rows.length, facets: facets(fleet.rows, query), queue: rows.filter((r) => r.state === "Waiting").length,
    members: { ready: ready.length, total: fleet.members.length }, sources: { ready: 2, total: fleet.sources.length },
    room: { nodes: ready.reduce((n, m) => n + m.room!.nodes, 0), free: sum("free"), total: sum("total") },
    stale: fleet.members.filter((m) => !m.ready).map((m) => ({ member: m.name, ...(m.lastHeard ? { since: m.lastHeard } : {}), message: m.message })),
    cursor, now: new Date().toISOString(),
  };
}

function list(fleet: Fleet, query: URLSearchParams, cursor: string): Schemas["Rows"] {
  const rows = sorted(filtered(fleet.rows, query), query.get("sort") ?? "attention", query.get("order") === "desc");
  const offset = Number(query.get("offset") ?? 0);
  return { items: rows.slice(offset, offset + Number(query.get("limit") ?? 200)), total: rows.length, facets: facets(fleet.rows, query), cursor };
}

const env = process.env;
const csp = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; font-src 'none'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'; require-trusted-types-for 'script'; trusted-types 'none'";

/** mock answers /api/v1 on the development server. */
export function mock(): Plugin {
  return {
    name: "minifleet-mock",
    apply: "serve",
    configureServer(server) {
      if (env.VITEST) return;
      server.middlewares.use(serveMock());
    },
    // The build is shown under the headers of the real server.
    configurePreviewServer(server) {
      server.middlewares.use((_, response, next) => {
        response.setHeader("Content-Security-Policy", csp);
        next();
      });
      server.middlewares.use(serveMock());
    },
  };
}

/** serveMock is a middleware of its own fleet, for the development server and for scripts that show a build. */
export function serveMock(): Connect.NextHandleFunction {
  const fleet = makeFleet(Number(env.MOCK_ROWS ?? 2000), Number(env.MOCK_MEMBERS ?? 50));
  const log: { cursor: number; rows: Row[] }[] = [];
  const streams = new Set<ServerResponse>();
  let cursor = 1;
  let loggedIn = env.MOCK_LOGIN !== "1";
  const now = () => new Date().toISOString();
  const change = (rows: Row[], reset = false): Schemas["Change"] => ({ cursor: String(cursor), reset, miniClusters: rows, removed: [], members: [], sources: [], queue: false, now: now() });
  const send = (to: ServerResponse, event: string, body: unknown) => to.write(`id: ${cursor}\nevent: ${event}\ndata: ${JSON.stringify(body)}\n\n`);

  function publish(rows: Row[]): void {
    cursor++;
    log.push({ cursor, rows });
    if (log.length > 1000) log.shift();
    for (const stream of streams) send(stream, "change", change(rows));
  }
  const churn = Number(env.MOCK_CHURN ?? 2);
  let turn = 0;
  if (churn > 0) {
    setInterval(() => {
      for (let i = 0; i < Math.max(1, churn / 20); i++) {
        const at = (turn++ * 7919) % fleet.rows.length;
        const row = fleet.rows[at]!;
        const changed = stepped(row);
        fleet.rows[at] = changed;
        publish([changed]);
      }
    }, Math.max(50, 1000 / churn)).unref();
  }

  return (request, response, next) => {
    const url = new URL(request.url ?? "/", "http://127.0.0.1");
    if (!url.pathname.startsWith("/api/v1/") && !url.pathname.startsWith("/auth/")) return next();
    const path = url.pathname.slice("/api/v1".length);
    const json = (body: unknown, status = 200) => {
      response.writeHead(status, { "Content-Type": status < 400 ? "application/json" : "application/problem+json", "Cache-Control": "no-store" });
      response.end(JSON.stringify(body));
    };
    const problem = (p: Problem) => json({ title: "Error", status: p.status, detail: p.detail }, p.status);
    if (path === "/login-methods") return json({ token: true, oidc: true, oidcName: "Example University" });
    if (path === "/login") return void read(request).then((body) => {
      if ((body as { token?: string } | null)?.token !== "demo") return problem(new Problem(401, "unauthorized"));
      loggedIn = true;
      json({ name: "ada@example.org" });
    });
    if (path === "/logout") {
      loggedIn = false;
      response.writeHead(204).end();
      return;
    }
    if (!loggedIn) return problem(new Problem(401, "log in first"));
    if (path === "/stream") {
      if (env.MOCK_STREAM === "0") return problem(new Problem(503, "no stream can be had"));
      response.writeHead(200, { "Content-Type": "text/event-stream", "Cache-Control": "no-store" });
      send(response, "hello", change([]));
      streams.add(response);
      const ping = setInterval(() => send(response, "ping", { now: now() }), 15_000);
      request.on("close", () => {
        clearInterval(ping);
        streams.delete(response);
      });
      return;
    }
    if (path === "/changes") {
      const after = Number(url.searchParams.get("after"));
      return json(change(log.filter((l) => l.cursor > after).flatMap((l) => l.rows)));
    }
    if (path.endsWith("/logs")) return detail.logs(fleet, url, request, response);
    if (env.MOCK_ERROR === "1" && path !== "/session") return problem(new Problem(503, "the caches of the hub are not filled yet"));
    return void read(request).then((body) => {
      const found = find(`${request.method} ${path}`);
      if (!found) return problem(new Problem(404, "not found"));
      const answer = found.handler(fleet, { query: url.searchParams, params: found.params, body, dryRun: url.searchParams.get("dryRun") === "true", cursor: String(cursor) });
      if (answer instanceof Problem) return problem(answer);
      const changed = fleet.rows.filter((row) => (row as Row & { touched?: boolean }).touched);
      changed.forEach((row) => delete (row as Row & { touched?: boolean }).touched);
      if (changed.length) publish(changed);
      json(answer);
    });
  };
}

/** stepped is a row one step on. */
function stepped(row: Row): Row {
  const since = new Date().toISOString();
  if (row.state === "Starting") {
    const ready = Math.min(row.pods.desired, row.pods.ready + 1);
    return { ...row, pods: { ...row.pods, ready }, why: `${ready} of ${row.pods.desired} pods ready`, ...(ready === row.pods.desired ? { state: "Running", since } : {}) };
  }
  if (row.state === "Running" && Math.random() < 0.05) return { ...row, state: "Succeeded", since, why: `12 min on ${row.members[0]}`, pods: { ...row.pods, ready: 0, succeeded: row.pods.desired } };
  return { ...row };
}

function find(request: string): { handler: Handler; params: string[] } | undefined {
  const parts = request.split("/");
  for (const [pattern, handler] of Object.entries(handlers)) {
    const want = pattern.split("/");
    if (want.length === parts.length && want.every((w, i) => w === "*" || w === parts[i])) return { handler, params: parts.filter((_, i) => want[i] === "*").map(decodeURIComponent) };
  }
  return undefined;
}

async function read(request: IncomingMessage): Promise<unknown> {
  let text = "";
  for await (const chunk of request) text += String(chunk);
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return null;
  }
}
