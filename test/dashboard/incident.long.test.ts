import { expect } from "chai";
import { AgentService, AgentStatus } from "../../gen/agentcontrol/v1/agent_service_pb.js";
import { RevocationService } from "../../gen/agentcontrol/v1/revocation_service_pb.js";
import {
  APPEARANCES,
  assertAccessible,
  assertFits,
  type Dashboard,
  describeInBrowser,
  openDashboard,
  screenshot,
} from "./browser.ts";
import { act, equippedAgent, RULES } from "./equipped-agent.ts";

describeInBrowser("an incident in the dashboard", () => {
  let dashboard: Dashboard;
  before(async () => {
    dashboard = await openDashboard({ rules: RULES });
  });
  after(() => dashboard.close());

  const open = async (path: string, options = {}) => {
    const page = await dashboard.open(path, options);
    await page.waitForSelector("[data-screen=incident] [data-losing]");
    await page.locator(".incident-actions, .empty").first().waitFor();
    return page;
  };

  it("shows the last actions of several agents, newest first, and who loses authority with them by name.", async () => {
    const [mata, otto] = [
      await equippedAgent(dashboard.service, "Mata"),
      await equippedAgent(dashboard.service, "Otto"),
    ];
    await act(dashboard.service, mata, "read");
    await act(dashboard.service, otto, "delete.all");
    const page = await open(`/incident?agent=${mata}&agent=${otto}`);
    const actions = await page.locator(".incident-actions .feed-action").allInnerTexts();
    expect(actions).to.deep.equal(["delete.all", "read", "pay", "pay"]);
    expect(await page.locator("[data-losing]").getAttribute("data-losing")).to.equal("4");
    const tree = await page.locator(`.lending > [data-id=${mata}]`).innerText();
    expect(tree.split(/\n+/)).to.deep.equal(["Mata lent to", "Mata's helper lent to", "Mata's helper's helper"]);
  });

  it("revokes several at once after a typed word, each with a certificate, and leaves out whom it is told to.", async () => {
    const ids = [
      await dashboard.service.agent("one"),
      await dashboard.service.agent("two"),
      await dashboard.service.agent("spared"),
    ];
    const page = await open(`/incident?${ids.map((id) => `agent=${id}`).join("&")}`);
    await page.locator(`.suspects [data-id=${ids[2]}] [data-action=remove-suspect]`).click();
    await page.click("[data-action=revoke-several]");
    const confirm = page.locator("[role=dialog] [data-action=confirm]");
    expect(await confirm.isDisabled()).to.equal(true);
    await page.fill("[name=reason]", "they share a stolen key");
    await page.fill("[name=confirm]", "revoke 2");
    await confirm.click();
    await page.locator(".suspects").getByText("certificate").nth(1).waitFor();
    const { revocations } = await dashboard.service.admin.client(RevocationService).listRevocations({});
    const made = revocations.filter(({ reason }) => reason === "they share a stolen key");
    expect(made.map(({ agentId }) => agentId)).to.have.members(ids.slice(0, 2));
    expect(await page.locator("[data-action=revoke-several]").count()).to.equal(0);
    const { agent } = await dashboard.service.admin.client(AgentService).getAgent({ agentId: ids[2] as string });
    expect(agent?.status).to.equal(AgentStatus.ACTIVE);
  });

  it("takes a whole department, and is reached from it, from an agent, and from the end of a revocation.", async () => {
    const { department } = (await dashboard.service.rest("POST /v1/enforce/departments", {
      name: "payroll",
    })) as never as {
      department: { department_id: string };
    };
    const agentId = await dashboard.service.agent("member");
    const members = `/v1/enforce/departments/${department.department_id}/members`;
    await dashboard.service.rest(`PUT ${members}/${agentId}`, {});
    const page = await dashboard.open("/agents?tab=departments");
    await page.getByText("payroll").first().click();
    await page.click("[data-department] [data-action=incident]");
    await page.locator(`.suspects [data-id=${agentId}]`).waitFor();
    expect(await page.locator("[data-action=remove-suspect]").count()).to.equal(0);
    await dashboard.service.admin.client(RevocationService).revokeAgent({ agentId, reason: "test" });
    await page.goto(`/agents/${agentId}`);
    await page.waitForSelector("[data-certificate]");
    await page.click("[data-action=incident]");
    await page.locator(`.suspects [data-id=${agentId}]`).getByText("certificate").waitFor();
  });

  it("adds an agent by its name, once.", async () => {
    const [first, added] = [await dashboard.service.agent("first one"), await dashboard.service.agent("added one")];
    const page = await open(`/incident?agent=${first}`);
    for (let time = 0; time < 2; time++) {
      await page.fill("[name='agent_id.search']", "added");
      await page.locator(`[name=agent_id] option[value=${added}]`).waitFor({ state: "attached" });
      await page.selectOption("[name=agent_id]", added);
      await page.click("[data-action=add-suspect]");
      await page.locator(`.suspects [data-id=${added}]`).waitFor();
    }
    expect(await page.locator(".suspects > li").count()).to.equal(2);
  });

  for (const { name, ...appearance } of APPEARANCES) {
    it(`is accessible (${name}).`, async () => {
      const ids = [
        await equippedAgent(dashboard.service, `Ada ${name}`),
        await equippedAgent(dashboard.service, `Ben ${name}`),
      ];
      const page = await open(`/incident?${ids.map((id) => `agent=${id}`).join("&")}`, appearance);
      await assertAccessible(page);
      await assertFits(page);
      await screenshot(page, `incident-${name}`);
    });
  }
});
