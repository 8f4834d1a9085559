import { useEffect, useId, useRef, useState } from "preact/hooks";
import { complete, help, parse, suggest, type Key } from "../data/query";
import { Icon } from "./icons";

interface SearchProps {
  value: string;
  change: (value: string) => void;
  /** Values that a key is known to have, for suggestions. */
  values?: (key: Key) => readonly string[];
}

/** Search is the search box of a list of MiniClusters, with completion of keys and values. The key / goes to it. */
export function Search({ value, change, values = () => [] }: SearchProps) {
  const input = useRef<HTMLInputElement>(null);
  const [text, setText] = useState(value);
  const [caret, setCaret] = useState(0);
  const [open, setOpen] = useState(false);
  const [active, setActive] = useState(-1);
  const told = useRef(value);
  const id = useId();
  useEffect(() => {
    if (value !== told.current) {
      told.current = value;
      setText(value);
    }
  }, [value]);
  useEffect(() => {
    if (text === told.current) return;
    const timer = setTimeout(() => {
      told.current = text;
      change(text);
    }, 200);
    return () => clearTimeout(timer);
  }, [text]);

  const suggestions = open ? suggest(text, caret, values) : [];
  const problem = parse(text).find((t) => t.problem && (t.end !== caret || !open))?.problem;
  function accept(suggestion: string): void {
    const done = complete(text, caret, suggestion);
    setText(done.query);
    setCaret(done.caret);
    setActive(-1);
    setOpen(suggestion.endsWith(":"));
    requestAnimationFrame(() => input.current?.setSelectionRange(done.caret, done.caret));
  }
  function key(event: KeyboardEvent): void {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    const chosen = suggestions[active];
    if (step && suggestions.length) setActive((active + step + suggestions.length) % suggestions.length);
    else if (event.key === "Enter" && chosen) accept(chosen);
    else if (event.key === "Escape" && open) setOpen(false);
    else if (event.key === "Escape" && text) setText("");
    else return;
    event.preventDefault();
  }
  return (
    <div class="search">
      <Icon name="search" />
      <input
        ref={input} type="search" list={undefined} data-search role="combobox" aria-label="Filter MiniClusters" aria-expanded={suggestions.length > 0} aria-controls={id}
        aria-autocomplete="list" aria-activedescendant={active >= 0 ? `${id}-${active}` : undefined} aria-describedby={problem ? `${id}-problem` : undefined}
        aria-keyshortcuts="/" autocomplete="off" spellcheck={false} maxLength={512}
        placeholder="name, label=value, member:alpine, commit:1a2b3c4" value={text}
        onInput={(event) => {
          setText(event.currentTarget.value);
          setCaret(event.currentTarget.selectionStart ?? 0);
          setOpen(true);
          setActive(-1);
        }}
        onKeyDown={key} onBlur={() => setOpen(false)} onFocus={(event) => setCaret(event.currentTarget.selectionStart ?? 0)}
      />
      <ul id={id} role="listbox" aria-label="Suggestions" class="suggestions" hidden={suggestions.length === 0}>
        {suggestions.map((s, i) => (
          <li key={s} id={`${id}-${i}`} role="option" aria-selected={i === active} onPointerDown={(event) => {
            event.preventDefault();
            accept(s);
          }}>
            <span class="mono clip">{s}</span>{s.endsWith(":") ? <span class="dim">{help[s.slice(0, -1) as Key]}</span> : null}
          </li>
        ))}
      </ul>
      {problem ? <p id={`${id}-problem`} class="search-problem" role="status">{problem}</p> : null}
    </div>
  );
}
