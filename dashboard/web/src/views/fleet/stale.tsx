import { useSignal } from "@preact/signals";
import { clockTime } from "../../data/format";
import { summary } from "../../data/live";
import { Age } from "../../ui/age";
import { Shape } from "../../ui/icons";

/** How many members are named at once. */
const NAMED = 3;

/** StaleMembers says which members cannot be reached, and how old what is shown of them is. */
export function StaleMembers() {
  const all = useSignal(false);
  const stale = [...(summary.value?.stale ?? [])].sort((a, b) => (a.since ?? "") < (b.since ?? "") ? 1 : -1);
  if (stale.length === 0) return null;
  const shown = all.value ? stale : stale.slice(0, NAMED);
  return (
    <div class="banner unk stale-members" role="status">
      <Shape name="unknown" />
      <span><b>No news</b> from{" "}
        {shown.map((member, i) => (
          <span key={member.member} title={member.message}>
            {i > 0 ? ", " : ""}<a href={`/?member=${encodeURIComponent(member.member)}`}>{member.member}</a>
            {member.since ? <> for <Age since={member.since} /> <span class="as-of">(shown as of {clockTime(Date.parse(member.since))})</span></> : " yet"}
          </span>
        ))}
      </span>
      {stale.length > NAMED ? <button type="button" aria-expanded={all.value} onClick={() => (all.value = !all.value)}>{all.value ? "Fewer" : `${stale.length - NAMED} more`}</button> : null}
    </div>
  );
}
