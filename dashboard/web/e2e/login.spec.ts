import { expect } from "vitest";
import { enter, spec } from "./browser.ts";
import { settings } from "./fleet.ts";

spec("a wrong token is refused, a right one is not, and the page asked for is shown then", null, async (visit) => {
  const { page, context } = visit;
  visit.expected.push(/status of 401 .*\/api\/v1\/login/);
  await page.goto("/?q=nothing-is-called-so");
  await enter(visit, "not.a.token");
  await page.getByRole("alert").getByText("The hub does not know this token").waitFor();
  expect(await context.cookies()).toEqual([]);
  await enter(visit, settings.tokens.reader);
  await page.getByRole("heading", { name: "No MiniCluster matches" }).waitFor();
  expect(new URL(page.url()).search).toBe("?q=nothing-is-called-so");

  const [cookie, ...others] = await context.cookies();
  expect(others).toEqual([]);
  expect(cookie).toMatchObject({ httpOnly: true, secure: true, sameSite: "Strict", path: "/" });
  expect(cookie?.name).toMatch(/^__Host-/);
  expect(cookie?.value).not.toContain(settings.tokens.reader.slice(0, 20));
  expect(await page.evaluate(() => document.cookie + JSON.stringify(localStorage) + JSON.stringify(sessionStorage))).not.toContain(cookie?.value);
});

spec("logging out ends the session on the server", null, async (visit) => {
  const { page, context } = visit;
  await page.goto("/");
  await enter(visit, settings.tokens.reader);
  await page.getByRole("heading", { name: "Fleet", exact: true }).waitFor();
  const [cookie] = await context.cookies();
  const replay = () => fetch(`${settings.url}/api/v1/summary`, { headers: { Cookie: `${cookie?.name}=${cookie?.value}` } }).then((r) => r.status);
  expect(await replay()).toBe(200);
  await page.getByRole("button", { name: "Log out" }).click();
  await page.getByLabel("Token").waitFor();
  expect(await replay()).toBe(401);
  expect(await context.cookies()).toEqual([]);
  await page.goBack().catch(() => null);
  await page.goto("/");
  await page.getByLabel("Token").waitFor();
});

spec("code that the server does not have any more is said to be missing", "writer", async (visit) => {
  const { page } = visit;
  visit.expected.push(/status of 404 .*\/assets\//);
  await page.route("**/assets/**", (route) => route.fulfill({ status: 404 }));
  await page.getByRole("button", { name: "Start a run" }).click();
  await page.getByRole("heading", { name: "This part of the page could not be loaded" }).waitFor();
  await page.unroute("**/assets/**");
  await page.getByRole("button", { name: "Load the page again" }).click();
  await page.getByRole("button", { name: "Start a run" }).click();
  await page.getByRole("dialog", { name: "Start a run" }).waitFor();
});
