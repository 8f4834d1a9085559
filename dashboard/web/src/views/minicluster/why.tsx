import { client, data } from "../../api/client";
import type { GangFit, Line, MiniCluster, Place, Why } from "../../api/types";
import { to } from "../../app/router";
import { ordinal, plural } from "../../data/format";
import { about, useResource } from "../../data/resource";
import { Age } from "../../ui/age";
import { Failed, Loading, Outdated } from "../../ui/messages";
import { State } from "../../ui/state";
import { Shape } from "../../ui/icons";
import { amountsOf } from "../shared/gang.ts";
import { Gang } from "../shared/gang.tsx";
import { around } from "../shared/line";
import type { TabProps } from "./tab";
import "./why.css";

/** WhyTab says in one sentence, and shows in pictures, why it does not run, or runs where it does. */
export default function WhyTab({ cluster }: TabProps) {
  const { namespace, name } = cluster;
  const mine = about(namespace, name);
  const read = useResource(`why ${namespace}/${name}`, (signal) => data(client.GET("/api/v1/miniclusters/{namespace}/{name}/why", { params: { path: { namespace, name } }, signal })), {
    affected: (change) => mine(change) || change.queue || change.members.length > 0,
    cursor: (why) => why.cursor,
    interval: 2_000,
  });
  const why = read.value.value;
  const failure = read.failure.value;
  if (!why) return failure ? <Failed failure={failure} what="why" retry={read.refresh} /> : <Loading what="why" />;
  return (
    <div class="why">
      <Outdated readAt={read.readAt.value} failure={failure} retry={read.refresh} />
      <p class="why-sentence">{why.sentence || `It is ${why.state.toLowerCase()}, and there is nothing more to say.`}</p>
      {why.line ? <LineOf line={why.line} cluster={cluster} /> : null}
      <div class={`why-columns ${why.gangs.length ? "" : "single"}`}>
        {why.gangs.length ? <div class="why-gangs">{why.gangs.map((gang, i) => <GangSection key={gang.member} gang={gang} open={i === 0} />)}</div> : null}
        <Members why={why} />
      </div>
    </div>
  );
}

/** LineOf shows the line for room with its place in it. */
function LineOf({ line, cluster }: { line: Line; cluster: MiniCluster }) {
  const at = line.places.findIndex((p) => p.namespace === cluster.namespace && p.name === cluster.name);
  const rest = line.total - line.places.length;
  return (
    <section aria-label={`Line for room on ${line.member}`}>
      <h2>Line for room on <a href={to("members", line.member)}>{line.member}</a> <span class="dim">{at < 0 ? "" : `${ordinal((line.places[at] as Place).place)} of ${line.total}`}</span>{line.staleSince ? <span class="why-stale unk"><Shape name="unknown" />as of <Age since={line.staleSince} /> ago</span> : null}</h2>
      {line.unknown ? <p class="dim">What is free there is not known: {line.unknown}.</p> : null}
      <ol class="why-line">
        {around(line.places, at, 3, 2).map((part) => "more" in part ? <li key={`more ${part.more}`} class="dim">{part.more} more</li> : <PlaceOf key={part.place.place} place={part.place} mine={part.place === line.places[at]} />)}
        {rest > 0 ? <li class="dim">{rest} more</li> : null}
      </ol>
    </section>
  );
}

function PlaceOf({ place, mine }: { place: Place; mine: boolean }) {
  const fits = place.fits >= place.pods;
  return (
    <li class={`why-place ${mine ? "mine" : ""}`} aria-current={mine ? "true" : undefined}>
      <span class="num dim">{place.place}</span>
      {place.hidden ? <span class="dim">another MiniCluster</span> : (
        <span class="why-who">
          <span class="bar">{mine ? <b>{place.name}</b> : <a href={to("miniclusters", place.namespace ?? "", place.name ?? "")}>{place.name}</a>}{mine ? <span class="why-you">this one</span> : null}</span>
          <span class="dim num">{place.pods} × {amountsOf(place.each)}</span>
          <span class={fits ? "ok" : "bad"}>{fits ? (place.turn ? `fits; ${place.turn}` : "fits") : `${place.fits} of ${place.pods} fit${place.miss ? `; ${place.miss}` : ""}`}</span>
        </span>
      )}
    </li>
  );
}

function GangSection({ gang, open }: { gang: GangFit; open: boolean }) {
  const fits = gang.fits >= gang.pods;
  return (
    <details class="why-gang" open={open}>
      <summary><h2>How its {plural(gang.pods, "pod")} would lie on {gang.member}</h2>{gang.unknown ? <span class="unk why-fits"><Shape name="unknown" />not known</span> : <span class={`why-fits ${fits ? "ok" : "bad"}`}><Shape name={fits ? "succeeded" : "failed"} />{gang.fits} of {plural(gang.pods, "pod")} fit</span>}</summary>
      <Gang gang={gang} />
    </details>
  );
}

function Members({ why }: { why: Why }) {
  return (
    <div class="why-members">
      {why.chosen.length ? (
        <section>
          <h2>Chosen</h2>
          <ul>
            {why.chosen.map((m) => (
              <li key={m.member}><span class="bar"><a href={to("members", m.member)}><b>{m.member}</b></a><State state={m.state} staleSince={m.staleSince} />{m.score === undefined ? null : <span class="dim num">scores {m.score}</span>}</span>{m.because ? <span>{m.because}</span> : null}{m.message && m.message !== why.sentence ? <span class="dim">{m.message}</span> : null}</li>
            ))}
          </ul>
        </section>
      ) : null}
      {why.rejected.length ? (
        <section>
          <h2>Not chosen</h2>
          <ul>{why.rejected.map((m) => <li key={m.member}><a href={to("members", m.member)}><b>{m.member}</b></a><span class="why-reason">{m.reason}</span></li>)}</ul>
        </section>
      ) : null}
      {why.chosen.length + why.rejected.length === 0 ? <p class="dim">No member has been considered yet, or you may not see members.</p> : null}
    </div>
  );
}
