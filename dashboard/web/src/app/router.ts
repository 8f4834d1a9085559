import { computed, signal } from "@preact/signals";
import type { ComponentType } from "preact";

export interface RouteProps {
  /** Values of the :names in the route's path, decoded. */
  params: Record<string, string>;
}

export interface Route {
  /** e.g. /miniclusters/:namespace/:name */
  path: string;
  /** What it is called in the title and to screen readers. */
  title: (params: Record<string, string>) => string;
  /** Loads the view, which is a chunk of its own. */
  load: () => Promise<{ default: ComponentType<RouteProps> }>;
}

export interface Match {
  route: Route;
  params: Record<string, string>;
}

/** match a path with routes; the first that fits. */
export function match(routes: readonly Route[], path: string): Match | undefined {
  const parts = split(path);
  for (const route of routes) {
    const pattern = split(route.path);
    if (pattern.length !== parts.length) continue;
    const params: Record<string, string> = {};
    if (pattern.every((want, i) => fits(want, parts[i] ?? "", params))) return { route, params };
  }
  return undefined;
}

const split = (path: string) => path.split("/").filter(Boolean);

function fits(want: string, part: string, params: Record<string, string>): boolean {
  if (!want.startsWith(":")) return want === part;
  try {
    params[want.slice(1)] = decodeURIComponent(part);
  } catch {
    return false;
  }
  return true;
}

/** path of an object's page. Each part is encoded. */
export function to(...parts: string[]): string {
  return "/" + parts.map(encodeURIComponent).join("/");
}

const here = () => ({ path: location.pathname, search: location.search });
const current = signal(here());

/** path of the page that is shown. */
export const path = computed(() => current.value.path);
/** query of the page that is shown. Change it with setQuery. */
export const query = computed(() => new URLSearchParams(current.value.search));

/** scroll positions by the key of their entry in the history. */
const positions = new Map<number, number>();
let entry = 0;
/** restore is where to scroll when a view is shown again by Back; null: to the top. */
export const restore = signal<number | null>(null);

/** startRouter follows the history and links of the page until the returned function is called. */
export function startRouter(): () => void {
  history.scrollRestoration = "manual";
  entry = (history.state as { entry?: number } | null)?.entry ?? 0;
  history.replaceState({ entry }, "");
  const back = () => {
    positions.set(entry, window.scrollY);
    entry = (history.state as { entry?: number } | null)?.entry ?? 0;
    restore.value = positions.get(entry) ?? null;
    current.value = here();
  };
  addEventListener("popstate", back);
  document.addEventListener("click", follow);
  return () => {
    removeEventListener("popstate", back);
    document.removeEventListener("click", follow);
  };
}

/** follow links of the page without loading it anew. */
function follow(event: MouseEvent): void {
  if (event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
  const link = (event.target as Element | null)?.closest?.("a[href]");
  if (!(link instanceof HTMLAnchorElement) || link.target || link.hasAttribute("download") || link.origin !== location.origin) return;
  if (/^\/(api|auth)\//.test(link.pathname) || (link.hash && link.pathname === location.pathname)) return;
  event.preventDefault();
  navigate(link.pathname + link.search);
}

/** navigate to a path with its query. */
export function navigate(target: string, options: { replace?: boolean } = {}): void {
  const url = new URL(target, location.origin);
  if (url.origin !== location.origin) return;
  const samePath = url.pathname === location.pathname;
  if (options.replace) {
    history.replaceState({ entry }, "", url);
  } else {
    positions.set(entry, window.scrollY);
    entry = Math.max(entry, ...positions.keys()) + 1;
    history.pushState({ entry }, "", url);
  }
  restore.value = null;
  current.value = here();
  if (!samePath) window.scrollTo(0, 0);
}

/** setQuery changes parameters of the query: a value, several, or null for none. */
export function setQuery(changes: Record<string, string | readonly string[] | null>, options: { replace?: boolean } = {}): void {
  const next = new URLSearchParams(location.search);
  for (const [name, value] of Object.entries(changes)) {
    next.delete(name);
    for (const each of value === null ? [] : typeof value === "string" ? [value] : value) if (each !== "") next.append(name, each);
  }
  const search = next.toString();
  navigate(location.pathname + (search ? `?${search}` : ""), options);
}
