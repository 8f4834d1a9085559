import { useComputed, useSignal } from "@preact/signals";
import { client, data, Failure } from "../../api/client";
import type { Start } from "../../api/types";
import { navigate } from "../../app/router";
import { summary } from "../../data/live";
import { Dialog } from "../../ui/dialog";
import { Shape } from "../../ui/icons";
import { toast } from "../../ui/toast";

/** StartRun asks for a MiniCluster, has the server check it, and starts it. */
export default function StartRun({ close }: { close: () => void }) {
  const namespaces = summary.value?.facets.namespaces.map((n) => n.value).sort() ?? [];
  const form = { namespace: useSignal(namespaces[0] ?? ""), name: useSignal(""), image: useSignal(""), command: useSignal(""), size: useSignal("2"), placement: useSignal("") };
  // Repeated, the same request starts nothing a second time; another text makes it another request.
  const body = useComputed((): Start => ({
    namespace: form.namespace.value.trim(),
    ...(form.name.value.trim() ? { name: form.name.value.trim() } : { generateName: "run-" }),
    miniCluster: { size: Number(form.size.value), containers: [{ image: form.image.value.trim(), ...(form.command.value.trim() ? { command: form.command.value.trim() } : {}) }] },
    ...(form.placement.value.trim() ? { placementRef: form.placement.value.trim() } : { placement: { numberOfClusters: 1 } }),
  }));
  const key = useComputed(() => (void body.value, crypto.randomUUID()));
  const checked = useSignal<{ body: Start; text: string } | null>(null);
  const wrong = useSignal<Failure | null>(null);
  const busy = useSignal(false);
  const ready = checked.value?.body === body.value;

  async function send(dryRun: boolean): Promise<void> {
    busy.value = true;
    wrong.value = null;
    try {
      const sent = body.value;
      const started = await data(client.POST("/api/v1/miniclusters", { params: { header: { "Idempotency-Key": key.value }, query: { dryRun } }, body: sent }));
      if (dryRun) {
        checked.value = { body: sent, text: `Creates ${started.namespace}/${started.name}: ${sent.miniCluster.size} pods of ${form.image.value.trim()} on ${sent.placementRef ? `the members of placement ${sent.placementRef}` : "one member that has room"}.` };
        return;
      }
      toast(`${started.namespace}/${started.name} ${started.created ? "is started" : "had been started before"}.`);
      close();
      navigate(started.page);
    } catch (error) {
      wrong.value = error instanceof Failure ? error : new Failure(0, String(error));
    } finally {
      busy.value = false;
    }
  }

  const field = (id: keyof typeof form, label: string, help: string, more: object = {}) => (
    <div class="field">
      <label for={`start-${id}`}>{label} <span class="dim">{help}</span></label>
      <input id={`start-${id}`} type="text" list={undefined} autocomplete="off" spellcheck={false} value={form[id].value} onInput={(event) => (form[id].value = event.currentTarget.value)} {...more} />
    </div>
  );
  return (
    <Dialog title="Start a run" close={close} submit={() => void send(!ready)} actions={
      <>
        <button type="button" onClick={close}>Close</button>
        <button type="submit" class={ready ? "primary" : ""} disabled={busy.value}>{busy.value ? "Asking…" : ready ? "Start it" : "Check"}</button>
      </>
    }>
      {field("namespace", "Namespace", "on the hub", { required: true })}
      {field("name", "Name", "default: run- and five letters")}
      {field("image", "Image", "with Flux, or the application alone", { required: true })}
      {field("command", "Command", "default: that of the image", { class: "mono" })}
      {field("size", "Pods", "", { required: true, inputMode: "numeric", pattern: "[1-9][0-9]*" })}
      {field("placement", "Placement", "its name; default: one member that has room")}
      {wrong.value ? <div class="banner bad" role="alert"><Shape name="failed" /><span>{wrong.value.message}{wrong.value.details.map((d) => <div key={d} class="mono">{d}</div>)}</span></div> : null}
      {ready ? <p class="banner ok" role="status"><Shape name="succeeded" /><span>{checked.value?.text}</span></p> : <p class="dim">Check has the API server try it; nothing is created by that.</p>}
    </Dialog>
  );
}
