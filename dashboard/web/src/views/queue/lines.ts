import type { Amount, Line, Place } from "../../api/types";

/** Waiting is a MiniCluster with its places in all lines, the nearest to room first. */
export interface Waiting {
  namespace: string;
  name: string;
  pods: number;
  each: Amount;
  since: string | undefined;
  places: { member: string; place: Place; total: number; known: boolean }[];
}

/** byMiniCluster turns lines around: who has waited longest comes first. Those that may not be seen are left out. */
export function byMiniCluster(lines: readonly Line[]): Waiting[] {
  const all = new Map<string, Waiting>();
  for (const line of lines) {
    for (const place of line.places) {
      if (place.hidden || !place.name) continue;
      const key = `${place.namespace}/${place.name}`;
      const of = all.get(key) ?? { namespace: place.namespace ?? "", name: place.name, pods: place.pods, each: place.each, since: place.since, places: [] };
      of.places.push({ member: line.member, place, total: line.total, known: !line.unknown });
      all.set(key, of);
    }
  }
  const lacking = (p: Waiting["places"][number]) => (p.known ? p.place.pods - p.place.fits : Infinity);
  for (const of of all.values()) of.places.sort((a, b) => lacking(a) - lacking(b) || a.place.place - b.place.place || (a.member < b.member ? -1 : 1));
  return [...all.values()].sort((a, b) => ((a.since ?? "~") < (b.since ?? "~") ? -1 : (a.since ?? "~") > (b.since ?? "~") ? 1 : a.name < b.name ? -1 : 1));
}

/** matching are the lines with a text in the member, or in somebody who waits there; of those only who has it. */
export function matching(lines: readonly Line[], text: string): Line[] {
  if (!text) return [...lines];
  return lines.flatMap((line) => {
    if (line.member.includes(text)) return [line];
    const places = line.places.filter((p) => `${p.namespace}/${p.name}`.includes(text) && !p.hidden);
    return places.length ? [{ ...line, places, total: places.length }] : [];
  });
}
