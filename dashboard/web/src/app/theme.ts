import { effect, signal } from "@preact/signals";

export type Theme = "auto" | "light" | "dark";
const order: Theme[] = ["auto", "light", "dark"];

/** theme of the page; auto follows the system. It is remembered in this browser. */
export const theme = signal<Theme>(read());

function read(): Theme {
  try {
    const kept = localStorage.getItem("theme");
    return order.find((t) => t === kept) ?? "auto";
  } catch {
    return "auto"; // The browser keeps nothing.
  }
}

/** nextTheme goes from auto to light, dark, and back. */
export function nextTheme(): void {
  theme.value = order[(order.indexOf(theme.value) + 1) % order.length] ?? "auto";
  try {
    localStorage.setItem("theme", theme.value);
  } catch {
    // It holds until the page is loaded again.
  }
}

export function startTheme(): void {
  effect(() => {
    if (theme.value === "auto") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = theme.value;
  });
}
