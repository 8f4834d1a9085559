import type { Route } from "./app/router";
import type { IconName } from "./ui/icons";

/** Entry of the navigation. */
export interface NavRoute extends Route {
  nav: string;
  icon: IconName;
  /** Key after g that goes there. */
  key: string;
  /** How many there are, beside the name; read from the summary. */
  count?: "miniClusters" | "queue" | "members" | "sources";
}

/** Views, each a chunk of its own: one line here and one folder below views. Entries with nav are in the navigation, in order. */
export const routes: (Route | NavRoute)[] = [
  { path: "/", title: () => "Fleet", nav: "Fleet", icon: "fleet", key: "f", count: "miniClusters", load: () => import("./views/fleet/view") },
  { path: "/grid", title: () => "Grid", nav: "Grid", icon: "grid", key: "g", load: () => import("./views/grid/view") },
  { path: "/timeline", title: () => "Timeline", nav: "Timeline", icon: "timeline", key: "t", load: () => import("./views/timeline/view") },
  { path: "/queue", title: () => "Queue", nav: "Queue", icon: "queue", key: "q", count: "queue", load: () => import("./views/queue/view") },
  { path: "/members", title: () => "Members", nav: "Members", icon: "members", key: "m", count: "members", load: () => import("./views/members/view") },
  { path: "/members/:name", title: (p) => p.name ?? "Member", load: () => import("./views/members/detail") },
  { path: "/sources", title: () => "Sources", nav: "Sources", icon: "sources", key: "s", count: "sources", load: () => import("./views/sources/view") },
  { path: "/sources/:namespace/:name", title: (p) => `${p.namespace}/${p.name}`, load: () => import("./views/sources/detail") },
  { path: "/miniclusters/:namespace/:name", title: (p) => `${p.namespace}/${p.name}`, load: () => import("./views/minicluster/view") },
];

export const isNav = (route: Route | NavRoute): route is NavRoute => "nav" in route;
