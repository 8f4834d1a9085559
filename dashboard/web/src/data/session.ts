import { signal } from "@preact/signals";
import type { Session } from "../api/types";

/** state of the session: unknown until the server was asked, then out (log in), forbidden (may see nothing) or in. */
export const state = signal<"unknown" | "out" | "forbidden" | "in">("unknown");

/** session is who the person is; null unless logged in. */
export const session = signal<Session | null>(null);

/** begin notes that the server knows the person. */
export function begin(of: Session): void {
  session.value = of;
  state.value = "in";
}

/** ending notes that the person logs out: nothing is shown or read until it is known how that went. */
export function ending(): void {
  session.value = null;
  state.value = "unknown";
}

/** lost notes that the server does not know the person, or no longer. */
export function lost(reason: "login" | "forbidden"): void {
  session.value = null;
  state.value = reason === "login" ? "out" : "forbidden";
}
