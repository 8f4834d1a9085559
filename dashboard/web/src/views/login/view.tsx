import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { failure, Failure } from "../../api/client";
import type { LoginMethods } from "../../api/types";
import { Shape } from "../../ui/icons";
import "./login.css";

/** Login asks for a token, and offers OIDC where the server has a provider. done is called once the server knows the person. */
export default function Login({ done }: { done: () => void }) {
  const methods = useSignal<LoginMethods | null>(null);
  const wrong = useSignal("");
  const busy = useSignal(false);
  const input = useRef<HTMLInputElement>(null);
  useEffect(() => {
    document.title = "Log in · MiniFleet";
    input.current?.focus();
    readMethods().then((m) => (methods.value = m));
  }, []);

  async function submit(): Promise<void> {
    const token = input.current?.value.trim() ?? "";
    if (!token) {
      wrong.value = "Paste a token first.";
      input.current?.focus();
      return;
    }
    busy.value = true;
    wrong.value = "";
    try {
      await login(token);
      done();
    } catch (error) {
      wrong.value = error instanceof Failure && error.status === 401 ? "The hub does not know this token. It may have expired." : (error as Error).message;
      input.current?.select();
      input.current?.focus();
    } finally {
      busy.value = false;
    }
  }

  const oidc = methods.value?.oidc;
  const next = encodeURIComponent(location.pathname + location.search);
  return (
    <main class="login">
      <div class="login-box">
        <svg viewBox="0 0 16 16" width="30" height="30" aria-hidden="true"><path d="M1.5 13V3l4 6L8 3l2.5 6 4-6v10" fill="none" stroke="currentColor" stroke-width="1.9" stroke-linejoin="round" stroke-linecap="round" /></svg>
        <h1>Log in to MiniFleet</h1>
        <p class="dim">You see and do what your rights on the hub allow.</p>
        {oidc ? <a class="button login-oidc" href={`/auth/login?next=${next}`}>Log in with {methods.value?.oidcName}</a> : null}
        {oidc ? <p class="login-or dim"><span>or</span></p> : null}
        <form onSubmit={(event) => {
          event.preventDefault();
          void submit();
        }}>
          <div class="field">
            <label for="token">Token</label>
            <input id="token" ref={input} type="password" name="token" autocomplete="current-password" spellcheck={false} aria-invalid={wrong.value !== ""} aria-describedby="token-help" />
            <span id="token-help" class={wrong.value ? "login-wrong bad" : "dim"} role={wrong.value ? "alert" : undefined}>
              {wrong.value ? <><Shape name="failed" /> {wrong.value}</> : <>Of a ServiceAccount or of yourself, as the hub's API server knows it: <code>kubectl create token NAME</code></>}
            </span>
          </div>
          <button type="submit" class={oidc ? "" : "primary"} disabled={busy.value}>{busy.value ? "Asking the hub…" : "Log in"}</button>
        </form>
        <p class="dim login-note">The token stays on the server until you log out; this browser gets only a cookie that scripts cannot read.</p>
      </div>
    </main>
  );
}

async function readMethods(): Promise<LoginMethods> {
  try {
    const response = await fetch("/api/v1/login-methods", { credentials: "same-origin", cache: "no-store" });
    if (response.ok) return (await response.json()) as LoginMethods;
  } catch {
    // A token can be tried all the same.
  }
  return { token: true, oidc: false, oidcName: "" };
}

async function login(token: string): Promise<void> {
  let response: Response;
  try {
    response = await fetch("/api/v1/login", { method: "POST", credentials: "same-origin", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ token }) });
  } catch {
    throw new Failure(0, "The server does not answer.");
  }
  if (!response.ok) throw failure(response.status, await response.json().catch(() => null));
}
