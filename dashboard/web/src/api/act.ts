import { failure, Failure } from "./client";
import { lost } from "../data/session";
import type { Done } from "./types";

/** key for a header Idempotency-Key: of random letters, also where the page is not in a secure context. */
export function idempotencyKey(): string {
  return [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

export interface Act {
  /** Nothing is done, and everything is checked. */
  dryRun: boolean;
  body?: object | undefined;
  /** Repeated with the same key, it is done once. */
  key?: string;
}

/** act asks for an action, e.g. at /api/v1/members/alpine/drain; throws Failure. */
export async function act(path: string, { dryRun, body, key }: Act): Promise<Done> {
  let response: Response;
  try {
    response = await fetch(`${path}${dryRun ? "?dryRun=true" : ""}`, {
      method: "POST",
      credentials: "same-origin",
      headers: { "Content-Type": "application/json", ...(key ? { "Idempotency-Key": key } : {}) },
      body: JSON.stringify(body ?? {}),
    });
  } catch {
    throw new Failure(0, "The server does not answer, so it is not known whether this was done.");
  }
  if (response.status === 401) lost("login");
  const answer: unknown = await response.json().catch(() => null);
  if (!response.ok) throw failure(response.status, answer);
  return answer as Done;
}
