import { expect } from "vitest";
import type { Page } from "playwright-core";
import { column, examine, pageOf, row, says, shown, SOON, spec, state, views } from "./browser.ts";
import { commit, log, miniCluster, release, settings } from "./fleet.ts";

spec("the page of a MiniCluster shows what came of a commit, down to the pods", "admin", async ({ page }) => {
  await commit("add branches", { "branches.yaml": miniCluster("branches", { on: "south", held: true }) });
  await row(page, "branches").getByRole("link", { name: "branches", exact: true }).click();
  const tree = page.getByRole("tree", { name: "From the commit to the pods" });
  await says(tree, /Commit .*[\s\S]*Source .*[\s\S]*MiniCluster branches/);
  for (const member of ["basalt", "cinder"]) await tree.getByRole("treeitem", { name: new RegExp(`^${member} `) }).waitFor();
  await expect.poll(() => tree.getByRole("treeitem", { name: /rank [01].*Running on (basalt|cinder)-/s }).count(), { timeout: SOON }).toBe(4);
  expect(await tree.getByText("Job", { exact: false }).count()).toBeGreaterThanOrEqual(2);

  await release("branches", "basalt");
  await expect.poll(() => tree.getByRole("treeitem", { name: /rank [01].*Succeeded on basalt-/s }).count(), { timeout: SOON }).toBe(2);
  await says(state(page), /^Running/);
  await release("branches", "cinder", 3);
  await says(state(page), /^Failed/);

  await page.getByRole("tab", { name: /Runs/ }).click();
  const runs = page.getByRole("list", { name: "Runs, latest first" });
  await says(runs, /add branches/);
  await runs.getByText(/code 3 in/).first().waitFor();
  await page.getByRole("tab", { name: "Events" }).click();
  await says(page.getByRole("list", { name: "Events, latest first" }), /RunFailed[\s\S]*RunStarted|RunStarted[\s\S]*RunFailed/);
  await page.getByRole("tab", { name: "YAML" }).click();
  await says(page.getByRole("region", { name: "Manifest" }), /kind: FleetMiniCluster[\s\S]*lmp -in in\.reaxc\.hns/);
  await page.getByRole("tab", { name: "Diff" }).click();
  await says(page.getByRole("tabpanel"), /object/);
});

let furnished: Promise<void> | undefined;

/**
 * furnish the fleet once, so that something runs, waits for room, has failed and has succeeded, and a file is wrong. What waits
 * holds up all behind it, so it is on members that specs of other files do not use.
 */
function furnish(page: Page): Promise<void> {
  return (furnished ??= (async () => {
    await commit("add what views show", {
      "views/running.yaml": miniCluster("views-running", { on: "south", held: true }),
      "views/large.yaml": miniCluster("views-large", { on: "south", size: 1, cpu: "50", held: true }),
      "views/failed.yaml": miniCluster("views-failed", { seconds: 0, exitCode: 3 }),
      "views/done.yaml": miniCluster("views-done", { seconds: 0 }),
    });
    // Where a file is wrong nothing is removed, so it is not beside what other specs remove.
    await commit("add a file that is wrong", {
      "wrong.yaml": "apiVersion: flux-framework.org/v1alpha2\nkind: MiniCluster\nmetadata:\n  name: views-wrong\nspec:\n  size: many\n",
    }, settings.hidden);
    await says(column(row(page, "views-large"), 1), /^Running/);
    await commit("add one that waits", { "views/waiting.yaml": miniCluster("views-waiting", { on: "south", cpu: "20" }) });
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
  const line = page.getByRole("region", { name: "Line for room on basalt" });
  await says(line.getByRole("listitem").first(), /views-waiting[\s\S]*2 × 20 CPU[\s\S]*1 of 2 fit[\s\S]*6 CPU short on (basalt|cinder)-0/);
  await line.getByRole("link", { name: "views-waiting", exact: true }).click();
  await page.waitForURL(`**${pageOf("views-waiting", "why")}`);
  const why = page.getByRole("tabpanel", { name: "Why" });
  await says(why, /CPU/);
  await says(why.getByRole("region", { name: /^Line for room on (basalt|cinder)$/ }), /this one/);
  await says(why, /Not chosen[\s\S]*alpine/);
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
    member: "/members/alpine", source: `/sources/${settings.hidden}/${settings.hidden}`,
  })) {
    await shown(page, path);
    await examine(visit, name);
  }
}, { timeout: 240_000 });

spec("what waits for room begins once there is some", "admin", async ({ page }) => {
  await furnish(page);
  await page.goto("/?q=views-waiting");
  await says(column(row(page, "views-waiting"), 1), /^Waiting/);
  await release("views-large", "basalt");
  await release("views-large", "cinder");
  await says(column(row(page, "views-waiting"), 1), /^(Starting|Running|Succeeded)/);
  await release("views-running", "basalt");
  await release("views-running", "cinder");
});
