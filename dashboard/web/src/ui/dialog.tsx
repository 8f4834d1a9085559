import type { ComponentChildren } from "preact";
import { useEffect, useId, useRef } from "preact/hooks";
import { Icon } from "./icons";

interface DialogProps {
  title: string;
  close: () => void;
  children: ComponentChildren;
  /** Buttons at its end, the one that acts last. */
  actions?: ComponentChildren;
  /** Called when the form of the dialog is submitted. */
  submit?: () => void;
}

/** Dialog is modal. Escape closes it, and the focus goes back to what had it before. */
export function Dialog({ title, close, children, actions, submit }: DialogProps) {
  const dialog = useRef<HTMLDialogElement>(null);
  const heading = useId();
  useEffect(() => {
    const before = document.activeElement;
    dialog.current?.showModal();
    // Not the button that closes it, which stands first.
    dialog.current?.querySelector<HTMLElement>(".dialog-body input, .dialog-body select, .dialog-body button, .dialog-actions button")?.focus();
    return () => {
      if (before instanceof HTMLElement && before.isConnected) before.focus();
    };
  }, []);
  return (
    <dialog ref={dialog} aria-labelledby={heading} onClose={close} onClick={(event) => event.target === dialog.current && close()}>
      <form method="dialog" class="dialog" onSubmit={(event) => {
        event.preventDefault();
        submit?.();
      }}>
        <div class="bar">
          <h2 id={heading}>{title}</h2>
          <span class="grow" />
          <button type="button" class="plain" aria-label="Close" onClick={close}><Icon name="close" /></button>
        </div>
        <div class="dialog-body">{children}</div>
        {actions ? <div class="dialog-actions">{actions}</div> : null}
      </form>
    </dialog>
  );
}
