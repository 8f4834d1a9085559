import { expect } from "vitest";
import { column, enter, examine, pageOf, row, says, spec, state } from "./browser.ts";
import { commit, controller, miniCluster, release, settings } from "./fleet.ts";

spec("while the server is down the page says how old it is, and lives again without being loaded anew", "admin", async (visit) => {
  const { page } = visit;
  const name = visit.own("surviving");
  await commit("add surviving", { [`${name}.yaml`]: miniCluster(name, { held: true }) });
  await says(column(row(page, name), 1), /^Running/);
  await row(page, name).getByRole("link", { name, exact: true }).click();
  await says(state(page), /^Running/);
  await page.evaluate(() => ((window as unknown as { mark: string }).mark = "same page"));
  visit.expected.push(/ERR_|status of 401/);
  await controller("stop");
  try {
    await says(page.getByRole("alert").filter({ hasText: "Disconnected" }), /Everything shown is from .*\d+ s ago/);
    await page.getByRole("tree").waitFor();
    await examine(visit, "minicluster-disconnected");
    await page.getByRole("navigation", { name: "Views" }).getByRole("link", { name: /^Fleet/ }).click();
    await page.getByRole("heading", { name: "Fleet", exact: true }).waitFor();
    await page.getByRole("alert").filter({ hasText: "Disconnected" }).waitFor();
    await examine(visit, "fleet-disconnected");
    await page.goBack();
  } finally {
    await controller("start");
  }
  // Sessions are in the server's memory, so it asks who this is, and comes back to where one was.
  await page.getByLabel("Token").waitFor({ timeout: 60_000 });
  await enter(visit, settings.tokens.admin);
  await says(state(page), /^Running/);
  expect(new URL(page.url()).pathname).toBe(pageOf(name));
  expect(await page.evaluate(() => (window as unknown as { mark?: string }).mark)).toBe("same page");
  await page.getByRole("alert").filter({ hasText: "Disconnected" }).waitFor({ state: "detached" });
  await release(name, "alpine");
  await says(state(page), /^Succeeded/);
}, { timeout: 150_000 });
