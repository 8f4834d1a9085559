import type { ComponentChildren } from "preact";
import { client, data } from "../../api/client";
import { visible } from "../../data/format";
import { about, useResource } from "../../data/resource";
import { Icon } from "../../ui/icons";
import { Failed, Loading, Outdated } from "../../ui/messages";
import { toast } from "../../ui/toast";
import type { TabProps } from "./tab";

/** Yaml is the object on the hub, as kubectl shows it. */
export default function Yaml({ cluster }: TabProps) {
  const { namespace, name } = cluster;
  const read = useResource(`${namespace}/${name}`, (signal) => data(client.GET("/api/v1/miniclusters/{namespace}/{name}/manifest", { params: { path: { namespace, name } }, signal })), { affected: about(namespace, name), interval: 5_000 });
  const failure = read.failure.value;
  const text = read.value.value?.yaml;
  if (text === undefined) return failure ? <Failed failure={failure} what="manifest" retry={read.refresh} /> : <Loading what="the manifest" lines={12} />;
  const lines = visible(text.replace(/\n$/, "")).split("\n");
  return (
    <>
      <Outdated readAt={read.readAt.value} failure={failure} retry={read.refresh} />
      <div class="yaml">
        <button type="button" class="yaml-copy" onClick={() => void navigator.clipboard.writeText(text).then(() => toast("Copied."), () => toast("This browser does not let the page copy.", "bad"))}><Icon name="copy" />Copy</button>
        <pre class="scroll-x" tabIndex={0} role="region" aria-label="Manifest"><code>{lines.map((line, i) => <span key={i} class="yaml-line">{colour(line)}{"\n"}</span>)}</code></pre>
      </div>
    </>
  );
}

/** colour the key and the comment of a line. */
function colour(line: string): ComponentChildren {
  if (/^\s*#/.test(line)) return <span class="dim">{line}</span>;
  const match = /^(\s*(?:- )*)([^\s:#"'][^:]*|"[^"]*")(:)(?=\s|$)(.*)$/.exec(line);
  if (!match) return line;
  return <>{match[1]}<span class="yaml-key">{match[2]}</span>{match[3]}{match[4]}</>;
}
