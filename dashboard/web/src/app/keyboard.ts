import { signal } from "@preact/signals";
import { isNav, routes } from "../routes";
import { navigate } from "./router";

/** shortcuts says whether their list is shown. */
export const shortcuts = signal(false);

/** How long g waits for its second key, in milliseconds. */
const CHORD = 1200;

/** startKeyboard listens for the shortcuts of the whole page until the returned function is called. */
export function startKeyboard(): () => void {
  let chord = -CHORD;
  const listener = (event: KeyboardEvent) => {
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || typing(event.target) || document.querySelector("dialog[open]")) return;
    const second = event.timeStamp - chord < CHORD ? routes.filter(isNav).find((r) => r.key === event.key) : undefined;
    chord = !second && event.key === "g" ? event.timeStamp : -CHORD;
    if (second) navigate(second.path);
    else if (event.key === "g") return;
    else if (event.key === "?") shortcuts.value = true;
    else if (event.key === "j") {
      const rows = document.querySelector<HTMLElement>("[data-rows]");
      if (!rows) return;
      rows.focus();
    } else if (event.key === "/") {
      const search = document.querySelector<HTMLInputElement>("[data-search]");
      if (!search) return;
      search.focus();
      search.select();
    } else return;
    event.preventDefault();
  };
  addEventListener("keydown", listener);
  return () => removeEventListener("keydown", listener);
}

/** typing says whether a key pressed there is text. */
function typing(target: EventTarget | null): boolean {
  if (!(target instanceof HTMLElement)) return false;
  return target.isContentEditable || target.matches("textarea, select, input:not([type=checkbox]):not([type=radio]):not([type=button])");
}
