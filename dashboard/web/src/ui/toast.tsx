import { signal } from "@preact/signals";
import { Icon, Shape } from "./icons";

interface Toast {
  id: number;
  tone: "ok" | "bad";
  text: string;
}

const toasts = signal<Toast[]>([]);
const spoken = signal("");
let last = 0;

/** announce something to screen readers only. */
export function announce(text: string): void {
  // The same text twice is spoken twice.
  spoken.value = spoken.value === text ? `${text}\u00a0` : text;
}

/** toast tells the outcome of an action. What went well disappears after 6 s, what failed stays until it is closed. */
export function toast(text: string, tone: Toast["tone"] = "ok"): void {
  const id = ++last;
  toasts.value = [...toasts.value.slice(-3), { id, tone, text }];
  if (tone === "ok") setTimeout(() => close(id), 6_000);
}

function close(id: number): void {
  toasts.value = toasts.value.filter((t) => t.id !== id);
}

/** Toasts are shown at the edge of the page, whichever view is there. */
export function Toasts() {
  return (
    <>
      <div class="toasts" role="log" aria-live="polite" aria-label="Messages">
        {toasts.value.map((t) => (
          <div key={t.id} class={`toast ${t.tone}`}>
            <Shape name={t.tone === "ok" ? "succeeded" : "failed"} />
            <span>{t.text}</span>
            <button type="button" class="plain" aria-label="Close" onClick={() => close(t.id)}><Icon name="close" /></button>
          </div>
        ))}
      </div>
      <div class="hidden" role="status" aria-live="polite">{spoken}</div>
    </>
  );
}
