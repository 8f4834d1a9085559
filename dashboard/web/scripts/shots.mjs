// Shows the build with made-up data in Chromium, writes screenshots to shots/, and checks each page with axe.
//
//   node scripts/shots.mjs [PATTERN]   only those whose name matches
//
// Environment: CHROMIUM (default /usr/bin/chromium), WIDTHS, THEMES, and what dev/mock.ts reads.
import { mkdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { pages } from "../dev/pages.mjs";
import { browser, serve } from "./browser.mjs";

const root = join(import.meta.dirname, "..");
const out = join(root, "shots");
mkdirSync(out, { recursive: true });
const pattern = new RegExp(process.argv[2] ?? ".");
const widths = (process.env.WIDTHS ?? "1440,768,360").split(",").map(Number);
const themes = (process.env.THEMES ?? "light,dark").split(",");
const axe = readFileSync(join(root, "node_modules/axe-core/axe.min.js"), "utf8");

const servers = new Map();
const serverFor = async (env) => {
  const key = JSON.stringify(env);
  if (!servers.has(key)) servers.set(key, await serve(env));
  return servers.get(key);
};

const context = await browser();
let problems = 0;
try {
  for (const each of pages.filter((p) => pattern.test(p.name))) {
    const server = await serverFor({ MOCK_CHURN: "0", ...each.env });
    for (const width of each.widths ?? widths) {
      for (const theme of each.themes ?? themes) {
        const page = await context.newPage();
        const name = `${each.name}-${width}-${theme}`;
        const said = [];
        page.on("console", (message) => ["error", "warning"].includes(message.type()) && !/Failed to load resource/.test(message.text()) && said.push(message.text()));
        page.on("pageerror", (error) => said.push(String(error)));
        page.on("request", (request) => request.url().startsWith(server.url) || said.push(`request to ${request.url()}`));
        page.on("dialog", (dialog) => { said.push(`dialog: ${dialog.message()}`); void dialog.dismiss(); });
        await page.setViewportSize({ width, height: width < 500 ? 740 : 900 });
        await page.emulateMedia({ colorScheme: theme, reducedMotion: "reduce", forcedColors: each.forcedColors ?? "none" });
        await page.goto(server.url + each.path);
        await page.waitForSelector(each.ready ?? "h1", { timeout: 10_000 }).catch((error) => said.push(String(error)));
        await Promise.resolve(each.act?.(page)).catch((error) => said.push(String(error)));
        await page.waitForTimeout(each.wait ?? 250);
        await page.screenshot({ path: join(out, `${name}.png`) });
        await page.evaluate(axe);
        const result = await page.evaluate(() => window.axe.run(document, { runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"] }));
        const wide = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
        if (wide > 0) {
          const widest = await page.evaluate(() => [...document.querySelectorAll("#app *")].filter((e) => e.getBoundingClientRect().right > innerWidth + 1).slice(-3).map((e) => `${e.tagName}.${e.getAttribute("class") ?? ""}`).join(" "));
          said.push(`the page is ${wide} px wider than the screen: ${widest}`);
        }
        for (const v of result.violations) said.push(`axe ${v.impact} ${v.id}: ${v.nodes.slice(0, 3).map((n) => `${n.target.join(" ")} ${n.any[0]?.message ?? n.failureSummary?.split("\n")[1] ?? ""}`).join(" | ")}`);
        problems += said.length;
        console.log(`${said.length ? "PROBLEMS" : "ok      "} ${name}${said.map((s) => `\n    ${s.slice(0, 600)}`).join("")}`);
        await page.close();
      }
    }
  }
} finally {
  await context.close();
  for (const server of servers.values()) server.stop();
}
process.exit(problems ? 1 : 0);
