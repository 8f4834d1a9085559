import type { ComponentChildren } from "preact";

const line = { fill: "none", stroke: "currentColor", "stroke-width": 1.5, "stroke-linecap": "round", "stroke-linejoin": "round" } as const;

// Shapes of states are 12 × 12 and differ in outline, so that they can be told apart without colour.
const shapes = {
  succeeded: <><circle cx="6" cy="6" r="6" fill="currentColor" /><path d="M3.2 6.3 5.2 8.3 8.9 4.3" class="knockout" fill="none" stroke-width="1.6" /></>,
  running: <><circle cx="6" cy="6" r="4.7" {...line} stroke-opacity=".3" stroke-width="2.2" /><path class="spin" d="M6 1.3A4.7 4.7 0 0 1 10.7 6" {...line} stroke-width="2.2" stroke-linecap="butt" /></>,
  starting: <circle cx="6" cy="6" r="4.7" {...line} stroke-width="2" stroke-linecap="butt" stroke-dasharray="2.4 2.52" />,
  waiting: <path d="M2 1h8L6.6 6 10 11H2l3.4-5z" {...line} />,
  failed: <><rect width="12" height="12" rx="2" fill="currentColor" /><path d="m3.6 3.6 4.8 4.8m0-4.8-4.8 4.8" class="knockout" fill="none" stroke-width="1.6" /></>,
  suspended: <path d="M3.4 1.5v9M8.6 1.5v9" {...line} stroke-width="2.8" stroke-linecap="butt" />,
  stopping: <><circle cx="6" cy="6" r="5.2" {...line} /><rect x="4" y="4" width="4" height="4" fill="currentColor" /></>,
  cancelled: <><circle cx="6" cy="6" r="5.2" {...line} /><path d="m2.5 9.5 7-7" {...line} /></>,
  replaced: <path d="M1.5 7.5a4.5 4.5 0 0 0 8.3 1M10.5 4.5a4.5 4.5 0 0 0-8.3-1M10.7 1v3.500H7.200M1.3 11V7.500h3.5" {...line} stroke-width="1.3" />,
  invalid: <><path d="M6 .8 11.6 11H.4z" {...line} /><path d="M6 4.500v3M6 9v.4" {...line} /></>,
  deleting: <><circle cx="6" cy="6" r="5.2" {...line} stroke-dasharray="1.2 2" stroke-linecap="butt" /><path d="M3.5 6h5" {...line} stroke-width="1.8" /></>,
  unknown: <><path d="M6 .5 11.5 6 6 11.5.5 6z" {...line} /><path d="M6 3.500v3M6 8.300v.3" {...line} /></>,
  pending: <circle cx="6" cy="6" r="5.2" {...line} />,
} satisfies Record<string, ComponentChildren>;

// Icons of things and actions are 16 × 16.
const things = {
  fleet: <path d="M2 4h12M2 8h12M2 12h8" {...line} />,
  grid: <path d="M2.5 2.500h4v4h-4zM9.5 2.500h4v4h-4zM2.5 9.500h4v4h-4zM9.5 9.500h4v4h-4z" {...line} />,
  timeline: <path d="M2 3.500h6M5 8h7M9 12.500h5" {...line} stroke-width="2.4" />,
  queue: <path d="M4 2h8L9 8l3 6H4l3-6z" {...line} />,
  members: <path d="M2.5 2.500h11v4h-11zM2.5 9.500h11v4h-11zM5 4.500h.1M5 11.500h.1" {...line} />,
  sources: <><circle cx="4.5" cy="3.5" r="1.7" {...line} /><circle cx="4.5" cy="12.5" r="1.7" {...line} /><circle cx="11.5" cy="5.5" r="1.7" {...line} /><path d="M4.5 5.200v5.600M11.5 7.200c0 2.3-3 2.3-7 3" {...line} /></>,
  search: <><circle cx="7" cy="7" r="4.5" {...line} /><path d="m10.5 10.5 3.5 3.5" {...line} /></>,
  close: <path d="m4 4 8 8m0-8-8 8" {...line} />,
  up: <path d="M8 12.500v-9m-3.5 3.500L8 3.5 11.5 7" {...line} />,
  down: <path d="M8 3.500v9m-3.5-3.500L8 12.5 11.5 9" {...line} />,
  chevron: <path d="m6 4 4 4-4 4" {...line} />,
  sun: <><circle cx="8" cy="8" r="3" {...line} /><path d="M8 1.500v1M8 13.500v1M1.5 8h1M13.5 8h1M3.4 3.400l.7.7M11.9 11.900l.7.7M3.4 12.600l.7-.7M11.9 4.100l.7-.7" {...line} /></>,
  moon: <path d="M13 9.700A5.5 5.5 0 0 1 6.3 3a5.5 5.5 0 1 0 6.7 6.700z" {...line} />,
  auto: <><circle cx="8" cy="8" r="5.5" {...line} /><path d="M8 2.500a5.5 5.5 0 0 1 0 11z" fill="currentColor" /></>,
  keyboard: <path d="M1.5 4h13v8h-13zM4 6.500h.1M7 6.500h.1M10 6.500h.1M12 6.500h.1M5 9.500h6" {...line} />,
  logout: <path d="M6 2.500H2.500v11H6M10 5l3 3-3 3M13 8H6" {...line} />,
  tiles: <path d="M2 2.500h12v4.500H2zM2 9.500h5v4H2zM9.5 9.500H14v4H9.500z" {...line} />,
  rows: <path d="M2 3.500h12M2 8h12M2 12.500h12" {...line} />,
  expand: <path d="M9.5 2.500h4v4M6.5 13.500h-4v-4M13.5 2.5 9 7M2.5 13.5 7 9" {...line} />,
  filter: <path d="M2 3h12L9.5 8.500V13l-3-1.500v-3z" {...line} />,
  copy: <path d="M5.5 5.500h8v8h-8zM10.5 5.500v-3h-8v8h3" {...line} />,
  commit: <><circle cx="8" cy="8" r="2.7" {...line} /><path d="M1.5 8h3.800M10.7 8h3.8" {...line} /></>,
  job: <path d="M3 2.500h10v11H3zM5.5 6h5M5.5 8.500h5M5.5 11h3" {...line} />,
  pod: <path d="m8 1.8 5.5 3.100v6.200L8 14.200l-5.5-3.100V4.900zM2.7 5 8 8l5.3-3M8 8v6" {...line} />,
  minicluster: <><circle cx="8" cy="3.5" r="1.7" {...line} /><circle cx="3.5" cy="12" r="1.7" {...line} /><circle cx="12.5" cy="12" r="1.7" {...line} /><path d="M7.2 5 4.3 10.500M8.8 5l2.9 5.500M5.2 12h5.6" {...line} /></>,
  more: <path d="M3.5 8h.1M8 8h.1M12.5 8h.1" {...line} stroke-width="2.4" />,
} satisfies Record<string, ComponentChildren>;

export type ShapeName = keyof typeof shapes;
export type IconName = keyof typeof things;

/** Shape of a state. Its word stands beside it, so it says nothing to screen readers. */
export function Shape({ name }: { name: ShapeName }) {
  return <svg class="shape" viewBox="0 0 12 12" width="12" height="12" aria-hidden="true">{shapes[name]}</svg>;
}

/** Icon of a thing or an action. The word beside it, or the label of its button, says what it is. */
export function Icon({ name }: { name: IconName }) {
  return <svg class="icon" viewBox="0 0 16 16" width="16" height="16" aria-hidden="true">{things[name]}</svg>;
}
