import { expect } from "chai";
import { EnforcementService } from "../../gen/agentcontrol/v1/enforcement_service_pb.js";
import { createNodeControlPlane } from "../../src/client/node/index.ts";
import { addWorkspace, type BenchWorkspace } from "../bench/service.ts";
import { type Dashboard, describeInBrowser, openDashboard } from "./browser.ts";
import { ROW, scrollToEnd, showsDecisions } from "./scroll-to-end.ts";

const DECISIONS = 100_000;
const MAX_ROWS = 200;

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

  it("scrolls through all of them with few rows in the page, while others arrive.", async () => {
    const page = await dashboard.open("/decisions", { key: workspace.apiKey });
    await page.waitForSelector("[data-link=live]");
    await page.waitForSelector(ROW);
    const isThere = showsDecisions(page, DECISIONS);
    expect(await scrollToEnd(page, "Decisions, newest first", isThere)).to.be.at.most(MAX_ROWS);
    const bench = createNodeControlPlane({ baseUrl: dashboard.service.http, apiKey: workspace.apiKey });
    const [agentId = ""] = workspace.agentIds;
    for (let count = 0; count < 100; count++)
      await bench.client(EnforcementService).intercept({ agentId, actionType: "report.read" });
    await page.waitForSelector('[data-waiting="100"]');
    await page.click("[data-action=show-new]");
    await page.waitForFunction((count) => document.querySelector(".feed-end")?.textContent?.includes(count), "100,100");
    bench.close();
    expect(await page.locator(ROW).count()).to.be.at.most(MAX_ROWS);
  });

  it("finds what a narrow filter looks for through all of the log.", async () => {
    const page = await dashboard.open("/decisions?action_type=no.such.type", { key: workspace.apiKey });
    await page.getByText("No decision fits the filters").waitFor();
  });

  it("lists its entries with few rows.", async () => {
    const page = await dashboard.open("/evidence?from=5000", { key: workspace.apiKey });
    await page.waitForSelector(ROW);
    const isThere = async () => (await page.locator(`${ROW}[data-id="0"]`).count()) > 0;
    expect(await scrollToEnd(page, "Entries, newest first", isThere)).to.be.at.most(MAX_ROWS);
  });
});
