import { useMemo } from "preact/hooks";
import { navigate } from "../../app/router";
import { serverNow } from "../../data/clock";
import { age } from "../../data/format";
import { Age } from "../../ui/age";
import { Headers } from "../../ui/columns";
import { CommitText } from "../../ui/commit";
import { Empty } from "../../ui/messages";
import { State } from "../../ui/state";
import { VirtualGrid } from "../../ui/virtual";
import { NARROW, useMedia } from "../shared/narrow";
import { lengthOf, pageOf } from "../shared/run";
import { stateOfBar, type PackedLane } from "./lanes";
import type { Range } from "./scale";

const columns = [{ name: "MiniCluster" }, { name: "State" }, { name: "Member" }, { name: "Length", class: "right" }, { name: "Commit", class: "bars-commit" }, { name: "Started", class: "right" }];

/** BarTable is the timeline as a table, the latest run first. */
export function BarTable({ lanes, range }: { lanes: readonly PackedLane[]; range: Range }) {
  const narrow = useMedia(NARROW).value;
  const minute = Math.floor(range.from / 60_000);
  const bars = useMemo(() => lanes.flatMap((lane) => lane.bars).filter((p) => p.end >= range.from && p.start <= range.to).sort((a, b) => b.start - a.start).map((p) => p.bar), [lanes, minute, range.to - range.from]);
  if (bars.length === 0) return <Empty title="Nothing ran in this time">Zoom out, or go to an earlier time.</Empty>;
  return (
    <VirtualGrid class="bars" label="Runs" total={bars.length} rowHeight={narrow ? 62 : 40} columns={columns.length} show={() => {}} header={<Headers columns={columns} sort="" order="" change={() => {}} />}
      open={(index) => {
        const bar = bars[index];
        if (bar) navigate(pageOf(bar.waiting ? { namespace: bar.namespace, name: bar.name } : bar));
      }}
      row={(index) => {
        const bar = bars[index];
        if (!bar) return null;
        const length = lengthOf(bar, serverNow());
        return (
          <>
            <div role="gridcell" class="bars-name"><a class="clip" tabIndex={-1} href={pageOf(bar.waiting ? { namespace: bar.namespace, name: bar.name } : bar)}>{bar.name}</a> <span class="dim clip">{bar.namespace}</span></div>
            <div role="gridcell" class="bars-state"><State state={stateOfBar(bar)} staleSince={bar.staleSince} /></div>
            <div role="gridcell" class="bars-member clip">{bar.member || <span class="dim">no member yet</span>}</div>
            <div role="gridcell" class="bars-length right num">{length === undefined ? "–" : age(length)}</div>
            <div role="gridcell" class="bars-commit"><CommitText commit={bar.commit} /></div>
            <div role="gridcell" class="bars-start right dim">{bar.start ? <><Age since={bar.start} /> ago</> : "–"}</div>
          </>
        );
      }} />
  );
}
