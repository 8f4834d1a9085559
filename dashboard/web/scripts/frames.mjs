// Measures the Fleet view in Chromium: until rows are shown, and frames under 200 changes a second, standing and scrolling.
import { browser, serve } from "./browser.mjs";

const context = await browser();
const at = (sorted, share) => sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? 0;
try {
  for (const rows of ["2000", "10000"]) {
    const server = await serve({ MOCK_ROWS: rows, MOCK_CHURN: "200" });
    const page = await context.newPage();
    await page.setViewportSize({ width: 1440, height: 900 });
    await page.addInitScript(() => {
      new MutationObserver((_, observer) => {
        if (!document.querySelector(".fleet-rows .state")) return;
        observer.disconnect();
        requestAnimationFrame(() => (window.shownAt = performance.now()));
      }).observe(document, { childList: true, subtree: true });
    });
    const shown = [];
    for (let i = 0; i < 5; i++) {
      await page.goto(server.url);
      await page.waitForFunction(() => window.shownAt);
      shown.push(await page.evaluate(() => window.shownAt));
    }
    console.log(`${rows} rows: shown after ${shown.map((ms) => ms.toFixed(0)).join(", ")} ms`);
    for (const scrolling of [false, true]) {
      const frames = await page.evaluate(async (scroll) => {
        const lengths = [];
        let most = 0;
        let last = performance.now();
        const until = last + 8000;
        await new Promise((done) => {
          const frame = (now) => {
            lengths.push(now - last);
            last = now;
            most = Math.max(most, document.querySelectorAll(".vbody .vrow").length);
            if (scroll) window.scrollBy(0, 180);
            if (now < until) requestAnimationFrame(frame);
            else done();
          };
          requestAnimationFrame(frame);
        });
        return { lengths, most };
      }, scrolling);
      const sorted = frames.lengths.sort((a, b) => a - b);
      console.log(`${rows} rows, 200 changes a second, ${scrolling ? "scrolling" : "standing "}: ${sorted.length} frames, p50 ${at(sorted, 0.5).toFixed(1)} ms, p95 ${at(sorted, 0.95).toFixed(1)} ms, longest ${at(sorted, 1).toFixed(1)} ms; at most ${frames.most} rows in the document`);
    }
    await page.close();
    server.stop();
  }
} finally {
  await context.close();
}
process.exit(0);
