import { useSignal } from "@preact/signals";
import { Component } from "preact";
import { useEffect } from "preact/hooks";
import type { Row } from "../../api/types";
import { to } from "../../app/router";
import type { List } from "../../data/list";
import { Age } from "../../ui/age";
import { Headers, type Column } from "../../ui/columns";
import { CommitText } from "../../ui/commit";
import { signOf, State } from "../../ui/state";
import { VirtualGrid } from "../../ui/virtual";

const columns: Column[] = [
  { name: "MiniCluster", sort: "name" },
  { name: "State", sort: "state" },
  { name: "Why", class: "c-why" },
  { name: "Pods", sort: "pods", class: "c-pods" },
  { name: "Members", sort: "member", class: "c-members" },
  { name: "Commit", sort: "commit", class: "c-commit" },
  { name: "Since", sort: "since", class: "right c-since" },
];

interface RowsProps {
  list: List;
  total: number;
  sort: string;
  order: string;
  open: (row: Row) => void;
  change: (sort: string | null, order: string | null) => void;
}

const narrow = "(max-width: 720px)";

/** Rows of the list, of which those on the screen are in the document. */
export function Rows({ list, total, sort, order, open, change }: RowsProps) {
  const small = useSignal(matchMedia(narrow).matches);
  useEffect(() => {
    const query = matchMedia(narrow);
    const changed = () => (small.value = query.matches);
    query.addEventListener("change", changed);
    return () => query.removeEventListener("change", changed);
  }, []);
  void list.version.value; // Rendered again whenever a row is different.
  return (
    <VirtualGrid
      class="fleet-rows" label="MiniClusters" total={total} rowHeight={small.value ? 78 : 46} columns={columns.length} show={list.show}
      header={<Headers columns={columns} sort={sort} order={order} change={change} />}
      open={(index) => {
        const row = list.at(index);
        if (row) open(row);
      }}
      about={(index) => {
        const row = list.at(index);
        return row && `${row.namespace}/${row.name}`;
      }}
      row={(index) => <Cells row={list.at(index)} />}
    />
  );
}

/** Cells of a row. They are rendered again only if the row is another one. */
class Cells extends Component<{ row: Row | undefined }> {
  override shouldComponentUpdate(next: { row: Row | undefined }): boolean {
    return next.row !== this.props.row;
  }

  override render({ row }: { row: Row | undefined }) {
    if (!row) return <div role="gridcell" aria-colspan={columns.length} class="c-loading"><i /><span class="hidden">Loading</span></div>;
    return (
      <>
        <div role="gridcell" class="c-name"><a class="clip" tabIndex={-1} href={to("miniclusters", row.namespace, row.name)} title={`${row.namespace}/${row.name}`}>{row.name}</a><span class="dim clip">{row.namespace}</span></div>
        <div role="gridcell" class="c-state flush"><State state={row.state} place={row.place} staleSince={row.staleSince} /></div>
        <div role="gridcell" class="c-why" title={row.why}><span class={signOf(row.state).tone === "ok" ? "dim" : ""}>{row.why}</span></div>
        <div role="gridcell" class="c-pods"><Pods row={row} /></div>
        <div role="gridcell" class="c-members clip" title={row.members.join(", ")}>{row.members.length ? row.members.join(", ") : <span class="dim">–</span>}</div>
        <div role="gridcell" class="c-commit"><CommitText commit={row.commit} /></div>
        <div role="gridcell" class="c-since right"><Age since={row.since} /></div>
      </>
    );
  }
}

/** Pods that are ready or have succeeded, of all. */
function Pods({ row }: { row: Row }) {
  const done = row.pods.ready + row.pods.succeeded;
  const share = row.pods.desired > 0 ? Math.min(1, done / row.pods.desired) : 0;
  return (
    <span class={`pods ${signOf(row.state).tone}`} title={`${row.pods.ready} ready, ${row.pods.succeeded} succeeded, ${row.pods.failed} failed of ${row.pods.desired}`}>
      <span class="meter" aria-hidden="true"><i style={{ width: `${share * 100}%` }} /></span>
      <span class="num">{done}/{row.pods.desired}</span>
    </span>
  );
}
