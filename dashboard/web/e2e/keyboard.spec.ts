import { expect } from "vitest";
import type { Page } from "playwright-core";
import { pageOf, says, SOON, spec, state } from "./browser.ts";
import { commit, jobs, miniCluster, settings } from "./fleet.ts";

/** focused is what has the focus, as a screen reader calls it, and whether that can be seen. */
const focused = (page: Page) =>
  page.evaluate(() => {
    const at = document.activeElement as HTMLElement;
    const style = getComputedStyle(at);
    const label = at.getAttribute("aria-label") ?? (at as HTMLInputElement).labels?.[0]?.innerText ?? at.innerText ?? "";
    return { name: label.trim(), role: at.getAttribute("role") ?? at.tagName.toLowerCase(), outlined: style.outlineStyle !== "none" || style.boxShadow !== "none" };
  });

/** tabTo presses Tab until the wanted thing has the focus. All that has it on the way shows that. */
async function tabTo(page: Page, wanted: { name: RegExp; role: string }, key = "Tab"): Promise<void> {
  const visited: string[] = [];
  for (let i = 0; i < 60; i++) {
    await page.keyboard.press(key);
    const at = await focused(page);
    expect(at, "the focus can be seen").toMatchObject({ outlined: true });
    if (at.role === wanted.role && wanted.name.test(at.name)) return;
    visited.push(`${at.role} ${at.name.slice(0, 40)}`);
  }
  throw new Error(`${key} does not come to ${String(wanted.name)}, but to ${visited.join(", ")}`);
}

spec("everything on the way from logging in to one more run is done with keys alone", null, async ({ page }) => {
  await commit("add journey", { "journey.yaml": miniCluster("journey", { seconds: 0 }) });
  const { keyboard } = page;
  await page.goto("/");
  await expect.poll(() => focused(page)).toMatchObject({ name: "Token" });
  await keyboard.insertText(settings.tokens.writer);
  await keyboard.press("Enter");
  await page.getByRole("heading", { name: "Fleet", exact: true }).waitFor();

  // Filter, and open the one row.
  await keyboard.press("/");
  await keyboard.type("journey");
  await expect.poll(() => page.getByRole("grid", { name: "MiniClusters" }).getByRole("link").allInnerTexts(), { timeout: SOON }).toEqual(["journey"]);
  await says(page.getByRole("grid"), /Succeeded/);
  await tabTo(page, { name: /^MiniClusters$/, role: "grid" });
  await keyboard.press("ArrowDown");
  await keyboard.press("Enter");
  await page.waitForURL(`**${pageOf("journey")}`);
  await expect.poll(() => focused(page)).toMatchObject({ name: "journey", role: "h1" });

  // Its tabs are one stop, and arrows go from one to another.
  await tabTo(page, { name: /^Tree/, role: "tab" });
  await keyboard.press("ArrowRight");
  await page.getByRole("tab", { name: "Why", selected: true }).waitFor();
  await keyboard.press("End");
  await page.getByRole("tab", { name: "YAML", selected: true }).waitFor();
  await keyboard.press("Home");

  // The dialog has the focus, keeps it, and gives it back.
  await tabTo(page, { name: /^Run again$/, role: "button" }, "Shift+Tab");
  await keyboard.press("Enter");
  const dialog = page.getByRole("dialog", { name: "Run again: journey" });
  await dialog.getByText(/Checked by the server/).waitFor();
  for (let i = 0; i < 5; i++) {
    await keyboard.press("Tab");
    expect(await page.evaluate(() => document.activeElement === document.body || !!document.activeElement?.closest("dialog"))).toBe(true);
  }
  await keyboard.press("Escape");
  await dialog.waitFor({ state: "detached" });
  expect(await focused(page)).toMatchObject({ name: "Run again" });
  await keyboard.press("Enter");
  await dialog.getByText(/Checked by the server/).waitFor();
  await tabTo(page, { name: /^Run again$/, role: "button" });
  await keyboard.press("Enter");
  await dialog.waitFor({ state: "detached" });
  await expect.poll(() => jobs("journey"), { timeout: SOON }).toBe(2);
  await says(state(page), /^Succeeded/);

  // Back to the list as it was, and out.
  await tabTo(page, { name: /^Fleet$/, role: "a" }, "Shift+Tab");
  await keyboard.press("Enter");
  await page.getByRole("heading", { name: "Fleet", exact: true }).waitFor();
  await keyboard.press("?");
  await page.getByRole("dialog", { name: "Keyboard shortcuts" }).waitFor();
  await keyboard.press("Escape");
  await tabTo(page, { name: /^Log out$/, role: "button" }, "Shift+Tab");
  await keyboard.press("Enter");
  await expect.poll(() => focused(page)).toMatchObject({ name: "Token" });
});

spec("the tree is walked with arrows", "writer", async ({ page }) => {
  await commit("add walked", { "walked.yaml": miniCluster("walked", { seconds: 0 }) });
  await page.goto(pageOf("walked"));
  await says(state(page), /^Succeeded/);
  await tabTo(page, { name: /^Commit/, role: "treeitem" });
  const down = async (name: RegExp) => {
    for (let i = 0; i < 20; i++) {
      if (name.test((await focused(page)).name)) return;
      await page.keyboard.press("ArrowDown");
    }
    throw new Error(`the arrow does not come to ${String(name)}, but ends at ${(await focused(page)).name}`);
  };
  await down(/rank\s+1/);
  await page.keyboard.press("ArrowLeft");
  expect(await focused(page)).toMatchObject({ name: expect.stringMatching(/^Job/) as string });
  await page.keyboard.press("ArrowLeft");
  await page.getByRole("treeitem", { name: /^Job/, expanded: false }).waitFor();
  expect(await page.getByRole("treeitem", { name: /rank/ }).count()).toBe(0);
  await page.keyboard.press("ArrowRight");
  await page.getByRole("treeitem", { name: /rank/ }).first().waitFor();
});

spec("the skip link goes past the navigation", "writer", async ({ page }) => {
  await page.getByRole("heading", { name: "Fleet", exact: true }).waitFor();
  await page.keyboard.press("Tab");
  expect(await focused(page)).toMatchObject({ name: "Skip to content" });
  await page.keyboard.press("Enter");
  expect(await page.evaluate(() => document.activeElement?.id)).toBe("main");
});
