import { render } from "preact";
import { lazy } from "./app/lazy";
import { client, data, Failure } from "./api/client";
import { startKeyboard } from "./app/keyboard";
import { startRouter } from "./app/router";
import { Shell } from "./app/shell";
import { startTheme } from "./app/theme";
import { setServerTime, startClock } from "./data/clock";
import { startLive } from "./data/live";
import { begin, state } from "./data/session";
import { Failed } from "./ui/messages";
import { signal } from "@preact/signals";
import "./styles/tokens.css";
import "./styles/base.css";
import "./styles/components.css";
import "./styles/shell.css";

const Login = lazy(() => import("./views/login/view"));
const failed = signal<Failure | null>(null);

/** readSession asks who the person is. Until the server answers, it is asked again. */
async function readSession(): Promise<void> {
  try {
    const session = await data(client.GET("/api/v1/session", {}));
    setServerTime(session.now);
    failed.value = null;
    begin(session);
  } catch (error) {
    if (!(error instanceof Failure) || error.status === 401) return;
    failed.value = error;
    setTimeout(() => void readSession(), 3_000);
  }
}

function Page() {
  if (state.value === "out") return <Login done={() => void readSession()} />;
  if (state.value === "unknown") return failed.value ? <main><header class="view-head"><h1>MiniFleet</h1></header><Failed failure={failed.value} what="who you are" retry={() => void readSession()} /></main> : null;
  return <Shell />;
}

startTheme();
startClock();
startRouter();
startKeyboard();
startLive();
void readSession();
render(<Page />, document.getElementById("app") ?? document.body);
