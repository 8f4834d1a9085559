import { expect } from "vitest";
import type { Page } from "playwright-core";
import { column, examine, pageOf, row, says, shown, spec, views } from "./browser.ts";
import { commit, log, miniCluster, release, settings } from "./fleet.ts";

let furnished: Promise<void> | undefined;

/** furnish the fleet once, so that something runs, waits for room, has failed and has succeeded, and a file is wrong. */
function furnish(page: Page): Promise<void> {
  return (furnished ??= (async () => {
    await commit("add what views show", {
      "views/running.yaml": miniCluster("views-running", { on: "south", held: true }),
      "views/large.yaml": miniCluster("views-large", { size: 1, cpu: "50", held: true }),
      "views/failed.yaml": miniCluster("views-failed", { seconds: 0, exitCode: 3 }),
      "views/done.yaml": miniCluster("views-done", { seconds: 0 }),
      "views/wrong.yaml": "apiVersion: flux-framework.org/v1alpha2\nkind: MiniCluster\nmetadata:\n  name: views-wrong\nspec:\n  size: many\n",
    });
    await says(column(row(page, "views-large"), 1), /^Running/);
    await commit("add one that waits", { "views/waiting.yaml": miniCluster("views-waiting", { cpu: "20" }) });
    await says(column(row(page, "views-waiting"), 1), /^Waiting/);
    await says(column(row(page, "views-running"), 1), /^Running/);
    await says(column(row(page, "views-failed"), 1), /^Failed/);
  })());
}

spec("the grid has a cell for each run", "admin", async ({ page }) => {
  await furnish(page);
  await shown(page, "/grid?q=views-");
  const grid = page.getByRole("grid", { name: "Runs of MiniClusters on members" });
  for (const [name, cells] of Object.entries({
    "views-running": [/on basalt: running/, /on cinder: running/], "views-failed": [/on alpine: failed/], "views-done": [/on alpine: succeeded/], "views-waiting": [/has not run: Waiting/],
  })) {
    const of = grid.getByRole("row").filter({ has: page.getByRole("link", { name, exact: true }) });
    for (const cell of cells) await of.getByRole("gridcell", { name: cell }).waitFor();
    expect(await of.getByRole("gridcell").count(), name).toBe(cells.length);
  }
});

spec("the timeline has a bar for each run, on the lane of its member", "admin", async ({ page }) => {
  await furnish(page);
  await shown(page, "/timeline?q=views-");
  await page.getByRole("group", { name: "Runs over time, a lane for each member" }).waitFor();
  await page.getByRole("group", { name: "Shown as" }).getByRole("button", { name: "Table" }).click();
  const bars = page.getByRole("row");
  for (const [name, wanted] of [["views-running", /Running[\s\S]*basalt/], ["views-running", /Running[\s\S]*cinder/], ["views-failed", /Failed[\s\S]*alpine/], ["views-done", /Succeeded[\s\S]*alpine/]] as const) {
    await bars.filter({ has: page.getByRole("link", { name, exact: true }), hasText: wanted }).first().waitFor();
  }
});

spec("the queue says who waits, and for what, until there is room", "admin", async ({ page }) => {
  await furnish(page);
  await shown(page, "/queue");
  const line = page.getByRole("region", { name: "Line for room on alpine" });
  await says(line.getByRole("listitem").filter({ has: page.getByRole("link", { name: "views-waiting", exact: true }) }), /2 × 20 CPU[\s\S]* of 2 fit[\s\S]*lacks/);
  await line.getByRole("link", { name: "views-waiting", exact: true }).click();
  await page.waitForURL(`**${pageOf("views-waiting", "why")}`);
  const why = page.getByRole("tabpanel", { name: "Why" });
  await says(why, /CPU/);
  await says(why.getByRole("region", { name: "Line for room on alpine" }), /this one/);
  await says(why, /Not chosen[\s\S]*basalt[\s\S]*cinder/);
});

spec("views are available to all when they are full", "admin", async (visit) => {
  const { page } = visit;
  await furnish(page);
  await log("basalt", ...Array.from({ length: 200 }, (_, i) => `Step ${i} Temp ${300 + i} E_pair -1${i}.25`));
  for (const [name, path] of Object.entries(await views(page))) {
    await shown(page, path);
    await examine(visit, name);
  }
  for (const [name, path] of Object.entries({
    "fleet-tiles": "/?mode=tiles", "minicluster-why": pageOf("views-waiting", "why"), "minicluster-failed": pageOf("views-failed"),
    member: "/members/alpine", source: `/sources/${settings.namespace}/${settings.namespace}`,
  })) {
    await shown(page, path);
    await examine(visit, name);
  }
}, { timeout: 180_000 });

spec("what waits for room begins once there is some", "admin", async ({ page }) => {
  await furnish(page);
  await page.goto("/?q=views-waiting");
  await says(column(row(page, "views-waiting"), 1), /^Waiting/);
  await release("views-large", "alpine");
  await says(column(row(page, "views-waiting"), 1), /^(Starting|Running|Succeeded)/);
  await release("views-running", "basalt");
  await release("views-running", "cinder");
});
