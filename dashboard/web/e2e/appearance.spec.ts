// What is shown in light and dark, wide and narrow: a MiniCluster, dialogs, and views that are empty or in error. Pictures are
// kept in shots/e2e.
import { expect } from "vitest";
import { column, enter, examine, pageOf, row, says, shown, spec, state, views } from "./browser.ts";
import { commit, kubectl, log, miniCluster, release, settings } from "./fleet.ts";

spec("the page of a MiniCluster is available to all", "admin", async (visit) => {
  const { page } = visit;
  await commit("add examined", { "examined.yaml": miniCluster("examined", { held: true }) });
  await says(column(row(page, "examined"), 1), /^Running/);
  await log("alpine", ...Array.from({ length: 200 }, (_, i) => `Step ${i} Temp ${300 + i} E_pair -1${i}.25`));
  for (const tab of ["tree", "runs", "logs", "events", "diff", "yaml"]) {
    await shown(page, pageOf("examined", tab));
    await says(state(page), /^Running/);
    await examine(visit, `minicluster-${tab}`);
  }
  await page.getByRole("group", { name: "Actions on examined" }).getByRole("button", { name: "Cancel" }).click();
  await page.getByText(/Checked by the server/).waitFor();
  await examine(visit, "minicluster-cancel");
  await page.keyboard.press("Escape");
  await release("examined", "alpine");
}, { timeout: 240_000 });

spec("dialogs are available to all", "admin", async (visit) => {
  const { page } = visit;
  await page.getByRole("button", { name: "Start a run" }).click();
  await page.getByRole("dialog", { name: "Start a run" }).waitFor();
  await examine(visit, "start");
  await page.keyboard.press("Escape");
  await page.keyboard.press("?");
  await page.getByRole("dialog", { name: "Keyboard shortcuts" }).waitFor();
  await examine(visit, "shortcuts");
  await page.keyboard.press("Escape");
  await page.setViewportSize({ width: 360, height: 740 });
  await page.getByRole("button", { name: "Menu" }).click();
  await page.getByRole("dialog", { name: "Menu" }).waitFor();
  await examine(visit, "menu");
}, { timeout: 240_000 });

spec("logging in is available to all", null, async (visit) => {
  const { page } = visit;
  visit.expected.push(/status of 401/);
  await page.goto("/");
  await page.getByLabel("Token").waitFor();
  await examine(visit, "login");
  await enter(visit, "not.a.token");
  await page.getByRole("alert").waitFor();
  await examine(visit, "login-refused");
});

spec("views are available to all when there is nothing to show", null, async (visit) => {
  const { page } = visit;
  const empty = `${settings.namespace}-empty`;
  await kubectl(["create", "namespace", empty]);
  await kubectl(["create", "serviceaccount", "newcomer"]);
  await kubectl(["create", "rolebinding", "newcomer", "-n", empty, "--clusterrole=minifleet-viewer", `--serviceaccount=${settings.namespace}:newcomer`]);
  const token = (await kubectl(["create", "token", "newcomer"])).trim();
  await page.goto("/");
  await enter(visit, token);
  visit.expected.push(/status of 40[34]/);
  await page.getByRole("navigation", { name: "Views" }).waitFor();
  for (const [name, path] of Object.entries(await views(page))) {
    await shown(page, path);
    await examine(visit, `${name}-empty`);
    expect(visit.received(), path).not.toContain(`${settings.namespace}/`);
  }
  await shown(page, pageOf("nothing"));
  await examine(visit, "minicluster-absent");
  await shown(page, "/nowhere");
  await examine(visit, "no-such-page");
}, { timeout: 240_000 });

spec("views are available to all when the server fails", "admin", async (visit) => {
  const { page } = visit;
  const all = await views(page);
  visit.expected.push(/status of 500/);
  await page.route(/\/api\/v1\/(miniclusters|grid|timeline|queue|members|sources)/, (route) => route.fulfill({
    status: 500, contentType: "application/problem+json", body: JSON.stringify({ title: "Internal Server Error", status: 500, detail: "The cache of the hub is not there." }),
  }));
  for (const [name, path] of [...Object.entries(all), ["minicluster", pageOf("any")] as const]) {
    await shown(page, path);
    await page.getByRole("alert").getByText("The cache of the hub is not there.").first().waitFor();
    await examine(visit, `${name}-error`);
  }
}, { timeout: 240_000 });
