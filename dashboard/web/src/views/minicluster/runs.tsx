import { useComputed } from "@preact/signals";
import type { Run } from "../../api/types";
import { to } from "../../app/router";
import { now } from "../../data/clock";
import { age, between } from "../../data/format";
import { Age } from "../../ui/age";
import { CommitText } from "../../ui/commit";
import { Empty } from "../../ui/messages";
import { signOf, State } from "../../ui/state";
import type { TabProps } from "./tab";

/** Runs of it, latest first, each with its commit. The bar is how long it waited for its pods and how long they ran. */
export default function Runs({ cluster }: TabProps) {
  if (cluster.runs.length === 0) return <Empty title="It has not run yet">{cluster.why}</Empty>;
  const longest = Math.max(1, ...cluster.runs.map((run) => (run.start ? Date.parse(run.end ?? new Date(now.peek()).toISOString()) - Date.parse(run.start) : 0)));
  return (
    <ol class="runs" aria-label="Runs, latest first">
      {cluster.runs.map((run) => (
        <li key={run.id}>
          <div class="run-state flush"><State state={run.state} staleSince={run.staleSince} />{run.attempt ? <span class="dim">attempt {run.attempt + 1}</span> : null}</div>
          <div class="run-member"><a href={to("members", run.member)}>{run.member}</a> <span class="mono dim" title="Id of the run">{run.id}</span></div>
          <div class="run-commit"><CommitText commit={run.commit} author /></div>
          <div class={`run-time ${signOf(run.state).tone}`}><Length run={run} longest={longest} /></div>
          <div class="run-start dim">{run.start ? <><Age since={run.start} /> ago</> : "–"}</div>
          <div class="run-logs">{cluster.mayReadLogs && !run.remembered ? <a href={`${to("miniclusters", run.namespace, run.name)}?tab=logs&member=${encodeURIComponent(run.member)}&run=${encodeURIComponent(run.id)}`}>Logs<span class="hidden"> of run {run.id}</span></a> : null}</div>
          <Ending run={run} />
        </li>
      ))}
    </ol>
  );
}

function Length({ run, longest }: { run: Run; longest: number }) {
  const end = useComputed(() => (run.end ? Date.parse(run.end) : run.staleSince ? Date.parse(run.staleSince) : now.value));
  if (!run.start) return <span class="dim">–</span>;
  const start = Date.parse(run.start);
  const ran = run.running ? Date.parse(run.running) : end.value;
  const share = (ms: number) => `${Math.max(0, Math.min(100, (ms / longest) * 100))}%`;
  const tip = [run.running ? `${between(run.start, run.running)} until its pods ran` : "Not all of its pods have run", run.running ? `${age(end.value - ran)} running` : ""].filter(Boolean).join(", ");
  return (
    <span class="run-length" title={tip}>
      <span class="run-bar" aria-hidden="true"><i class="starting" style={{ width: share(ran - start) }} /><i class="running" style={{ width: share(end.value - ran) }} /></span>
      <span class="num">{age(end.value - start)}</span>
    </span>
  );
}

function Ending({ run }: { run: Run }) {
  const exit = run.exit;
  if (!run.message && !run.stop && !exit && !run.remembered && !run.lost) return null;
  return (
    <div class="run-end">
      {run.stop ? <span class="dim">{run.stop}: </span> : null}
      {run.message ? <span>{run.message}</span> : null}
      {run.lost ? <span class="dim"> Nothing was heard of it for <Age since={run.lost} />.</span> : null}
      {run.remembered ? <span class="dim"> Only its result is known any more.</span> : null}
      {exit ? (
        <details>
          <summary>{exit.reason ?? "Exit"}{exit.code === undefined ? "" : `, code ${exit.code}`} in {exit.container ? `container ${exit.container} of ` : ""}pod {exit.pod}</summary>
          {exit.message ? <pre>{exit.message}</pre> : null}
        </details>
      ) : null}
    </div>
  );
}
