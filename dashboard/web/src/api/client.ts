import createClient from "openapi-fetch";
import { setServerTime } from "../data/clock";
import { lost } from "../data/session";
import type { paths } from "./schema";
import type { Problem } from "./types";

/** client asks the API of the page's own origin, with the cookie of its session. */
export const client = createClient<paths>({
  baseUrl: globalThis.location?.origin ?? "http://127.0.0.1",
  credentials: "same-origin",
  cache: "no-store",
});

client.use({
  onResponse({ response }) {
    const date = response.headers.get("Date");
    if (date) setServerTime(date, 1000);
    if (response.status === 401) lost("login");
  },
});

/** Failure is an answer that is not the wanted one, or none at all (status 0). */
export class Failure extends Error {
  constructor(
    readonly status: number,
    message: string,
    /** What is wrong with single fields, e.g. "body.size: expected number >= 1". */
    readonly details: string[] = [],
  ) {
    super(message);
  }

  /** transient says whether the same request may well succeed a little later. */
  get transient(): boolean {
    return this.status === 0 || this.status === 429 || this.status >= 500;
  }
}

/** How long until what has failed for the moment is tried again, in milliseconds. */
export const RETRY = 3_000;

interface Answer<T> {
  data?: T;
  error?: unknown;
  response: Response;
}

/** data of an answer; throws Failure. */
export async function data<T>(asked: Promise<Answer<T>>): Promise<T> {
  let answer: Answer<T>;
  try {
    answer = await asked;
  } catch (cause) {
    if (cause instanceof DOMException && cause.name === "AbortError") throw cause;
    throw new Failure(0, "The server does not answer.");
  }
  if (!answer.response.ok) throw failure(answer.response.status, answer.error);
  return answer.data as T;
}

/** failure made of the body of an answer, which is a problem of RFC 9457, or not. */
export function failure(status: number, body: unknown): Failure {
  const problem = (typeof body === "object" && body !== null ? body : {}) as Partial<Problem>;
  const details = (problem.errors ?? []).map((e) => [e.location, e.message].filter(Boolean).join(": "));
  return new Failure(status, problem.detail || problem.title || sentences[status] || `The server answers with status ${status}.`, details);
}

const sentences: Record<number, string> = {
  401: "Your session has ended.",
  403: "You may not do this.",
  404: "There is no such thing, or you may not see it.",
  409: "Somebody else has changed it meanwhile.",
  429: "Too many requests at once. Try again in a moment.",
  501: "This server cannot do this.",
  503: "The server is not ready.",
};
