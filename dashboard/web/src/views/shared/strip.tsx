import type { Run } from "../../api/types";
import { shortHash } from "../../data/format";
import { now } from "../../data/clock";
import { Age } from "../../ui/age";
import { State } from "../../ui/state";
import { age } from "../../data/format";
import { lengthOf, pageOf, stateOf } from "./run";
import type { ComponentChildren } from "preact";
import "./shared.css";

/** RunStrip tells in two lines of the run that is pointed at or chosen. */
export function RunStrip({ run, waiting = false, children }: { run: Run | undefined; waiting?: boolean; children: ComponentChildren }) {
  if (!run) return <div class="strip empty-strip">{children}</div>;
  const length = lengthOf(run, now.value);
  return (
    <div class="strip">
      <div class="strip-line">
        <State state={waiting ? "Waiting" : stateOf(run)} staleSince={run.staleSince} />
        <a class="strip-name clip" href={pageOf(waiting ? { namespace: run.namespace, name: run.name } : run)}>{run.name}</a>
        <span class="dim clip">{run.namespace}</span>
        {run.member ? <span class="clip">on <b>{run.member}</b></span> : null}
        {length === undefined ? null : <span class="num nowrap">{age(length)}</span>}
        {run.end ? <span class="dim nowrap">ended <Age since={run.end} /> ago</span> : run.start ? <span class="dim nowrap">since <Age since={run.start} /></span> : null}
        {run.attempt > 0 ? <span class="dim nowrap">after {run.attempt} failed</span> : null}
      </div>
      <div class="strip-line">
        {run.commit ? <><span class="mono">{shortHash(run.commit.revision)}</span><span class="clip strip-subject" title={run.commit.subject}>{run.commit.subject ?? run.commit.revision}</span>{run.commit.author ? <span class="dim clip strip-author">{run.commit.author}</span> : null}</> : <span class="dim">No commit is known of it</span>}
        {run.message ? <span class="strip-message clip" title={run.message}>{run.message}</span> : null}
      </div>
    </div>
  );
}
