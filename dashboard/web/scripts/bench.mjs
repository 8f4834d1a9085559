// Measures the page of a real server in Chromium, as hack/bench asks for: a command of JSON on each line of the input, an
// answer on a line of the output.
import { createInterface } from "node:readline";
import { browser } from "./browser.mjs";

const context = await browser();
const viewport = { width: 1440, height: 900 };
let url = "";
let page;

/** observe notes when rows are shown, and when a text MARKER-number comes to be in one. */
function observe() {
  window.seen = {};
  const examine = () => {
    if (window.shownAt === undefined && document.querySelector(".fleet-rows .state")) {
      window.shownAt = 0;
      requestAnimationFrame(() => (window.shownAt = performance.now()));
    }
    for (const cell of document.querySelectorAll(".fleet-rows .c-why")) {
      const found = /MARKER-(\d+)/.exec(cell.textContent);
      if (found) window.seen[found[1]] ??= Date.now();
    }
  };
  new MutationObserver(examine).observe(document, { childList: true, subtree: true, characterData: true });
}

/** open a tab at the fleet and wait for rows. uncached: nothing of the page is in the browser's cache. */
async function open({ uncached = false } = {}) {
  const tab = await context.newPage();
  await tab.setViewportSize(viewport);
  await tab.addInitScript(observe);
  const devtools = await context.newCDPSession(tab);
  await devtools.send("Network.enable");
  await devtools.send("Network.setCacheDisabled", { cacheDisabled: uncached });
  await tab.goto(url);
  await tab.waitForFunction(() => window.shownAt);
  return tab;
}

/** files that a tab has read so far: sizes in bytes as they were sent, by name. */
const files = (tab) => tab.evaluate(() => Object.fromEntries([...performance.getEntriesByType("navigation"), ...performance.getEntriesByType("resource")]
  .filter((entry) => !entry.name.includes("/api/")).map((entry) => [entry.name, entry.encodedBodySize])));

const commands = {
  /** login with a token, to a server at a URL; a tab is open then. */
  async login(command) {
    await page?.close();
    await context.clearCookies();
    url = command.url;
    const tab = await context.newPage();
    await tab.goto(url);
    await tab.getByLabel("Token").fill(command.token);
    await tab.getByRole("button", { name: "Log in" }).click();
    await tab.waitForSelector(".fleet-rows .state");
    await tab.close();
    page = await open();
  },
  /** shown: milliseconds from the navigation until rows are shown, each time in a new tab. */
  async shown({ times, uncached }) {
    const shown = [];
    for (let i = 0; i < times; i++) {
      const tab = await open({ uncached });
      shown.push(await tab.evaluate(() => window.shownAt));
      await tab.close();
    }
    return shown;
  },
  /** frames: milliseconds between frames for some seconds, and the most rows that were in the document. */
  frames: ({ seconds, scroll }) => page.evaluate(async ({ seconds: length, scroll: scrolls }) => {
    const lengths = [];
    let rows = 0;
    let last = performance.now();
    const until = last + length * 1000;
    await new Promise((done) => {
      const frame = (now) => {
        lengths.push(now - last);
        last = now;
        rows = Math.max(rows, document.querySelectorAll(".vbody .vrow").length);
        if (scrolls) window.scrollBy(0, 180);
        if (now < until) requestAnimationFrame(frame);
        else done();
      };
      requestAnimationFrame(frame);
    });
    window.scrollTo(0, 0);
    return { lengths: lengths.slice(1), rows };
  }, { seconds, scroll }),
  /** visible: NAMESPACE/NAME of the rows on the screen. */
  visible: () => page.evaluate(() => [...document.querySelectorAll(".fleet-rows .vrow")].filter((row) => {
    const { top, bottom } = row.getBoundingClientRect();
    return top > 0 && bottom < innerHeight;
  }).map((row) => row.querySelector(".c-name a")?.title).filter(Boolean)),
  /** marker: when it came to be on the page, in milliseconds since 1970. */
  async marker({ number }) {
    await page.waitForFunction((n) => window.seen[n], String(number), { timeout: 60_000 });
    return page.evaluate((n) => window.seen[n], String(number));
  },
  /** assets: bytes of the files of the first view, and of those that each further one reads. */
  async assets() {
    const out = {};
    const views = await page.locator("nav a[href]").evaluateAll((links) => links.map((link) => link.getAttribute("href")).filter((href) => href !== "/").map((href) => `nav a[href="${href}"]`));
    views.push(".fleet-rows .c-name a");
    for (const view of views) {
      const tab = await open({ uncached: true });
      await tab.waitForLoadState("networkidle", { timeout: 2_000 }).catch(() => undefined); // the stream stays open
      const first = await files(tab);
      out[""] = Object.values(first).reduce((a, b) => a + b, 0);
      await tab.locator(view).first().click();
      await tab.waitForTimeout(1_500);
      const all = await files(tab);
      out[new URL(tab.url()).pathname.split("/")[1]] = Object.entries(all).reduce((sum, [name, size]) => sum + (name in first ? 0 : size), 0);
      await tab.close();
    }
    return out;
  },
};

try {
  for await (const line of createInterface({ input: process.stdin })) {
    const command = JSON.parse(line);
    try {
      console.log(JSON.stringify({ value: (await commands[command.do](command)) ?? null }));
    } catch (error) {
      console.log(JSON.stringify({ error: String(error) }));
    }
  }
} finally {
  await context.close();
}
process.exit(0);
