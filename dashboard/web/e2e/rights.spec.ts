import { expect } from "vitest";
import { column, pageOf, row, says, shown, spec, views } from "./browser.ts";
import { commit, miniCluster, people, release, settings } from "./fleet.ts";

const { namespace, hidden } = settings;

spec("who may see one namespace hears nothing of another", "reader", async (visit) => {
  const { page, received } = visit;
  const open = visit.own("open");
  await Promise.all([
    commit("add open", { [`${open}.yaml`]: miniCluster(open, { held: true }) }),
    commit("nobody else may know", { "classified.yaml": miniCluster("classified", { held: true }) }, hidden),
  ]);
  await says(column(row(page, open), 1), /^Running/);
  for (const path of Object.values(await views(page))) await shown(page, path);
  visit.expected.push(/status of 404 /);
  await page.goto("/?namespace=" + hidden);
  await page.getByRole("heading", { name: "No MiniCluster matches" }).waitFor();
  await page.goto("/?q=classified");
  await page.getByRole("heading", { name: "No MiniCluster matches" }).waitFor();
  // What is hidden and what is not there are shown alike.
  await page.goto(pageOf("classified", "", hidden));
  const message = page.getByRole("main").getByRole("alert");
  const said = await message.innerText();
  await page.goto(pageOf("classified", "", "no-such-namespace"));
  expect(await message.innerText()).toBe(said);

  await page.goto(pageOf(open));
  const actions = page.getByRole("group", { name: `Actions on ${open}` }).getByRole("button");
  await page.getByText("No actions: You may not change").or(actions).first().waitFor();
  expect(await actions.evaluateAll((all) => all.filter((b) => b.getAttribute("aria-disabled") !== "true").map((b) => b.textContent))).toEqual([]);
  await release(open, "alpine");
  await says(page.locator(".cluster-head .state"), /^Succeeded/);
  // The names that were asked for come back in refusals at most.
  const heard = received().split("\n").filter((line) => !line.includes("no-such-namespace"));
  const leaked = heard.filter((line) => /classified|nobody else may know/.test(line) || line.includes(`"${hidden}"`) || line.includes(`${hidden}/`));
  visit.problems.push(...leaked.map((line) => `heard ${line.slice(0, 200)}`));
  expect(leaked).toEqual([]);
  expect(heard.some((line) => line.includes(namespace))).toBe(true);
});

spec("who may see nothing is told so", "nobody", async (visit) => {
  const { page, received } = visit;
  visit.expected.push(/status of 40[34] /);
  await page.getByRole("heading", { name: /may not see|Nothing runs/ }).waitFor();
  expect(received()).not.toContain(`${namespace}/`);
  expect(received()).not.toContain(hidden);
});

spec("what is shown is taken away with the right to see it", "guest", async (visit) => {
  const { page } = visit;
  await commit("add borrowed", { "borrowed.yaml": miniCluster("borrowed", { seconds: 0 }) });
  await says(column(row(page, "borrowed"), 1), /^Succeeded/);
  visit.expected.push(/status of 40[34] /, /api\/v1\/stream/);
  await people("guest", false);
  const since = Date.now();
  await row(page, "borrowed").waitFor({ state: "detached", timeout: 40_000 });
  expect(Date.now() - since, "milliseconds").toBeLessThan(30_000);
  expect(await page.getByRole("main").innerText()).not.toContain("borrowed");
  await people("guest", true);
}, { timeout: 90_000 });
