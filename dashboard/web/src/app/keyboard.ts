import { signal } from "@preact/signals";
import { isNav, routes } from "../routes";
import { navigate } from "./router";

/** shortcuts says whether their list is shown. */
export const shortcuts = signal(false);

/** How long g waits for its second key, in milliseconds. */
const CHORD = 1200;

/** startKeyboard listens for the shortcuts of the whole page until the returned function is called. */
export function startKeyboard(): () => void {
  let chord = 0;
  const listener = (event: KeyboardEvent) => {
    if (event.ctrlKey || event.metaKey || event.altKey || typing(event.target) || document.querySelector("dialog[open]")) return;
    if (event.timeStamp - chord < CHORD && event.key !== "g") {
      chord = 0;
      const route = routes.filter(isNav).find((r) => r.key === event.key);
      if (route) navigate(route.path);
      else return;
    } else if (event.key === "g") chord = event.timeStamp;
    else if (event.key === "?") shortcuts.value = true;
    else if (event.key === "/") {
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
