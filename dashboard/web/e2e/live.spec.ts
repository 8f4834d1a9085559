import { expect } from "vitest";
import { column, pageOf, row, says, SOON, spec, state } from "./browser.ts";
import { commit, miniCluster, release } from "./fleet.ts";

spec("a push is shown as it is applied, without loading the page again", "admin", async ({ page }) => {
  await page.evaluate(() => ((window as unknown as { mark: string }).mark = "same page"));
  await commit("add pushed, for the browser", { "pushed.yaml": miniCluster("pushed", { held: true }) });
  const pushed = row(page, "pushed");
  await pushed.waitFor();
  await says(column(pushed, 1), /^Running/);
  await says(column(pushed, 3), /2\/2/);
  await says(column(pushed, 4), /alpine/);
  await says(column(pushed, 5), /add pushed, for the browser/);
  await release("pushed", "alpine");
  await says(column(pushed, 1), /^Succeeded/);
  expect(await page.evaluate(() => (window as unknown as { mark?: string }).mark)).toBe("same page");
  await page.getByText("Live", { exact: true }).waitFor();
});

spec("what is removed from Git disappears from the list", "admin", async ({ page }) => {
  await commit("add removed", { "removed.yaml": miniCluster("removed", { seconds: 0 }) });
  await says(column(row(page, "removed"), 1), /^Succeeded/);
  await commit("remove it", { "removed.yaml": "" });
  await row(page, "removed").waitFor({ state: "detached" });
});

spec("filters are in the address, and the server applies them", "admin", async ({ page }) => {
  await commit("add two to filter", { "filter.yaml": [miniCluster("filter-failed", { seconds: 0, exitCode: 3 }), miniCluster("filter-done", { seconds: 0 })].join("\n---\n") });
  await says(column(row(page, "filter-done"), 1), /^Succeeded/);
  await says(column(row(page, "filter-failed"), 1), /^Failed/);
  await page.getByRole("combobox", { name: "Filter MiniClusters" }).fill("filter-");
  await page.getByRole("group", { name: "Filter by state" }).getByRole("button", { name: /Failed/ }).click();
  await row(page, "filter-done").waitFor({ state: "detached" });
  await row(page, "filter-failed").waitFor();
  expect(new URL(page.url()).searchParams.getAll("state")).toEqual(["Failed"]);
  await page.reload();
  await row(page, "filter-failed").waitFor();
  expect(await page.getByRole("grid", { name: "MiniClusters" }).getByRole("link").count()).toBe(1);
});

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

spec("what is wanted is compared with what is on members, without what is secret", "admin", async ({ page }) => {
  await commit("add compared", { "compared.yaml": miniCluster("compared", { held: true }) });
  await says(column(row(page, "compared"), 1), /^Running/);
  await page.goto(pageOf("compared", "diff"));
  await says(page.getByRole("tabpanel"), /All \d+ objects are as wanted/);
  expect(await page.getByRole("tabpanel").innerText()).not.toMatch(/secret-key/);
  await release("compared", "alpine");
});
