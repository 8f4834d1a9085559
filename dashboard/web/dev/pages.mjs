// Pages to show and to check, each in a state of its own: see scripts/shots.mjs. Add those of a view here.

const failed = "/miniclusters/bench/lammps-reaxff-0398";
const running = "/miniclusters/climate/parameter-sweep-1567";
const unknown = "/miniclusters/teaching/lammps-reaxff-0312";
const hostile = `/miniclusters/physics/${"a".repeat(58)}`;

/** @type {{name: string, path: string, env?: Record<string, string>, ready?: string, wait?: number, widths?: number[], themes?: string[], forcedColors?: "active", act?: (page: import("playwright-core").Page) => Promise<unknown>}[]} */
export const pages = [
  { name: "fleet", path: "/", ready: ".fleet-rows .state" },
  { name: "fleet-filtered", path: "/?state=Waiting&state=Failed&q=ns%3Aphysics", ready: ".fleet-rows .state" },
  { name: "fleet-tiles", path: "/?mode=tiles", ready: ".tile", widths: [1920, 360] },
  { name: "fleet-empty", path: "/", env: { MOCK_ROWS: "0" }, ready: ".message" },
  { name: "fleet-none", path: "/?q=nothing-is-called-so", ready: ".message", themes: ["light"] },
  { name: "fleet-error", path: "/", env: { MOCK_ERROR: "1" }, ready: ".message" },
  { name: "fleet-polling", path: "/", env: { MOCK_STREAM: "0" }, ready: ".nav-foot .is-polling", themes: ["light"], widths: [1440] },
  { name: "fleet-disconnected", path: "/", ready: ".fleet-rows .state", act: async (page) => {
    await page.context().setOffline(true);
    await page.evaluate(() => {
      const real = Date.now;
      Date.now = () => real() + 95_000;
    });
    await page.waitForSelector(".disconnected.banner");
    await page.context().setOffline(false);
  } },
  { name: "fleet-contrast", path: "/", ready: ".fleet-rows .state", forcedColors: "active", widths: [1440], themes: ["dark"] },
  { name: "fleet-search", path: "/", ready: ".fleet-rows .state", widths: [1440, 360], themes: ["light"], act: async (page) => {
    await page.keyboard.press("/");
    await page.keyboard.type("member:a");
  } },
  { name: "fleet-facet", path: "/", ready: ".fleet-rows .state", widths: [1440, 360], themes: ["light"], act: (page) => page.click("button:has-text('Member')") },
  { name: "fleet-start", path: "/", ready: ".fleet-rows .state", act: (page) => page.click("button:has-text('Start a run')") },
  { name: "shortcuts", path: "/", ready: ".fleet-rows .state", themes: ["light"], widths: [1440], act: (page) => page.keyboard.press("?") },
  { name: "menu", path: "/", ready: ".fleet-rows .state", themes: ["light"], widths: [360], act: (page) => page.click(".nav-more") },
  { name: "login", path: "/", env: { MOCK_LOGIN: "1" }, ready: "#token" },
  { name: "login-refused", path: "/", env: { MOCK_LOGIN: "1" }, ready: "#token", themes: ["light"], act: async (page) => {
    await page.fill("#token", "wrong");
    await page.keyboard.press("Enter");
    await page.waitForSelector(".login-wrong");
  } },
  { name: "cluster-tree", path: failed, ready: ".tree .state" },
  { name: "cluster-tree-running", path: running, ready: ".tree .state", themes: ["light"] },
  { name: "cluster-tree-waiting", path: "/miniclusters/bench/lammps-reaxff-1535", ready: ".tree .state", themes: ["light"] },
  { name: "cluster-tree-unknown", path: unknown, ready: ".tree .state" },
  { name: "cluster-tree-hostile", path: hostile, ready: ".tree .state", themes: ["light"] },
  { name: "cluster-runs", path: `${failed}?tab=runs`, ready: ".runs", act: (page) => page.click(".run-end summary") },
  { name: "cluster-runs-running", path: `${running}?tab=runs`, ready: ".runs", themes: ["light"] },
  { name: "cluster-logs", path: `${running}?tab=logs`, ready: ".log-line" },
  { name: "cluster-logs-search", path: `${running}?tab=logs&rank=2`, ready: ".log-line", widths: [1440], act: async (page) => {
    await page.keyboard.press("/");
    await page.keyboard.type("error");
    await page.keyboard.press("Enter");
  } },
  { name: "cluster-logs-forbidden", path: "/miniclusters/teaching/laghos-1884?tab=logs", ready: ".message", themes: ["light"] },
  { name: "cluster-events", path: `${running}?tab=events`, ready: ".events", themes: ["light"] },
  { name: "cluster-diff", path: `${running}?tab=diff`, ready: ".diff" },
  { name: "cluster-yaml", path: `${running}?tab=yaml`, ready: ".yaml" },
  { name: "cluster-cancel", path: running, ready: ".tree .state", act: async (page) => {
    await page.click(".actions button:has-text('Cancel')");
    await page.waitForSelector(".checked");
  } },
  { name: "cluster-gone", path: "/miniclusters/genomics/nekrs-turb-0616", ready: ".tree .state", act: async (page) => {
    await page.click(".actions button:has-text('Declare gone')");
    await page.waitForSelector(".checked");
  } },
  { name: "cluster-refused", path: unknown, ready: ".tree .state", themes: ["light"], act: async (page) => {
    await page.click(".actions button:has-text('Run again')");
    await page.waitForSelector("dialog .banner");
  } },
  { name: "cluster-absent", path: "/miniclusters/physics/nothing", ready: ".message", themes: ["light"] },
  { name: "cluster-contrast", path: failed, ready: ".tree .state", forcedColors: "active", widths: [1440], themes: ["dark"] },
  { name: "grid", path: "/grid", ready: ".cell" },
  { name: "grid-commits", path: "/grid?by=commits&member=alpine&member=basalt&member=cinder&member=ember&runs=20", ready: ".cell", themes: ["light"] },
  { name: "grid-runs", path: "/grid?by=runs&member=alpine&member=basalt&member=cinder&member=flint", ready: ".cell", themes: ["dark"], widths: [1440, 768] },
  { name: "grid-keys", path: "/grid?q=ns%3Aphysics", ready: ".cell", act: async (page) => {
    await page.focus(".matrix");
    await page.keyboard.press("ArrowDown");
    await page.keyboard.press("Control+ArrowRight");
  } },
  { name: "grid-small", path: "/grid", ready: ".cell", env: { MOCK_ROWS: "9", MOCK_MEMBERS: "4" } },
  { name: "grid-empty", path: "/grid", env: { MOCK_ROWS: "0" }, ready: ".message", themes: ["light"] },
  { name: "grid-none", path: "/grid?q=nothing-is-called-so", ready: ".message", themes: ["light"], widths: [1440] },
  { name: "grid-error", path: "/grid", env: { MOCK_ERROR: "1" }, ready: ".message", themes: ["light"], widths: [1440] },
  { name: "grid-contrast", path: "/grid", ready: ".cell", forcedColors: "active", widths: [1440], themes: ["dark"] },
  { name: "timeline", path: "/timeline", ready: ".timeline-link, .bars .vbody .vrow", wait: 500 },
  { name: "timeline-chart", path: "/timeline?as=chart&member=alpine&member=cinder&member=basalt", ready: ".timeline-link", widths: [1440, 360], themes: ["light"], wait: 500 },
  { name: "timeline-small", path: "/timeline?span=18000", ready: ".timeline-link, .bars .vbody .vrow", env: { MOCK_ROWS: "40", MOCK_MEMBERS: "6" }, wait: 500, widths: [1440] },
  { name: "timeline-keys", path: "/timeline", ready: ".timeline-link", widths: [1440], themes: ["dark"], wait: 500, act: async (page) => {
    await page.focus(".timeline-link");
    for (const key of ["ArrowDown", "ArrowLeft", "+"]) await page.keyboard.press(key);
  } },
  { name: "timeline-table", path: "/timeline?as=table", ready: ".bars .vbody .vrow", themes: ["light"], widths: [1440, 768] },
  { name: "timeline-empty", path: "/timeline", env: { MOCK_ROWS: "0" }, ready: ".message", themes: ["light"], widths: [1440, 360] },
  { name: "timeline-error", path: "/timeline", env: { MOCK_ERROR: "1" }, ready: ".message", themes: ["light"], widths: [1440] },
  { name: "queue", path: "/queue", ready: ".queue-row" },
  { name: "queue-miniclusters", path: "/queue?by=minicluster", ready: ".queue-where", themes: ["light"] },
  { name: "queue-empty", path: "/queue", env: { MOCK_ROWS: "0" }, ready: ".message", themes: ["light"], widths: [1440, 360] },
  { name: "queue-error", path: "/queue", env: { MOCK_ERROR: "1" }, ready: ".message", themes: ["light"], widths: [1440] },
  { name: "why", path: "/miniclusters/bench/lammps-reaxff-1535?tab=why", ready: ".gang-node" },
  { name: "why-gpus", path: "/miniclusters/climate/osu-allreduce-0151?tab=why", ready: ".why", themes: ["light"], widths: [1440] },
  { name: "why-running", path: `${running}?tab=why`, ready: ".why", themes: ["light"] },
  { name: "members", path: "/members", ready: ".members td" },
  { name: "members-none", path: "/members?q=nothing-is-called-so", ready: ".message", themes: ["light"], widths: [1440] },
  { name: "members-error", path: "/members", env: { MOCK_ERROR: "1" }, ready: ".message", themes: ["light"], widths: [1440] },
  { name: "member", path: "/members/alpine", ready: ".heat-active", act: async (page) => {
    await page.focus(".heat");
    for (let i = 0; i < 9; i++) await page.keyboard.press("ArrowRight");
  } },
  { name: "member-silent", path: "/members/cinder", ready: ".banner.unk", themes: ["light"] },
  { name: "member-unowned", path: "/members/nephrite", ready: ".left-over", themes: ["light"] },
  { name: "member-nodes", path: "/members/alpine?nodes=table&order=full", ready: ".node-table .vbody .vrow", themes: ["light"] },
  { name: "member-absent", path: "/members/nowhere", ready: ".message", themes: ["light"], widths: [1440] },
  { name: "member-drain", path: "/members/basalt", ready: ".heat-active", themes: ["light"], act: (page) => page.click(".actions button:has-text('Drain')") },
  { name: "sources", path: "/sources", ready: ".sources td" },
  { name: "sources-error", path: "/sources", env: { MOCK_ERROR: "1" }, ready: ".message", themes: ["light"], widths: [1440] },
  { name: "source", path: "/sources/bench/nightly", ready: ".came" },
  { name: "source-fine", path: "/sources/physics/fleet", ready: ".came", themes: ["light"] },
  { name: "source-dry-run", path: "/sources/teaching/course", ready: ".planned" },
  { name: "source-approve", path: "/sources/bench/nightly", ready: ".came", themes: ["light"], widths: [1440, 360], act: async (page) => {
    await page.click(".actions button:has-text('Approve prune')");
    await page.waitForSelector(".checked");
  } },
  { name: "no-such-page", path: "/nowhere", ready: ".message", themes: ["light"] },
];
