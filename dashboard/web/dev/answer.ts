import type { Fleet } from "./fleet.ts";

/** Handler answers one path with JSON, or with Problem. */
export type Handler = (fleet: Fleet, request: { query: URLSearchParams; params: string[]; body: unknown; dryRun: boolean; cursor: string }) => unknown;

/** Problem is an answer that is not 200. */
export class Problem {
  constructor(readonly status: number, readonly detail: string) {}
}
