import type { ComponentType } from "preact";
import type { MiniCluster } from "../../api/types";
import type { TabProps } from "./tab";

export interface ClusterTab {
  id: string;
  name: string;
  count?: (cluster: MiniCluster) => number | undefined;
  load: () => Promise<{ default: ComponentType<TabProps> }>;
}

/** Tabs of the page of a MiniCluster, each a chunk of its own. The first one is shown at first. */
export const tabs: ClusterTab[] = [
  { id: "tree", name: "Tree", load: () => import("./tree") },
  { id: "why", name: "Why", load: () => import("./why") },
  { id: "runs", name: "Runs", count: (cluster) => cluster.runs.length, load: () => import("./runs") },
  { id: "logs", name: "Logs", load: () => import("./logs") },
  { id: "events", name: "Events", load: () => import("./events") },
  { id: "diff", name: "Diff", load: () => import("./diff") },
  { id: "yaml", name: "YAML", load: () => import("./yaml") },
];
