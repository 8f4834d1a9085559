import { useEffect, useRef, useState } from "preact/hooks";
import type { Count } from "../api/types";
import { count } from "../data/format";
import { Icon } from "./icons";

interface FacetProps {
  /** What it filters by, e.g. Source. */
  name: string;
  values: readonly Count[];
  chosen: readonly string[];
  choose: (values: string[]) => void;
}

/** Facet is a button that opens a list of values with their counts. Chosen values are alternatives. */
export function Facet({ name, values, chosen, choose }: FacetProps) {
  const root = useRef<HTMLDivElement>(null);
  const [open, setOpen] = useState(false);
  const [filter, setFilter] = useState("");
  useEffect(() => {
    if (!open) return;
    const outside = (event: Event) => !root.current?.contains(event.target as Node) && setOpen(false);
    document.addEventListener("pointerdown", outside);
    document.addEventListener("focusin", outside);
    return () => {
      document.removeEventListener("pointerdown", outside);
      document.removeEventListener("focusin", outside);
    };
  }, [open]);
  // What is chosen can always be taken back, also when nothing has it any more.
  const all = [...values, ...chosen.filter((c) => !values.some((v) => v.value === c)).map((value) => ({ value, count: 0 }))];
  const shown = all.filter((v) => v.value.toLowerCase().includes(filter.toLowerCase())).slice(0, 100);
  const toggle = (value: string) => choose(chosen.includes(value) ? chosen.filter((c) => c !== value) : [...chosen, value]);
  return (
    <div class="facet" ref={root} onKeyDown={(event) => {
      if (event.key !== "Escape" || !open) return;
      event.stopPropagation();
      setOpen(false);
      root.current?.querySelector("button")?.focus();
    }}>
      <button type="button" aria-expanded={open} aria-haspopup="true" class={chosen.length ? "on" : ""} onClick={() => setOpen(!open)}>
        {name}{chosen.length === 1 ? <b class="clip">: {chosen[0]}</b> : chosen.length ? <b class="num">: {chosen.length}</b> : null}
        <Icon name="chevron" />
      </button>
      {open ? (
        <div class="facet-list" role="group" aria-label={name}>
          {all.length > 8 ? <input type="search" aria-label={`Find a ${name.toLowerCase()}`} placeholder="Find" value={filter} onInput={(event) => setFilter(event.currentTarget.value)} /> : null}
          <div class="facet-values">
            {shown.map((v) => (
              <label key={v.value}>
                <input type="checkbox" checked={chosen.includes(v.value)} onChange={() => toggle(v.value)} />
                <span class="clip" title={v.value}>{v.value || "none"}</span>
                <span class="num dim">{count(v.count)}</span>
              </label>
            ))}
            {shown.length === 0 ? <p class="dim">None</p> : null}
          </div>
          {chosen.length ? <button type="button" class="plain" onClick={() => choose([])}>Clear</button> : null}
        </div>
      ) : null}
    </div>
  );
}
