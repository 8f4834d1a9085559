import { signal } from "@preact/signals";
import type { ComponentType } from "preact";
import { Empty } from "../ui/messages";

/** lazy is a component whose code is loaded when it is first shown. */
export function lazy<P extends object>(load: () => Promise<{ default: ComponentType<P> }>): ComponentType<P> {
  const loaded = signal<ComponentType<P> | null>(null);
  const failed = signal(false);
  let asked = false;
  return function Lazy(props: P) {
    if (!asked) {
      asked = true;
      load().then((module) => (loaded.value = module.default), () => (failed.value = true));
    }
    const Component = loaded.value;
    if (Component) return <Component {...props} />;
    return failed.value ? <NotLoaded /> : null;
  };
}

/** NotLoaded stands for code that the server does not have any more. A browser does not ask for it a second time. */
export function NotLoaded() {
  return <Empty title="This part of the page could not be loaded" actions={<button type="button" onClick={() => location.reload()}>Load the page again</button>}>The server may run another version by now.</Empty>;
}
