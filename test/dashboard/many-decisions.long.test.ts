import { expect } from "chai";
import type { Page } from "playwright-core";
import { EnforcementService } from "../../gen/agentcontrol/v1/enforcement_service_pb.js";
import { createNodeControlPlane } from "../../src/client/node/index.ts";
import { addWorkspace, type BenchWorkspace } from "../bench/service.ts";
import { type Dashboard, describeInBrowser, openDashboard } from "./browser.ts";
import { longestTask } from "./longest-task.ts";

const DECISIONS = 100_000;
const MAX_ROWS = 200;
const MAX_TASK_MS = 100;
const ROW = "[data-screen] li[data-id]";

/** Scrolls a list to its end again and again until it holds as many as given; gives the most rows that were in the page. */
async function scrollToEnd(page: Page, label: string, isDone: () => Promise<boolean>): Promise<number> {
  const list = page.getByRole("region", { name: label });
  let most = 0;
  while (!(await isDone())) {
    most = Math.max(most, await page.locator(ROW).count());
    await list.evaluate(async (element) => {
      // One frame at each place, so that the rows between are drawn as well.
      for (let step = 0; step < 5; step++) {
        element.scrollTo(0, element.scrollTop + (element.scrollHeight - element.scrollTop) / 2);
        await new Promise(requestAnimationFrame);
      }
      element.scrollTo(0, element.scrollHeight);
      await new Promise(requestAnimationFrame);
    });
  }
  console.log(`      at most ${most} rows in the document: ${label.toLowerCase()}`);
  return most;
}

describeInBrowser("a workspace of 100,000 decisions", function () {
  this.timeout(300_000);
  let dashboard: Dashboard;
  let workspace: BenchWorkspace;
  before(async () => {
    dashboard = await openDashboard();
    const size = { workspaceId: "bench", agents: 50, otherMandates: 0, decisions: DECISIONS };
    workspace = await addWorkspace(dashboard.service.database.url, size);
  });
  after(() => dashboard.close());

  it("scrolls through all of them with few rows in the page and no long task, while others arrive.", async () => {
    const page = await dashboard.open("/decisions", { key: workspace.apiKey });
    await page.waitForSelector("[data-link=live]");
    await page.waitForSelector(ROW);
    const shown = async () => Number((await page.locator(".feed-end").innerText()).replaceAll(/\D/g, ""));
    const scrolling = await longestTask(dashboard.browser, page, async () => {
      const most = await scrollToEnd(page, "Decisions, newest first", async () => (await shown()) >= DECISIONS);
      expect(most).to.be.at.most(MAX_ROWS);
    });
    expect(scrolling).to.be.below(MAX_TASK_MS);
    const bench = createNodeControlPlane({ baseUrl: dashboard.service.http, apiKey: workspace.apiKey });
    const [agentId = ""] = workspace.agentIds;
    const arriving = await longestTask(dashboard.browser, page, async () => {
      for (let count = 0; count < 100; count++)
        await bench.client(EnforcementService).intercept({ agentId, actionType: "report.read" });
      await page.waitForSelector('[data-waiting="100"]');
      await page.click("[data-action=show-new]");
      await page.waitForFunction(
        (count) => document.querySelector(".feed-end")?.textContent?.includes(count),
        "100,100",
      );
    });
    bench.close();
    expect(await page.locator(ROW).count()).to.be.at.most(MAX_ROWS);
    expect(arriving).to.be.below(MAX_TASK_MS);
  });

  it("finds what a narrow filter looks for through all of the log.", async () => {
    const page = await dashboard.open("/decisions?action_type=no.such.type", { key: workspace.apiKey });
    await page.getByText("No decision fits the filters").waitFor();
  });

  it("lists its entries in the vault with few rows and no long task.", async () => {
    const page = await dashboard.open("/vault?from=5000", { key: workspace.apiKey });
    await page.waitForSelector(ROW);
    await page.waitForSelector("[data-growth]");
    const isThere = async () => (await page.locator(`${ROW}[data-id="0"]`).count()) > 0;
    const scrolling = await longestTask(dashboard.browser, page, async () => {
      expect(await scrollToEnd(page, "Entries, newest first", isThere)).to.be.at.most(MAX_ROWS);
    });
    expect(scrolling).to.be.below(MAX_TASK_MS);
  });
});
