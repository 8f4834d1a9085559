import { expect } from "vitest";
import { column, examine, pageOf, row, says, spec } from "./browser.ts";
import { commit, member, miniCluster, release } from "./fleet.ts";

spec("of a member that hangs nothing stale is shown as if it were new, and all else is answered", "admin", async (visit) => {
  const { page } = visit;
  const name = visit.own("hung");
  await commit("add hung", { [`${name}.yaml`]: miniCluster(name, { on: "south", held: true }) });
  const hung = row(page, name);
  await says(column(hung, 1), /^Running/);
  await member("cinder", "pause");
  try {
    await says(page.getByRole("status").filter({ hasText: "No news" }), /No news from cinder for \d+ (s|min)/);
    await says(column(hung, 1), /^Unknown\s+· \d+ s/);
    await page.goto("/members");
    await page.locator("main h1").waitFor();
    await page.goto(pageOf(name));
    await says(page.locator(".cluster-stale"), /No news for \d+ s/);
    const tree = page.getByRole("tree");
    await says(tree.getByRole("treeitem", { name: /cinder/ }).first(), /Unknown[\s\S]*\d+ s/);
    expect(await tree.locator("li", { has: page.getByRole("treeitem", { name: /^cinder/ }) }).last().locator(".ok, .run").count(), "fresh colours on what is stale").toBe(0);

    const slow = await page.evaluate(async (path) => {
      const paths = ["/summary", "/miniclusters", "/grid", "/timeline", "/queue", "/members", "/members/cinder", "/sources", path, ...["/tree", "/events", "/why", "/diff", "/manifest"].map((p) => path + p), `${path}/logs?member=cinder`];
      const took = await Promise.all(paths.map(async (p) => {
        const began = performance.now();
        const response = await fetch(`/api/v1${p}`);
        if (!p.includes("/logs")) await response.text();
        return { path: p, ms: performance.now() - began };
      }));
      return took.filter((t) => t.ms > 2_000);
    }, pageOf(name));
    expect(slow, "slower than a second, and one more for a busy machine").toEqual([]);
    visit.expected.push(/\/api\/v1\//);
    await examine(visit, "minicluster-stale");
    await page.goto("/");
    await page.getByRole("status").filter({ hasText: "No news" }).waitFor();
    await examine(visit, "fleet-stale");
  } finally {
    await member("cinder", "resume");
  }
  await says(column(hung, 1), /^Running/);
  await page.getByRole("status").filter({ hasText: "No news" }).waitFor({ state: "detached" });
  await release(name, "basalt");
  await release(name, "cinder");
  await says(column(hung, 1), /^Succeeded/);
}, { timeout: 120_000 });
