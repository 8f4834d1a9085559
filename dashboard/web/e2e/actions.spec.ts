import { expect } from "vitest";
import type { Page } from "playwright-core";
import { column, pageOf, row, says, SOON, spec, state } from "./browser.ts";
import { commit, jobs, kubectl, miniCluster, release, settings } from "./fleet.ts";

const action = (page: Page, on: string, name: string) => page.getByRole("group", { name: `Actions on ${on}` }).getByRole("button", { name, exact: true });

/** ask for an action as far as its dialog, which says what it does before it does it. */
async function ask(page: Page, on: string, name: string) {
  await action(page, on, name).click();
  const dialog = page.getByRole("dialog", { name: `${name}: ${on}` });
  await dialog.getByText(/Checked by the server/).waitFor();
  return dialog;
}

spec("run again, pressed twice, makes one more run", "writer", async ({ page }) => {
  await commit("add repeated", { "repeated.yaml": miniCluster("repeated", { seconds: 0 }) });
  await says(column(row(page, "repeated"), 1), /^Succeeded/);
  await page.goto(pageOf("repeated", "runs"));
  const dialog = await ask(page, "repeated", "Run again");
  await dialog.getByRole("button", { name: "Run again" }).dblclick();
  await page.getByRole("log", { name: "Messages" }).getByText(/^repeated: /).waitFor();
  await dialog.waitFor({ state: "detached" });
  const runs = page.getByRole("list", { name: "Runs, latest first" }).locator("> li");
  await expect.poll(() => runs.allInnerTexts(), { timeout: SOON }).toEqual([expect.stringMatching(/^Succeeded/), expect.stringMatching(/^Succeeded/)]);
  await says(state(page), /^Succeeded/);
  expect(await jobs("repeated")).toBe(2);
});

spec("a run is started from the page, and followed to its end", "writer", async ({ page }) => {
  await page.getByRole("button", { name: "Start a run" }).click();
  const dialog = page.getByRole("dialog", { name: "Start a run" });
  await dialog.getByRole("textbox", { name: /^Namespace/ }).fill(settings.namespace);
  await dialog.getByRole("textbox", { name: /^Name / }).fill("started");
  await dialog.getByRole("textbox", { name: /^Image/ }).fill("example.org/lammps:latest");
  await dialog.getByRole("textbox", { name: /^Placement/ }).fill("north");
  await dialog.getByRole("button", { name: "Check" }).click();
  await dialog.getByText(new RegExp(`Creates ${settings.namespace}/started: 2 pods`)).waitFor();
  expect(await kubectl(["get", "fmc", "--ignore-not-found", "started"])).toBe("");
  await dialog.getByRole("button", { name: "Start it" }).dblclick();
  await page.waitForURL(`**${pageOf("started")}`);
  await says(state(page), /^Succeeded/);
  expect(await jobs("started")).toBe(1);
});

spec("what cannot be started is refused with the reason", "writer", async (visit) => {
  const { page } = visit;
  visit.expected.push(/status of 4\d\d .*\/api\/v1\/miniclusters/);
  await page.getByRole("button", { name: "Start a run" }).click();
  const dialog = page.getByRole("dialog", { name: "Start a run" });
  await dialog.getByRole("textbox", { name: /^Namespace/ }).fill(settings.hidden);
  await dialog.getByRole("textbox", { name: /^Image/ }).fill("example.org/lammps:latest");
  await dialog.getByRole("button", { name: "Check" }).click();
  await dialog.getByRole("alert").waitFor();
  await page.keyboard.press("Escape");
  await dialog.waitFor({ state: "detached" });
});

spec("a run is cancelled", "writer", async ({ page, own }) => {
  const name = own("cancelled");
  await commit("add cancelled", { [`${name}.yaml`]: miniCluster(name, { held: true }) });
  await says(column(row(page, name), 1), /^Running/);
  await page.goto(pageOf(name));
  const dialog = await ask(page, name, "Cancel");
  expect(await dialog.getByRole("checkbox", { checked: true }).count()).toBe(1);
  await dialog.getByRole("button", { name: "Cancel", exact: true }).click();
  await says(state(page), /^Cancelled/);
  expect(await jobs(name)).toBe(1);
});

spec("a MiniCluster is held, which Git does not undo, and resumed", "writer", async ({ page, own }) => {
  const name = own("paused");
  await commit("add paused", { [`${name}.yaml`]: miniCluster(name, { held: true }) });
  await says(column(row(page, name), 1), /^Running/);
  await page.goto(pageOf(name));
  await (await ask(page, name, "Hold")).getByRole("button", { name: "Hold", exact: true }).click();
  await says(state(page), /^Suspended/);
  await commit("a commit that says nothing of it", { "other.md": "text\n" });
  await says(page.getByRole("main"), /Suspended/);
  await (await ask(page, name, "Resume")).getByRole("button", { name: "Resume", exact: true }).click();
  await says(state(page), /^Running/);
  await release(name, "alpine");
  await says(state(page), /^Succeeded/);
});

spec("doing nothing does nothing", "writer", async ({ page }) => {
  await commit("add untouched", { "untouched.yaml": miniCluster("untouched", { seconds: 0 }) });
  await says(column(row(page, "untouched"), 1), /^Succeeded/);
  await page.goto(pageOf("untouched"));
  const dialog = await ask(page, "untouched", "Run again");
  await dialog.getByRole("button", { name: "Do nothing" }).click();
  await dialog.waitFor({ state: "detached" });
  expect(await kubectl(["get", "fmc", "untouched", "-o", "jsonpath={.metadata.annotations}"])).not.toContain("rerun-at");
  expect(await action(page, "untouched", "Run again").evaluate((b) => b === document.activeElement)).toBe(true);
});
