import type { ComponentChildren } from "preact";
import "./shared.css";

interface ChoiceProps<T extends string> {
  label: string;
  options: readonly { value: T; name: ComponentChildren; tip?: string }[];
  value: T;
  choose: (value: T) => void;
}

/** Choice is one of a few, each a button that is pressed or not. */
export function Choice<T extends string>({ label, options, value, choose }: ChoiceProps<T>) {
  return (
    <div class="choice" role="group" aria-label={label}>
      {options.map((o) => <button key={o.value} type="button" aria-pressed={o.value === value} title={o.tip} onClick={() => choose(o.value)}>{o.name}</button>)}
    </div>
  );
}
