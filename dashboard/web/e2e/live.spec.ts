import { expect } from "vitest";
import { column, pageOf, row, says, spec } from "./browser.ts";
import { commit, miniCluster, release } from "./fleet.ts";

spec("a push is shown as it is applied, without loading the page again", "admin", async ({ page, own }) => {
  const name = own("pushed");
  await page.evaluate(() => ((window as unknown as { mark: string }).mark = "same page"));
  await commit("add pushed, for the browser", { [`${name}.yaml`]: miniCluster(name, { held: true }) });
  const pushed = row(page, name);
  await pushed.waitFor();
  await says(column(pushed, 1), /^Running/);
  await says(column(pushed, 3), /2\/2/);
  await says(column(pushed, 4), /alpine/);
  await says(column(pushed, 5), /add pushed, for the browser/);
  await release(name, "alpine");
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

spec("what is wanted is compared with what is on members, without what is secret", "admin", async ({ page }) => {
  await commit("add compared", { "compared.yaml": miniCluster("compared", { held: true }) });
  await says(column(row(page, "compared"), 1), /^Running/);
  await page.goto(pageOf("compared", "diff"));
  await says(page.getByRole("tabpanel"), /All \d+ objects are as wanted/);
  expect(await page.getByRole("tabpanel").innerText()).not.toMatch(/secret-key/);
  await release("compared", "alpine");
});
