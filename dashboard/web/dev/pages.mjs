// Pages to show and to check, each in a state of its own: see scripts/shots.mjs. Add those of a view here.

/** @type {{name: string, path: string, env?: Record<string, string>, ready?: string, wait?: number, widths?: number[], themes?: string[], forcedColors?: "active", act?: (page: import("playwright-core").Page) => Promise<unknown>}[]} */
export const pages = [
  { name: "fleet", path: "/", ready: ".fleet-rows .state" },
  { name: "fleet-filtered", path: "/?state=Waiting&state=Failed&q=ns%3Aphysics", ready: ".fleet-rows .state" },
  { name: "fleet-tiles", path: "/?mode=tiles", ready: ".tile", widths: [1920, 360] },
  { name: "fleet-empty", path: "/", env: { MOCK_ROWS: "0" }, ready: ".message" },
  { name: "fleet-none", path: "/?q=nothing-is-called-so", ready: ".message", themes: ["light"] },
  { name: "fleet-error", path: "/", env: { MOCK_ERROR: "1" }, ready: ".message" },
  { name: "fleet-polling", path: "/", env: { MOCK_STREAM: "0" }, ready: ".live.polling", themes: ["light"] },
  { name: "fleet-contrast", path: "/", ready: ".fleet-rows .state", forcedColors: "active", widths: [1440], themes: ["dark"] },
  { name: "fleet-search", path: "/", ready: ".fleet-rows .state", widths: [1440, 360], themes: ["light"], act: async (page) => {
    await page.keyboard.press("/");
    await page.keyboard.type("member:a");
  } },
  { name: "fleet-facet", path: "/", ready: ".fleet-rows .state", widths: [1440, 360], themes: ["light"], act: (page) => page.click("button:has-text('Member')") },
  { name: "fleet-start", path: "/", ready: ".fleet-rows .state", act: (page) => page.click("button:has-text('Start a run')") },
  { name: "shortcuts", path: "/", ready: ".fleet-rows .state", themes: ["light"], widths: [1440], act: (page) => page.keyboard.press("?") },
  { name: "login", path: "/", env: { MOCK_LOGIN: "1" }, ready: "#token" },
  { name: "login-refused", path: "/", env: { MOCK_LOGIN: "1" }, ready: "#token", themes: ["light"], act: async (page) => {
    await page.fill("#token", "wrong");
    await page.keyboard.press("Enter");
    await page.waitForSelector(".login-wrong");
  } },
  { name: "no-such-page", path: "/nowhere", ready: ".message", themes: ["light"] },
];
