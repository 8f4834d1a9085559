import { useEffect } from "preact/hooks";
import type { Row } from "../../api/types";
import { to } from "../../app/router";
import { plural } from "../../data/format";
import type { List } from "../../data/list";
import { Age } from "../../ui/age";
import { Icon } from "../../ui/icons";
import { signOf, State } from "../../ui/state";

/** How many tiles there are at most: what does not fit on a wall screen is counted. */
const MOST = 60;

/** Tiles shows what wants attention, readable from afar. */
export function Tiles({ list, total }: { list: List; total: number }) {
  void list.version.value;
  useEffect(() => list.show(0, MOST), [list]);
  const rows = Array.from({ length: Math.min(MOST, total) }, (_, i) => list.at(i)).filter((row): row is Row => row !== undefined);
  return (
    <>
      <ul class="tiles" aria-label="MiniClusters">
        {rows.map((row) => (
          <li key={`${row.namespace}/${row.name}`} class={`tile ${signOf(row.state).tone}`}>
            <div class="bar flush"><State state={row.state} place={row.place} staleSince={row.staleSince} /><span class="grow" /><span class="dim"><Age since={row.since} /></span></div>
            <a class="clip" href={to("miniclusters", row.namespace, row.name)} title={`${row.namespace}/${row.name}`}>{row.name}</a>
            <span class="tile-why">{row.why}</span>
            <span class="dim clip">{row.namespace}{row.members.length ? ` · ${row.members.join(", ")}` : ""}</span>
          </li>
        ))}
      </ul>
      <p class="view-body bar dim tiles-foot">
        {total > MOST ? <span>{plural(total - MOST, "more MiniCluster")}, counted above</span> : null}
        <span class="grow" />
        <button type="button" onClick={() => void document.documentElement.requestFullscreen?.().catch(() => undefined)}><Icon name="expand" />Full screen</button>
      </p>
    </>
  );
}
