import { expect } from "vitest";
import { pageOf, row, says, spec, state } from "./browser.ts";
import { commit, log, miniCluster, release } from "./fleet.ts";

spec("logs of a rank are shown, and followed", "writer", async (visit) => {
  const { page } = visit;
  // So it is answered until the container has started.
  visit.expected.push(/status of 409 .*\/logs/);
  await commit("add talker", { "talker.yaml": miniCluster("talker", { held: true }) });
  await row(page, "talker").waitFor();
  await page.goto(pageOf("talker"));
  await says(state(page), /^Running/);
  await log("alpine", "talker: before it was opened");
  await page.getByRole("tab", { name: "Logs" }).click();
  await page.getByRole("spinbutton", { name: "Rank" }).fill("1");
  await page.keyboard.press("Enter");
  const lines = page.getByRole("region", { name: "Log of rank 1 on alpine" });
  await says(lines, /talker: before it was opened/);
  await says(page.getByRole("status").filter({ hasText: "lines" }), /Following/);
  await log("alpine", "talker: after it was opened");
  await says(lines, /before it was opened[\s\S]*after it was opened/);
  expect(new URL(page.url()).searchParams.get("rank")).toBe("1");
  await page.getByLabel("Search in the log").fill("AFTER IT");
  await says(lines.locator("mark"), /after it/);
  await release("talker", "alpine");
});

spec("logs are a right of their own", "reader", async (visit) => {
  const { page } = visit;
  await commit("add silent", { "silent.yaml": miniCluster("silent", { held: true }) });
  await says(row(page, "silent"), /Running/);
  await log("alpine", "silent: for few eyes");
  await page.goto(pageOf("silent", "logs"));
  await page.getByRole("heading", { name: /You may not see logs/ }).waitFor();
  visit.expected.push(/status of 40[34] .*\/logs/);
  const status = await page.evaluate((path) => fetch(`/api/v1${path}/logs?rank=0`).then((r) => r.status), pageOf("silent"));
  expect([403, 404]).toContain(status);
  expect(visit.received()).not.toContain("for few eyes");
  await release("silent", "alpine");
});
