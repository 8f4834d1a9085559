import { useSignal } from "@preact/signals";
import { useEffect, useMemo } from "preact/hooks";
import { act, idempotencyKey } from "../api/act";
import { Failure } from "../api/client";
import type { Action, Run } from "../api/types";
import { Age } from "./age";
import { Dialog } from "./dialog";
import { Shape } from "./icons";
import { State } from "./state";
import { toast } from "./toast";

/** What actions are called, and whether they stop something or cannot be undone. */
const names: Record<Action["name"], { name: string; danger?: boolean }> = {
  rerun: { name: "Run again" },
  cancel: { name: "Cancel", danger: true },
  suspend: { name: "Hold" },
  resume: { name: "Resume" },
  scale: { name: "Scale" },
  "run-gone": { name: "Declare gone", danger: true },
  sync: { name: "Sync now" },
  "approve-prune": { name: "Approve prune", danger: true },
  "approve-runs": { name: "Approve runs" },
  drain: { name: "Drain", danger: true },
  cordon: { name: "Cordon" },
  uncordon: { name: "Uncordon" },
};

interface ActionsProps {
  actions: readonly Action[];
  /** Path of the object in the API, e.g. /api/v1/members/alpine. */
  path: string;
  /** What it is done with, for people. */
  object: string;
  /** Runs that an action may be about. */
  runs?: readonly Run[];
  /** Number of pods now, for scale. */
  size?: number;
  /** Body of an action that wants more than it asks the person for, e.g. a revision. */
  body?: (action: Action) => object | undefined;
  /** Called when something was done. */
  done?: () => void;
}

/** Actions are buttons; each says what it does before it does it. One that is not enabled says why when it is pressed. */
export function Actions(props: ActionsProps) {
  const open = useSignal<Action | null>(null);
  return (
    <div class="bar actions" role="group" aria-label={`Actions on ${props.object}`}>
      {props.actions.map((action) => (
        <button key={action.name} type="button" title={action.enabled ? action.effect : action.reason} aria-disabled={!action.enabled} class={action.enabled ? "" : "unavailable"} onClick={() => (open.value = action)}>
          {names[action.name]?.name ?? action.name}
        </button>
      ))}
      {open.value ? <ActionDialog {...props} action={open.value} close={() => (open.value = null)} /> : null}
    </div>
  );
}

function ActionDialog({ action, path, object, runs = [], size = 1, body, done, close }: ActionsProps & { action: Action; close: () => void }) {
  const { name, danger } = names[action.name] ?? { name: action.name };
  const about = runs.filter((run) => action.runs?.includes(run.id));
  const chosen = useSignal<string[]>(action.runs ?? []);
  const wanted = useSignal(String(size));
  const sure = useSignal(false);
  const checked = useSignal("");
  const wrong = useSignal<Failure | null>(null);
  const busy = useSignal(false);
  // Pressed twice, it is done once.
  const key = useMemo(idempotencyKey, []);
  const gone = action.name === "run-gone";

  const asked = (confirmed: boolean): object | undefined => {
    if (action.name === "scale") return { size: Number(wanted.value) };
    if (gone) return { runs: chosen.value, confirm: confirmed };
    if (action.name === "cancel" && action.runs) return { runs: chosen.value };
    return body?.(action);
  };
  async function send(dryRun: boolean): Promise<void> {
    if (!dryRun && busy.peek()) return;
    if (!dryRun) busy.value = true;
    try {
      const answer = await act(`${path}/${action.name}`, { dryRun, body: asked(dryRun || sure.value), key });
      wrong.value = null;
      if (dryRun) {
        checked.value = answer.changed ? answer.message : `${answer.message} Nothing would be different.`;
        return;
      }
      toast(`${object}: ${answer.message}`);
      done?.();
      close();
    } catch (error) {
      wrong.value = error instanceof Failure ? error : new Failure(0, String(error));
    } finally {
      busy.value = false;
    }
  }
  // The API server says beforehand whether this person may.
  useEffect(() => {
    if (action.enabled) void send(true);
  }, []);

  const stopped = !action.enabled || busy.value || wrong.value?.status === 403 || (gone && !sure.value) || ((gone || about.length > 0) && chosen.value.length === 0);
  return (
    <Dialog title={`${name}: ${object}`} close={close} submit={() => {
      if (!stopped) void send(false);
    }} actions={
      <>
        <button type="button" onClick={close}>{action.enabled ? "Do nothing" : "Close"}</button>
        {action.enabled ? <button type="submit" class={danger ? "danger" : "primary"} disabled={stopped}>{busy.value ? "Asking…" : name}</button> : null}
      </>
    }>
      {action.enabled ? <p class="effect">{action.effect}</p> : <p class="banner off"><Shape name="cancelled" /><span>Not possible now. {action.reason}</span></p>}
      {about.length ? (
        <fieldset class="choose-runs">
          <legend>Runs</legend>
          {about.map((run) => (
            <label key={run.id}>
              <input type="checkbox" checked={chosen.value.includes(run.id)} onChange={(event) => (chosen.value = event.currentTarget.checked ? [...chosen.value, run.id] : chosen.value.filter((id) => id !== run.id))} />
              <span class="mono">{run.id}</span><span>on <b>{run.member}</b></span><State state={run.state} staleSince={run.staleSince} />
              {gone && run.staleSince ? <span class="dim">last news <Age since={run.staleSince} /> ago</span> : null}
            </label>
          ))}
        </fieldset>
      ) : null}
      {action.name === "scale" && action.enabled ? (
        <div class="field"><label for="action-size">Pods on each member <span class="dim">now {size}</span></label>
          <input id="action-size" type="number" list={undefined} min={1} max={100000} required value={wanted.value} onInput={(event) => (wanted.value = event.currentTarget.value)} /></div>
      ) : null}
      {gone && action.enabled ? (
        <label class="sure"><input type="checkbox" checked={sure.value} onChange={(event) => (sure.value = event.currentTarget.checked)} />
          <span>I have made sure that no pod of these runs runs any more: its nodes are off, or somebody has deleted its Job there.</span></label>
      ) : null}
      {wrong.value ? <p class="banner bad" role="alert"><Shape name="failed" /><span>{wrong.value.message} {wrong.value.details.join("; ")}</span></p>
        : checked.value ? <p class="dim checked" role="status"><Shape name="succeeded" /> Checked by the server: {checked.value}</p> : null}
    </Dialog>
  );
}
