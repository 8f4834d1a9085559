import { Icon } from "./icons";

export interface Column {
  /** What the server sorts by; without it the column cannot be sorted. */
  sort?: string;
  name: string;
  class?: string;
}

interface HeadersProps {
  columns: readonly Column[];
  sort: string;
  order: string;
  /** Called with another order; with the default one after the second time. */
  change: (sort: string | null, order: string | null) => void;
}

/** Headers of a sortable grid. The first press sorts upwards, the second downwards, the third as it was at first. */
export function Headers({ columns, sort, order, change }: HeadersProps) {
  function press(key: string): void {
    if (sort !== key) change(key, null);
    else if (order !== "desc") change(key, "desc");
    else change(null, null);
  }
  return (
    <div class="vhead" data-header role="rowgroup">
      <div role="row" aria-rowindex={1} class="vrow">
        {columns.map((column) => {
          const sorted = column.sort !== undefined && column.sort === sort;
          return (
            <div key={column.name} role="columnheader" class={column.class ?? ""} aria-sort={sorted ? (order === "desc" ? "descending" : "ascending") : column.sort ? "none" : undefined}>
              {column.sort ? (
                <button type="button" class="plain sort" onClick={() => press(column.sort ?? "")}>
                  {column.name}{sorted ? <Icon name={order === "desc" ? "down" : "up"} /> : null}
                </button>
              ) : <span>{column.name}</span>}
            </div>
          );
        })}
      </div>
    </div>
  );
}
