import { effect, signal, useComputed } from "@preact/signals";
import type { ComponentType } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { count } from "../data/format";
import { stale, summary } from "../data/live";
import { ending, lost, session, state } from "../data/session";
import { isNav, routes, type NavRoute } from "../routes";
import { Dialog } from "../ui/dialog";
import { Icon } from "../ui/icons";
import { connection, Live } from "../ui/live";
import { Disconnected, Empty, Forbidden, Loading } from "../ui/messages";
import { announce, Toasts } from "../ui/toast";
import { shortcuts } from "./keyboard";
import { match, path, type Match, type RouteProps } from "./router";
import { nextTheme, theme } from "./theme";

interface Shown {
  match: Match | undefined;
  view: ComponentType<RouteProps> | null;
  /** Its code could not be loaded, most likely because the server has another version now. */
  failed: boolean;
}

const shown = signal<Shown>({ match: undefined, view: null, failed: false });

/** menu says whether that of narrow screens is open. */
const menu = signal(false);

/** Load the code of a view when its path is shown; what was shown before stays until then. */
effect(() => {
  const found = match(routes, path.value);
  const before = shown.peek();
  if (found && before.match?.route === found.route && before.view) {
    shown.value = { ...before, match: found };
    return;
  }
  if (!found) {
    shown.value = { match: undefined, view: null, failed: false };
    return;
  }
  const mine = path.value;
  found.route.load().then(
    (module) => path.peek() === mine && (shown.value = { match: found, view: module.default, failed: false }),
    () => path.peek() === mine && (shown.value = { match: found, view: null, failed: true }),
  );
  if (!before.view) shown.value = { match: found, view: null, failed: false };
});

/** Shell is the navigation with the view of the path beside it. */
export function Shell() {
  return (
    <>
      <a class="skip button" href="#main" onClick={(event) => {
        event.preventDefault();
        document.getElementById("main")?.focus();
      }}>Skip to content</a>
      <div class="shell">
        <Navigation />
        <main id="main" class={`main ${stale.value ? "is-old" : ""}`} tabIndex={-1}>
          <Fenced />
          <Disconnected />
          <View />
        </main>
      </div>
      {shortcuts.value ? <Shortcuts /> : null}
      {menu.value ? <Menu /> : null}
      <Toasts />
    </>
  );
}

function View() {
  const { match: found, view: Component, failed } = shown.value;
  const title = found ? found.route.title(found.params) : "Not found";
  const first = useRef(true);
  const key = found ? `${found.route.path} ${Object.values(found.params).join(" ")}` : "";
  useEffect(() => {
    document.title = `${title} · MiniFleet`;
    if (first.current) {
      // The first view takes no focus, once its code is there: Tab begins at the link that skips the navigation.
      first.current = found !== undefined && !Component && !failed;
      return;
    }
    // The heading of the new view takes the focus, so that keys and screen readers begin there.
    const heading = document.querySelector<HTMLElement>("#main h1") ?? document.getElementById("main");
    heading?.setAttribute("tabindex", "-1");
    heading?.focus({ preventScroll: true });
    announce(title);
  }, [key, Component]);

  if (state.value === "forbidden") return <><Head title="MiniFleet" /><Forbidden what="this fleet" absent={false} retry={() => location.reload()} /></>;
  if (failed) {
    return <><Head title={title} /><Empty title="This view could not be loaded" actions={<button type="button" onClick={() => location.reload()}>Load the page again</button>}>The server may run another version by now.</Empty></>;
  }
  if (!found) return <><Head title="Not found" /><Empty title="There is no such page" actions={<a href="/">Go to the fleet</a>} /></>;
  if (!Component) return <><Head title={title} /><div class="view-body"><Loading what={title} /></div></>;
  return <Component key={key} params={found.params} />;
}

/** Head is that of a page without a view of its own. */
const Head = ({ title }: { title: string }) => <header class="view-head"><h1>{title}</h1></header>;

function Navigation() {
  return (
    <nav class="nav" aria-label="Views">
      <a class="brand" href="/" aria-label="MiniFleet">
        <svg viewBox="0 0 16 16" width="18" height="18" aria-hidden="true"><path d="M1.5 13V3l4 6L8 3l2.5 6 4-6v10" fill="none" stroke="currentColor" stroke-width="2" stroke-linejoin="round" stroke-linecap="round" /></svg>
        <span>MiniFleet</span>
      </a>
      <ul>
        {routes.filter(isNav).map((route) => <li key={route.path}><NavLink route={route} /></li>)}
        <li class="only-narrow"><button type="button" class={`nav-more live is-${connection.value}`} aria-haspopup="dialog" onClick={() => (menu.value = true)}><i aria-hidden="true" /><span>Menu</span></button></li>
      </ul>
      <div class="nav-foot">
        <Live />
        <span class="who dim clip" title={session.value?.name}>{session.value?.name}</span>
        <div class="bar">
          <button type="button" class="plain" aria-label={`Colours: ${theme.value}`} title={`Colours: ${theme.value}`} onClick={nextTheme}><Icon name={themeIcon()} /></button>
          <button type="button" class="plain" aria-label="Keyboard shortcuts" title="Keyboard shortcuts (?)" onClick={() => (shortcuts.value = true)}><Icon name="keyboard" /></button>
          <button type="button" class="plain" aria-label="Log out" title="Log out" onClick={() => void logout()}><Icon name="logout" /></button>
        </div>
      </div>
    </nav>
  );
}

function NavLink({ route }: { route: NavRoute }) {
  const number = useComputed(() => {
    const all = summary.value;
    if (!all || !route.count) return "";
    const of = all[route.count];
    return of === undefined ? "" : count(typeof of === "number" ? of : of.total);
  });
  const here = route.path === "/" ? path.value === "/" || path.value.startsWith("/miniclusters/") : path.value === route.path || path.value.startsWith(`${route.path}/`);
  return <a href={route.path} aria-current={here ? "page" : undefined} aria-keyshortcuts={`g ${route.key}`}><Icon name={route.icon} /><span>{route.nav}</span><span class="num">{number}</span></a>;
}

/** Menu is what stands at the foot of the navigation, on a narrow screen. */
function Menu() {
  const close = () => (menu.value = false);
  return (
    <Dialog title="Menu" close={close}>
      <p class="bar"><Live /><span class="grow" /><span class="dim clip">{session.value?.name}</span></p>
      <button type="button" onClick={nextTheme}><Icon name={themeIcon()} />Colours: {theme.value}</button>
      <button type="button" onClick={() => {
        close();
        shortcuts.value = true;
      }}><Icon name="keyboard" />Keyboard shortcuts</button>
      <button type="button" onClick={() => {
        close();
        void logout();
      }}><Icon name="logout" />Log out</button>
    </Dialog>
  );
}

const themeIcon = () => (theme.value === "auto" ? "auto" : theme.value === "dark" ? "moon" : "sun");

function Fenced() {
  const why = summary.value?.fenced;
  return why ? <p class="banner unk" role="alert"><b>This hub does nothing.</b><span>{why}</span></p> : null;
}

async function logout(): Promise<void> {
  ending(); // nothing is read any more that the server would have to refuse
  await fetch("/api/v1/logout", { method: "POST", credentials: "same-origin", headers: { "Content-Type": "application/json" }, body: "{}" }).catch(() => undefined);
  lost("login");
}

function Shortcuts() {
  const list: [string[], string][] = [
    ...routes.filter(isNav).map((r): [string[], string] => [["g", r.key], `Go to ${r.nav}`]),
    [["/"], "Search"],
    [["j"], "Go to the rows; there, the next one (also ↓)"],
    [["k"], "The row before (also ↑)"],
    [["Enter"], "Open the row"],
    [["Esc"], "Close a list or a dialog, empty the search"],
    [["?"], "These shortcuts"],
  ];
  const close = () => (shortcuts.value = false);
  return (
    <Dialog title="Keyboard shortcuts" close={close} actions={<button type="button" onClick={close}>Close</button>}>
      <dl class="shortcuts">{list.map(([keys, what]) => <><dt key={what}>{keys.map((k) => <kbd key={k}>{k}</kbd>)}</dt><dd>{what}</dd></>)}</dl>
    </Dialog>
  );
}
