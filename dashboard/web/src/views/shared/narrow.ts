import { useSignal, type ReadonlySignal } from "@preact/signals";
import { useEffect } from "preact/hooks";

/** useMedia says whether a media query holds. */
export function useMedia(text: string): ReadonlySignal<boolean> {
  const holds = useSignal(matchMedia(text).matches);
  useEffect(() => {
    const media = matchMedia(text);
    const changed = () => (holds.value = media.matches);
    media.addEventListener("change", changed);
    return () => media.removeEventListener("change", changed);
  }, [text]);
  return holds;
}

/** A screen so narrow that tables become lists. */
export const NARROW = "(max-width: 720px)";
