import { client, data } from "../../api/client";
import { plural } from "../../data/format";
import { about, useResource } from "../../data/resource";
import { Age } from "../../ui/age";
import { Shape } from "../../ui/icons";
import { Empty, Failed, Loading, Outdated } from "../../ui/messages";
import type { TabProps } from "./tab";

/** Events that were recorded about it, latest first. */
export default function Events({ cluster }: TabProps) {
  const { namespace, name } = cluster;
  const read = useResource(`${namespace}/${name}`, (signal) => data(client.GET("/api/v1/miniclusters/{namespace}/{name}/events", { params: { path: { namespace, name } }, signal })), { affected: about(namespace, name) });
  const failure = read.failure.value;
  const events = read.value.value?.items;
  if (!events) return failure ? <Failed failure={failure} what="events" retry={read.refresh} /> : <Loading what="events" />;
  return (
    <>
      <Outdated readAt={read.readAt.value} failure={failure} retry={read.refresh} />
      {events.length === 0 ? <Empty title="No events">Kubernetes keeps them for about an hour.</Empty> : null}
      <ol class="events" aria-label="Events, latest first">
        {events.map((event) => (
          <li key={`${event.reason} ${event.first} ${event.message}`} class={event.type === "Warning" ? "bad" : "off"}>
            <span class="event-type"><Shape name={event.type === "Warning" ? "invalid" : "pending"} /><span class="hidden">{event.type}</span></span>
            <b>{event.reason}</b>
            <span class="event-text">{event.message}{event.count > 1 ? <span class="dim"> {plural(event.count, "time")} since <Age since={event.first} /> ago</span> : null}</span>
            <span class="dim"><Age since={event.time} /> ago</span>
          </li>
        ))}
      </ol>
    </>
  );
}
