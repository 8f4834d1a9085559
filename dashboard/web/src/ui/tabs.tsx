import { useRef } from "preact/hooks";

export interface Tab {
  id: string;
  name: string;
  count?: number | undefined;
}

interface TabsProps {
  label: string;
  tabs: readonly Tab[];
  current: string;
  select: (id: string) => void;
  /** Id of the element that shows the current one. */
  panel: string;
}

/** Tabs: one stop of the Tab key; arrows, Home and End go from one to another. */
export function Tabs({ label, tabs, current, select, panel }: TabsProps) {
  const list = useRef<HTMLDivElement>(null);
  function move(event: KeyboardEvent): void {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    const at = tabs.findIndex((tab) => tab.id === current);
    const next = event.key === "Home" ? 0 : event.key === "End" ? tabs.length - 1 : step ? (at + step + tabs.length) % tabs.length : -1;
    const tab = tabs[next];
    if (!tab) return;
    event.preventDefault();
    select(tab.id);
    list.current?.querySelector<HTMLElement>(`[data-tab="${CSS.escape(tab.id)}"]`)?.focus();
  }
  return (
    <div class="tabs" role="tablist" aria-label={label} ref={list} onKeyDown={move}>
      {tabs.map((tab) => (
        <button key={tab.id} type="button" role="tab" data-tab={tab.id} id={`${panel}-${tab.id}`} aria-selected={tab.id === current} aria-controls={panel} tabIndex={tab.id === current ? 0 : -1} onClick={() => select(tab.id)}>
          {tab.name}{tab.count === undefined ? null : <span class="num dim"> {tab.count}</span>}
        </button>
      ))}
    </div>
  );
}
