import { signal } from "@preact/signals";
import type { ComponentType } from "preact";

/** lazy is a component whose code is loaded when it is first shown. */
export function lazy<P extends object>(load: () => Promise<{ default: ComponentType<P> }>): ComponentType<P> {
  const loaded = signal<ComponentType<P> | null>(null);
  let asked = false;
  return function Lazy(props: P) {
    if (!asked) {
      asked = true;
      load().then((module) => (loaded.value = module.default), () => (asked = false));
    }
    const Component = loaded.value;
    return Component ? <Component {...props} /> : null;
  };
}
