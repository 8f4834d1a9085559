import type { Facets } from "../../api/types";
import { bytes, cores, count } from "../../data/format";
import { summary } from "../../data/live";
import { Shape } from "../../ui/icons";
import { byAttention, signOf } from "../../ui/state";

interface HealthProps {
  facets: Facets | undefined;
  chosen: readonly string[];
  choose: (states: string[]) => void;
  /** For a wall screen. */
  large: boolean;
}

/** Health is the fleet in one bar; its legend is the filter by state. */
export function Health({ facets, chosen, choose, large }: HealthProps) {
  const states = [...(facets?.states ?? [])];
  for (const state of chosen) if (!states.some((s) => s.value === state)) states.push({ value: state, count: 0 });
  states.sort((a, b) => byAttention(a.value, b.value));
  const total = states.reduce((sum, s) => sum + s.count, 0);
  const toggle = (state: string) => choose(chosen.includes(state) ? chosen.filter((c) => c !== state) : [...chosen, state]);
  return (
    <section class={`health ${large ? "large" : ""}`} aria-label="Health">
      <div class="health-bar" role="img" aria-label={total ? states.map((s) => `${s.count} ${s.value}`).join(", ") : "nothing"}>
        {states.filter((s) => s.count > 0).map((s) => (
          <i key={s.value} class={`${signOf(s.value).tone} ${chosen.length && !chosen.includes(s.value) ? "faded" : ""}`} title={`${s.value}: ${count(s.count)}`} style={{ flexGrow: String(s.count) }} />
        ))}
      </div>
      <div class="states" role="group" aria-label="Filter by state">
        {states.map((s) => {
          const sign = signOf(s.value);
          return (
            <button key={s.value} type="button" class={`state-facet ${sign.tone}`} aria-pressed={chosen.includes(s.value)} onClick={() => toggle(s.value)}>
              <Shape name={sign.shape} /><b class="num">{count(s.count)}</b> <span>{s.value}</span>
            </button>
          );
        })}
      </div>
    </section>
  );
}

/** Room is what is free on the members that tell theirs. */
export function Room() {
  const room = summary.value?.room;
  if (!room) return null;
  const members = summary.value?.members;
  return (
    <p class="room dim">
      {members ? <span><b class="num">{count(members.ready)}</b> of {count(members.total)} members</span> : null}
      <span title={`${bytes(room.free.memory)} of ${bytes(room.total.memory)} memory free on ${count(room.nodes)} nodes`}><b class="num">{cores(room.free.cpu)}</b> of {cores(room.total.cpu)} CPU{room.total.gpus > 0 ? "" : " free"}</span>
      {room.total.gpus > 0 ? <span><b class="num">{count(room.free.gpus)}</b> of {count(room.total.gpus)} GPU free</span> : null}
    </p>
  );
}
