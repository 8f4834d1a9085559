import { useMemo } from "preact/hooks";
import { client, data } from "../../api/client";
import type { Difference } from "../../api/types";
import { compare, fold } from "../../data/diff";
import { plural, visible } from "../../data/format";
import { about, useResource } from "../../data/resource";
import { Empty, Failed, Loading, Outdated } from "../../ui/messages";
import { State } from "../../ui/state";
import type { TabProps } from "./tab";

const order: Difference["state"][] = ["Different", "Missing", "Extra", "Unknown", "Same"];

/** Diff is what is wanted on members against what is there, object by object. */
export default function Diff({ cluster }: TabProps) {
  const { namespace, name } = cluster;
  const read = useResource(`${namespace}/${name}`, (signal) => data(client.GET("/api/v1/miniclusters/{namespace}/{name}/diff", { params: { path: { namespace, name } }, signal })), { affected: about(namespace, name), interval: 5_000 });
  const failure = read.failure.value;
  const items = read.value.value?.items;
  if (!items) return failure ? <Failed failure={failure} what="differences" retry={read.refresh} /> : <Loading what="differences" />;
  const different = items.filter((item) => item.state !== "Same").length;
  const sorted = [...items].sort((a, b) => order.indexOf(a.state) - order.indexOf(b.state));
  return (
    <>
      <Outdated readAt={read.readAt.value} failure={failure} retry={read.refresh} />
      {items.length === 0 ? <Empty title="Nothing to compare">It has no objects on any member yet.</Empty> : (
        <p class="bar diff-head"><span>{different ? <><b>{different}</b> of {plural(items.length, "object")} differ</> : `All ${plural(items.length, "object")} are as wanted`}</span><span class="grow" />
          <span class="dim"><span class="diff-key removed">−</span> is there, not wanted <span class="diff-key added">+</span> wanted, not there</span></p>
      )}
      {sorted.map((item) => <OneObject key={`${item.member} ${item.kind} ${item.namespace} ${item.name}`} item={item} />)}
    </>
  );
}

function OneObject({ item }: { item: Difference }) {
  const lines = useMemo(() => fold(compare(item.live ?? "", item.desired ?? "")), [item.live, item.desired]);
  return (
    <details class="diff" open={item.state !== "Same"}>
      <summary><State state={item.state} /><span><span class="dim">{item.member} · {item.kind}</span> <b>{item.name}</b></span>{item.message ? <span class="dim">{item.message}</span> : null}</summary>
      {item.state === "Same" ? <p class="dim diff-same">As wanted.</p> : (
        <div class="diff-lines scroll-x" tabIndex={0} role="group" aria-label={`Differences of ${item.kind} ${item.name}`}>
          <table>
            <tbody>
              {lines.map((line, i) => line.kind === "fold" ? <tr key={i} class="fold"><td colSpan={4}>{plural(line.count, "equal line")}</td></tr> : (
                <tr key={i} class={{ same: "", live: "removed", desired: "added" }[line.kind]}><td class="num">{line.live || ""}</td><td class="num">{line.desired || ""}</td><td>{{ same: " ", live: "−", desired: "+" }[line.kind]}</td><td><code>{visible(line.text)}</code></td></tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </details>
  );
}
