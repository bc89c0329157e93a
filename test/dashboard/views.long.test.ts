import { expect } from "chai";
import { describeInBrowser } from "./browser.ts";
import { type FurnishedWeek, openFurnishedWeek } from "./furnished-week.ts";
import { type Looked, lookAt, summaryOf } from "./look-at.ts";
import { screenPaths } from "./screen-paths.ts";
import { VIEWS } from "./views.ts";

/** Greatest sum of layout shifts while one page is opened: "good" by Web Vitals. */
const MAX_SHIFT = 0.1;

describeInBrowser("every screen of the dashboard over a week of work", () => {
  let week: FurnishedWeek;
  let looked: Looked;
  before(async function () {
    this.timeout(1_800_000);
    week = await openFurnishedWeek();
    looked = await lookAt(week);
    console.log(summaryOf(looked).replaceAll(/^/gm, "      "));
  });
  after(() => week.close());

  it("is looked at: each path has a view.", () => {
    const seen = VIEWS.map(({ path }) => path(week).replace(/\?.*/, ""));
    const missing = screenPaths().filter((path) => {
      const pattern = new RegExp(`^${path.replace(":id", "[^/]+")}$`);
      return !seen.some((each) => pattern.test(each));
    });
    expect(missing).to.deep.equal([]);
  });

  it("opens.", () => {
    expect(looked.unseen).to.deep.equal([]);
  });

  it("has no serious fault of access, at any width, in any theme.", () => {
    const found = looked.seen.flatMap(({ view, width, theme, violations }) =>
      violations.map(({ id, nodes }) => `${view} ${width} ${theme}: ${id} ${nodes[0]?.html}`),
    );
    expect(found).to.deep.equal([]);
  });

  it("is nowhere wider than the page.", () => {
    const found = looked.seen.flatMap(({ view, width, wider }) => wider.map((each) => `${view} ${width}: ${each}`));
    expect(found).to.deep.equal([]);
  });

  it("stays in its place while it is read.", () => {
    expect(looked.shifted.filter(({ sum }) => sum > MAX_SHIFT)).to.deep.equal([]);
  });
});
