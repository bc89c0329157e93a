/*
 * Writes a picture of every screen at each width in each theme, and says what axe-core finds:
 * `node test/dashboard/screenshots.ts [--folder f] [--width 390 …] [--theme dark …] [beginning of a name …]`.
 */

import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { openFurnishedWeek } from "./furnished-week.ts";
import { lookAt, summaryOf, THEMES_SEEN, WIDTHS_SEEN } from "./look-at.ts";
import { VIEWS } from "./views.ts";

/** Greatest height of a picture, pixels. */
const MAX_HEIGHT = 3_000;

const { values, positionals: names } = parseArgs({
  allowPositionals: true,
  options: {
    folder: { type: "string" },
    width: { type: "string", multiple: true },
    theme: { type: "string", multiple: true },
  },
});
const folder = values.folder ?? join(import.meta.dirname, "..", "..", ".generated", "screenshots", "views");
const widths = values.width?.map(Number) ?? WIDTHS_SEEN;
const themes = THEMES_SEEN.filter((theme) => values.theme?.includes(theme) ?? true);
const views = names.length === 0 ? VIEWS : VIEWS.filter(({ name }) => names.some((each) => name.startsWith(each)));
await mkdir(folder, { recursive: true });
const week = await openFurnishedWeek();
try {
  const looked = await lookAt(week, {
    views,
    widths,
    themes,
    opensAnew: true,
    async onSeen(page, { view, width, theme }) {
      // The content scrolls within the page.
      const height = await page.evaluate(() => {
        const main = document.querySelector("main#content");
        const isAbove = document.querySelector("[role=dialog], .menu") !== null;
        return main === null || isAbove ? 0 : main.scrollHeight + main.getBoundingClientRect().top;
      });
      const size = page.viewportSize() ?? { width: 0, height: 0 };
      await page.setViewportSize({ ...size, height: Math.min(MAX_HEIGHT, Math.max(size.height, Math.ceil(height))) });
      await page.screenshot({ path: join(folder, `${view}-${width}-${theme}.png`), fullPage: true });
      await page.setViewportSize(size);
    },
  });
  for (const { view, width, theme, violations, wider } of looked.seen) {
    for (const { id, help, nodes } of violations) {
      console.log(`${view} ${width} ${theme}: ${id}: ${help}`);
      for (const { html, failureSummary = "" } of nodes.slice(0, 4)) console.log(`  ${html}\n    ${failureSummary}`);
    }
    for (const each of wider) console.log(`${view} ${width} ${theme}: ${each}`);
  }
  for (const { view, width, fault } of looked.unseen) console.log(`${view} ${width}: not seen: ${fault}`);
  for (const { view, width, sum, moved } of looked.shifted) {
    if (sum > 0.01) console.log(`${view} ${width}: layout shifts ${sum.toFixed(3)} by ${moved.join("; ")}`);
  }
  console.log(summaryOf(looked));
} finally {
  await week.close();
}
