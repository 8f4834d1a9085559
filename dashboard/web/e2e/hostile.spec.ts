import { expect } from "vitest";
import { column, pageOf, row, says, shown, spec, widerThanScreen } from "./browser.ts";
import { commit, log, miniCluster, release, settings } from "./fleet.ts";

const markup = `<img src=/owned onerror="document.title='owned'"><script>document.title='owned'</script>"'><b>`;
const direction = "\u202Emoc.live//:sptth\u202C\u2066";
const escapes = "\u001B[31mred\u001B]0;owned\u0007\u001B[2J\u0000\u0008";
const long = "w".repeat(500);
/** The longest name that a MiniCluster may have, without a place to break it. */
const name = "h".repeat(46) + "x";

spec("hostile text is text, and breaks no line at 360 px", "admin", async (visit) => {
  const { page, received } = visit;
  visit.expected.push(/status of 40[34] .*\/(events|members|sources)/);
  // Messages of commits bear no NUL.
  await commit(`${markup}${direction}${escapes.replace("\u0000", "")} ${long}`, {
    "hostile.yaml": miniCluster(name, { held: true, command: `echo ${markup} ${direction} ${long}` }),
  });
  // Where a file is wrong nothing is removed, so it is not beside what other specs remove.
  await commit(`${markup}${direction}`, {
    [`${"d".repeat(60)}/<img src=x onerror=alert(1)>.yaml`]: `kind: MiniCluster\nmetadata: {name: "${markup.replaceAll('"', "'")}"}\nspec: {size: "${long}"}\n`,
  }, settings.hidden);
  await says(column(row(page, name), 1), /^Running/);
  await page.goto(pageOf(name));
  await says(page.locator(".cluster-commit"), /<img src=\/owned/);
  await log("alpine", markup, direction, escapes, long);

  for (const path of ["/", "/?mode=tiles", ...["", "runs", "logs", "events", "diff", "yaml"].map((tab) => pageOf(name, tab)), "/grid", "/timeline", "/queue", "/members", "/sources", `/sources/${settings.hidden}/${settings.hidden}`]) {
    await shown(page, path);
    expect(await widerThanScreen(page), path).toBe("");
    expect(await page.locator("img, #app script, iframe").count(), path).toBe(0);
    expect(await page.title(), path).not.toBe("owned");
    // Marks of direction and codes that steer terminals are in no text that is shown.
    expect(await page.locator("body").innerText(), path).not.toMatch(/[\u0000-\u0008\u000B-\u001F\u007F-\u009F\u202A-\u202E\u2066-\u2069]/);
  }
  await page.goto(pageOf(name, "logs"));
  await says(page.getByRole("region", { name: /^Log of/ }), /<img src=\/owned[\s\S]*red/);
  expect(received()).not.toContain("\u001B");
  await release(name, "alpine");
}, { width: 360, timeout: 150_000 });
