import type { MiniCluster } from "../../api/types";

/** TabProps are what each tab is given. */
export interface TabProps {
  cluster: MiniCluster;
}
