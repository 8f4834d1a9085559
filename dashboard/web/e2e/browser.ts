// A person's browser, and what is demanded of the page in every spec.
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { chromium, type Browser, type BrowserContext, type Locator, type Page } from "playwright-core";
import type { AxeResults, RunOptions } from "axe-core";
import { expect, inject, test } from "vitest";
import { settings, type Person } from "./fleet.ts";

/** How long what the fleet does may take to be on the page, in milliseconds, on a busy machine. */
export const SOON = 60_000;

const shots = join(import.meta.dirname, "..", "shots", "e2e");
const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

let connected: Promise<Browser> | undefined;
const cookies = new Map<Person, Awaited<ReturnType<BrowserContext["cookies"]>>>();

/** Visit is one tab of a person's browser. */
export interface Visit {
  page: Page;
  context: BrowserContext;
  /** Whatever the server has sent to it: bodies and events of streams. */
  received: () => string;
  /** What the page must not have done: requests elsewhere, errors, violations of the Content-Security-Policy, dialogs. */
  problems: string[];
  /** Answers that the browser reports as errors and that are none: who is not logged in, a machine that is busy, and what the spec adds. */
  expected: RegExp[];
  /** own makes a name that no earlier attempt has used: what that has released would not be running any more. */
  own: (name: string) => string;
}

interface Options {
  width?: number;
  /** Milliseconds. */
  timeout?: number;
}

/** broken are the specs in which the page has done what it must not, at any attempt: that is no matter of time. */
const broken = new Map<string, string[]>();

/**
 * spec runs with a tab in a browser of its own, in which a person is logged in, or nobody (null). It fails, too, if the page
 * has done what no page may. What a failed one showed is kept in shots.
 */
export function spec(name: string, who: Person | null, run: (visit: Visit) => Promise<void>, { width = 1440, timeout = 300_000 }: Options = {}): void {
  test(name, async ({ task }) => {
    const attempt = (task.result?.retryCount ?? 0) + 1;
    expect(broken.get(name) ?? [], "what the page must not do, at an earlier attempt").toEqual([]);
    connected ??= chromium.connect(inject("browser"));
    const context = await (await connected).newContext({ viewport: { width, height: 900 }, reducedMotion: "reduce", baseURL: settings.url });
    context.setDefaultTimeout(SOON);
    try {
      const visit = await open(context, attempt);
      try {
        await within(timeout, (async () => {
          if (who) await logIn(visit, who);
          await run(visit);
        })());
        expect(visit.problems, "what the page must not do").toEqual([]);
      } catch (error) {
        await keep(visit, attempt > 1 ? `${name} ${attempt}` : name);
        if (visit.problems.length > 0) {
          broken.set(name, visit.problems);
          console.error(`${name}: the page has done what it must not:\n${visit.problems.join("\n")}`);
        }
        throw error;
      }
    } finally {
      await context.close();
    }
  }, timeout + KEEPING);
}

/** How long it may take to keep what was shown, in milliseconds. */
const KEEPING = 20_000;

/** within so many milliseconds, so that what takes longer is stopped while it can still be said what was shown. */
async function within(milliseconds: number, done: Promise<void>): Promise<void> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const over = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`it takes longer than ${milliseconds / 1000} s`)), milliseconds);
  });
  await Promise.race([done, over]).finally(() => clearTimeout(timer));
}

async function open(context: BrowserContext, attempt: number): Promise<Visit> {
  const page = await context.newPage();
  const texts: string[] = [];
  const visit: Visit = {
    page, context, received: () => texts.join("\n"), problems: [], expected: [/status of 401 .*\/api\/v1\/session/, /status of 503 /],
    own: (name) => (attempt > 1 ? `${name}-${attempt}` : name),
  };
  page.on("console", (message) => {
    const text = `${message.text()} (${message.location().url})`;
    if (["error", "warning"].includes(message.type()) && !visit.expected.some((e) => e.test(text))) visit.problems.push(`console: ${text}`);
  });
  page.on("pageerror", (error) => visit.problems.push(`error: ${String(error)}`));
  page.on("request", (request) => {
    if (new URL(request.url()).origin !== settings.url) visit.problems.push(`request elsewhere: ${request.url()}`);
  });
  page.on("dialog", (dialog) => {
    visit.problems.push(`dialog: ${dialog.message()}`);
    void dialog.dismiss();
  });
  page.on("requestfinished", (request) => {
    request.response().then(async (response) => texts.push(JSON.stringify(response?.headers()), (await response?.text()) ?? "")).catch(() => undefined);
  });
  const devtools = await context.newCDPSession(page);
  await devtools.send("Network.enable");
  devtools.on("Network.eventSourceMessageReceived", (event) => texts.push(event.data));
  return visit;
}

/** logIn as the page does, unless this worker has a session of the person already, and show the fleet. */
async function logIn(visit: Visit, who: Person): Promise<void> {
  const known = cookies.get(who);
  if (known) await visit.context.addCookies(known);
  await visit.page.goto("/");
  const form = visit.page.getByLabel("Token");
  const views = visit.page.getByRole("navigation", { name: "Views" });
  await form.or(views).first().waitFor();
  if (await views.isVisible()) return;
  // An API server that is busy is asked again.
  for (let attempt = 0; attempt < 5 && !(await views.isVisible()); attempt++) {
    const [answer] = await Promise.all([visit.page.waitForResponse("**/api/v1/login"), enter(visit, settings.tokens[who])]);
    if (answer.ok()) await views.waitFor();
  }
  if (!(await views.isVisible())) throw new Error(`${who} cannot log in: ${await visit.page.getByRole("alert").innerText()}`);
  cookies.set(who, await visit.context.cookies());
}

/** enter a token where it is asked for. */
export async function enter({ page }: Visit, token: string): Promise<void> {
  await page.getByLabel("Token").fill(token);
  await page.getByRole("button", { name: "Log in" }).click();
}

/** How much of what was shown is printed, in characters. */
const SHOWN = 4_000;

/** keep what is shown: a picture, and what a screen reader is told. */
async function keep({ page }: Visit, name: string): Promise<void> {
  const file = join(shots, "failed", name.replace(/[^a-z0-9]+/gi, "-"));
  mkdirSync(join(shots, "failed"), { recursive: true });
  let tree = await page.locator("body").ariaSnapshot({ timeout: 5_000 }).catch(String);
  for (const token of Object.values(settings.tokens)) tree = tree.replaceAll(token, "a token");
  writeFileSync(`${file}.txt`, `${page.url()}\n\n${tree}\n`);
  await page.screenshot({ path: `${file}.png`, fullPage: true, timeout: 5_000 }).catch(() => undefined);
  console.error(`${name}: what was shown is in ${file}.png and .txt, and began with\n${tree.slice(0, SHOWN)}`);
}

/** row of a MiniCluster in the list of the fleet. */
export const row = (page: Page, name: string): Locator => page.getByRole("grid", { name: "MiniClusters" }).getByRole("row").filter({ has: page.getByRole("link", { name, exact: true }) });

/** column of a row by its place from 0. */
export const column = (of: Locator, n: number): Locator => of.getByRole("gridcell").nth(n);

/** says waits until an element's text is as wanted. */
export const says = (element: Locator, wanted: RegExp, timeout = SOON) => expect.poll(() => element.innerText({ timeout: 1_000 }).catch(String), { timeout }).toMatch(wanted);

/** path of the page about a MiniCluster. */
export const pageOf = (name: string, tab = "", namespace = settings.namespace) => `/miniclusters/${namespace}/${name}${tab ? `?tab=${tab}` : ""}`;

/** state that the page about a MiniCluster begins with. */
export const state = (page: Page): Locator => page.locator(".cluster-head .state");

/** shown goes to a path and waits until its view is there with what it has to show. */
export async function shown(page: Page, path: string): Promise<void> {
  await page.goto(path);
  await page.locator("main h1").first().waitFor();
  await page.getByText(/^Loading/).first().waitFor({ state: "detached" });
}

/** views that the navigation leads to: their paths by their names in small letters. */
export async function views(page: Page): Promise<Record<string, string>> {
  const links = await page.getByRole("navigation", { name: "Views" }).getByRole("listitem").getByRole("link").all();
  return Object.fromEntries(await Promise.all(links.map(async (link) => [(await link.locator("span").first().innerText()).toLowerCase(), (await link.getAttribute("href")) ?? ""])));
}

/** unavailable are the problems of a page for people who use it otherwise than most: axe's, and a page wider than the screen. */
async function unavailable(page: Page, rules: RunOptions["runOnly"]): Promise<string[]> {
  await page.evaluate(axe);
  const options: RunOptions = { runOnly: rules ?? [], resultTypes: ["violations"] };
  const { violations } = await page.evaluate((o) => (window as unknown as { axe: { run: (of: Document, options: RunOptions) => Promise<AxeResults> } }).axe.run(document, o), options);
  const found = violations.map((v) => `${v.id}: ${v.nodes.slice(0, 3).map((n) => `${n.target.join(" ")} ${n.any[0]?.message ?? n.failureSummary ?? ""}`).join(" | ")}`);
  const wider = await widerThanScreen(page);
  return wider ? [...found, wider] : found;
}

/** widerThanScreen says what makes the page scroll sideways; empty if it does not. */
export function widerThanScreen(page: Page): Promise<string> {
  return page.evaluate(() => {
    const by = document.documentElement.scrollWidth - document.documentElement.clientWidth;
    if (by <= 0) return "";
    const widest = [...document.querySelectorAll("#app *")].filter((e) => e.getBoundingClientRect().right > innerWidth + 1).slice(-3);
    return `${by} px wider than the screen: ${widest.map((e) => `${e.tagName}.${e.getAttribute("class") ?? ""}`).join(" ")}`;
  });
}

const all = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"];
const contrast = { type: "rule", values: ["color-contrast"] } as const;

/** Which sizes and colours a page is examined in, and by which rules: other colours are no other structure. */
const appearances = [[1440, "light", all], [1440, "dark", contrast], [360, "dark", contrast], [360, "light", all]] as const;

/** examine the page as it is, in light and dark, wide and narrow, and keep pictures of it. */
export async function examine({ page }: Visit, name: string): Promise<void> {
  mkdirSync(shots, { recursive: true });
  const found: string[] = [];
  for (const [width, colours, rules] of appearances) {
    await page.setViewportSize({ width, height: width < 500 ? 740 : 900 });
    await page.emulateMedia({ colorScheme: colours });
    found.push(...(await unavailable(page, rules as RunOptions["runOnly"])).map((problem) => `${name}, ${width} px, ${colours}: ${problem}`));
    await page.screenshot({ path: join(shots, `${name}-${width}-${colours}.png`) });
  }
  await page.setViewportSize({ width: 1440, height: 900 });
  expect(found).toEqual([]);
}
