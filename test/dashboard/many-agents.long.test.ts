import { expect } from "chai";
import type { Page } from "playwright-core";
import { AgentService } from "../../gen/agentcontrol/v1/agent_service_pb.js";
import { AuthorityService } from "../../gen/agentcontrol/v1/authority_service_pb.js";
import { type Dashboard, describeInBrowser, openDashboard } from "./browser.ts";
import { longestTask } from "./longest-task.ts";

const AGENTS = 5_000;
const AT_ONCE = 20;
const MAX_ROWS = 200;
const MAX_TASK_MS = 100;

describeInBrowser("5,000 agents in the dashboard", () => {
  let dashboard: Dashboard;
  before(async () => {
    dashboard = await openDashboard();
    const agents = dashboard.service.admin.client(AgentService);
    for (let first = 0; first < AGENTS; first += AT_ONCE) {
      const batch = Array.from({ length: AT_ONCE }, (_, index) => String(first + index).padStart(4, "0"));
      await Promise.all(batch.map((number) => agents.registerAgent({ name: `agent ${number}` })));
    }
  });
  after(() => dashboard.close());

  /** Scrolls a list to its end, page by page; returns the most rows that were in the document at once. */
  const scrollToEnd = async (page: Page, last: string): Promise<number> => {
    await page.waitForSelector(".virtual-row");
    const most = await page.evaluate(async (lastText) => {
      const list = document.querySelector(".virtual") as HTMLElement;
      let mostRows = 0;
      for (let step = 0; step < 2_000; step++) {
        list.scrollTop += list.clientHeight;
        await new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)));
        mostRows = Math.max(mostRows, list.querySelectorAll(".virtual-row").length);
        if (list.textContent?.includes(lastText)) return mostRows;
      }
      return Number.POSITIVE_INFINITY;
    }, last);
    console.log(`      at most ${most} rows in the document down to "${last}"`);
    return most;
  };

  it("scrolls to the last of them with few rows in the document and without long tasks.", async () => {
    const page = await dashboard.open("/agents?order=name");
    await page.waitForSelector(".virtual-row");
    const longest = await longestTask(dashboard.browser, page, async () => {
      expect(await scrollToEnd(page, "agent 4999")).to.be.at.most(MAX_ROWS);
    });
    expect(longest).to.be.within(1, MAX_TASK_MS);
  });

  it("keeps what was read when a page fails, asks again only when a person does, and then reads on.", async () => {
    const page = await dashboard.open("/agents?order=name");
    await page.waitForSelector(".virtual-row");
    const list = page.locator(".virtual");
    const toEnd = () =>
      list.evaluate(async (element) => {
        for (let step = 0; step < 20; step++) {
          element.scrollTop = step % 2 === 0 ? element.scrollHeight : 0;
          await new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)));
        }
        element.scrollTop = element.scrollHeight;
      });
    let refused = 0;
    const path = "**/agentcontrol.v1.AgentService/ListAgents*";
    await page.route(path, (route) => {
      refused++;
      return route.fulfill({ status: 403 });
    });
    await toEnd();
    const fault = page.locator("main .fault");
    await fault.waitFor();
    await toEnd();
    expect(refused).to.equal(1);
    expect(await list.locator(".virtual-row").count()).to.be.above(5);
    await page.unroute(path);
    await fault.locator("[data-action=retry]").click();
    await fault.waitFor({ state: "detached" });
    await toEnd();
    await page.getByText("agents so far").filter({ hasNotText: /^200 / }).waitFor();
  });

  it("shows thousands of an agent's sessions in the same way.", async () => {
    const agentId = await dashboard.service.agent("busy");
    const authority = dashboard.service.admin.client(AuthorityService);
    for (let first = 0; first < 1_000; first += AT_ONCE) {
      const batch = Array.from({ length: AT_ONCE }, (_, index) => `session ${first + index}`);
      await Promise.all(batch.map((purpose) => authority.createSession({ agentId, purpose })));
    }
    const page = await dashboard.open(`/agents/${agentId}?tab=authority`);
    await page
      .getByText("Read older sessions")
      .waitFor({ state: "attached", timeout: 500 })
      .catch(() => undefined);
    expect(await scrollToEnd(page, "MCP tool policies")).to.be.at.most(MAX_ROWS);
    await page.click("[data-action=revoke]");
    await page.waitForSelector("[data-preview] [data-id=sessions][data-count='1000']");
    await page.locator("[data-preview] summary").click();
    expect(await page.locator("[data-preview] li").count()).to.be.at.most(MAX_ROWS);
  });
});
