import { expect } from "chai";
import type { Page } from "playwright-core";
import { AgentService } from "../../gen/agentcontrol/v1/agent_service_pb.js";
import { AuthorityService, AuthorityStatus } from "../../gen/agentcontrol/v1/authority_service_pb.js";
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

describeInBrowser("one agent in the dashboard", () => {
  let dashboard: Dashboard;
  before(async () => {
    dashboard = await openDashboard({ rules: RULES });
  });
  after(() => dashboard.close());

  const authority = () => dashboard.service.admin.client(AuthorityService);
  const open = async (path: string, options = {}): Promise<Page> => {
    const page = await dashboard.open(path, options);
    await page.waitForSelector("[data-screen=agent] [data-status]");
    return page;
  };

  it("shows trust as a chart and in words, the timeline with its causes, permissions and departments.", async () => {
    const { agent } = await dashboard.service.admin.client(AgentService).registerAgent({
      name: "Ada",
      framework: "langgraph",
      permissions: { allowedActionTypes: ["mail.*", "delete"], deniedActionTypes: ["mail.delete"] },
    });
    const agentId = agent?.agentId ?? "";
    await act(dashboard.service, agentId, "mail.send");
    await act(dashboard.service, agentId, "mail.delete");
    const page = await open(`/agents/${agentId}`);
    await page.waitForSelector(".chart canvas");
    expect(await page.locator(".chart figcaption").innerText()).to.equal(
      "Now 48.2; lowest 48.2, highest 50.2 since it was registered.",
    );
    expect(await page.locator("[data-trust]").innerText()).to.match(/now\s+48.2\s+lowest\s+48.2\s+highest\s+50.2/);
    const words = await page.getByLabel("Trust", { exact: true }).innerText();
    expect(words).to.contain("Last change −2.0 by a blocked action (mail.delete)");
    const rows = page.locator(".event-row");
    await rows.first().waitFor();
    expect((await rows.allInnerTexts()).map((text) => text.replaceAll(/\s+/g, " "))).to.satisfy((texts: string[]) =>
      [
        /^block mail\.delete permissions −2\.0 to 48\.2, a blocked action/,
        /^allow mail\.send default \+0\.2 to 50\.2/,
      ].every((pattern, index) => pattern.test(texts[index] ?? "")),
    );
    const about = await page.getByLabel("About the agent").innerText();
    for (const word of ["mail.*", "mail.delete", "langgraph"]) expect(about).to.contain(word);
    // What it does meanwhile comes by itself.
    await act(dashboard.service, agentId, "mail.read");
    await rows.getByText("mail.read").waitFor();
    await page.getByText("Now 48.4", { exact: false }).first().waitFor({ state: "attached" });
  });

  it("shows at once that the agent is taken out of service.", async () => {
    const agentId = await dashboard.service.agent("Otto");
    const page = await open(`/agents/${agentId}`);
    await page.locator("[data-status]").getByText("active").waitFor();
    await page.getByText("connecting for changes").waitFor({ state: "detached" });
    const begun = Date.now();
    await dashboard.service.rest(`DELETE /v1/enforce/agents/${agentId}`);
    await page.locator("[data-status]").getByText("deactivated").waitFor();
    expect(Date.now() - begun).to.be.below(3_000);
    expect(await page.locator("[data-action=deactivate]").count()).to.equal(0);
    await dashboard.service.admin.client(RevocationService).revokeAgent({ agentId });
    await page.locator("[data-status]").getByText("revoked").waitFor();
    await page.waitForSelector("[data-verified=true]");
    expect(await page.locator("[data-action=revoke]").count()).to.equal(0);
  });

  it("deactivates after a confirmation.", async () => {
    const page = await open(`/agents/${await dashboard.service.agent("Emil")}`);
    await page.click("[data-action=deactivate]");
    await page.click("[data-action=confirm]");
    await page.locator("[data-status]").getByText("deactivated").waitFor();
  });

  it("shows authority as a tree, with what was passed on of a grant, and ends it.", async () => {
    const agentId = await equippedAgent(dashboard.service, "Rosa");
    const { grants } = await authority().listGrants({ agentId });
    const given = grants.find(({ grantorAgentId }) => grantorAgentId === agentId)?.grantId ?? "";
    const page = await open(`/agents/${agentId}`);
    await page.click("[data-action=tab-authority]");
    await page.waitForURL(`**/agents/${agentId}?tab=authority`);
    const row = page.locator(`[data-authority=${given}]`);
    await row.getByText("Rosa's helper").waitFor();
    expect((await row.innerText()).replaceAll(/\s+/g, " ")).to.contain("0 of 10 uses");
    const passedOn = page.locator("[data-depth='1']");
    await passedOn.getByText("Rosa's helper's helper").waitFor();
    await row.locator("[data-action=toggle]").click();
    await passedOn.waitFor({ state: "detached" });
    await row.locator("[data-action=toggle]").click();
    await passedOn.waitFor();
    const child = (await passedOn.getAttribute("data-authority")) ?? "";
    const groups = await page.locator(".authority-group").allInnerTexts();
    expect(groups).to.deep.equal([
      "Sessions 1",
      "Credentials 1",
      "Grants given 1",
      "Grants received 1",
      "Temporal windows 1",
      "Intent contracts 1",
      "Federation tokens 1",
      "MCP tool policies of this agent 1",
    ]);
    await row.locator("[data-action=end]").click();
    await page.click("[data-action=confirm]");
    await row.waitFor({ state: "detached" });
    expect((await authority().getGrant({ grantId: child })).grant?.status).to.equal(AuthorityStatus.ENDED);
    await page.check("[name=ended]");
    await row.getByText("ended").waitFor();
    expect(new URL(page.url()).search).to.equal("?tab=authority&ended=1");
  });

  it("stays small and narrow for an agent with everything at its longest, and says when there is none.", async () => {
    const capabilities = Array.from({ length: 500 }, (_, index) => `${index}.`.padEnd(256, "w"));
    const { agent } = await dashboard.service.admin.client(AgentService).registerAgent({
      name: "W".repeat(200),
      framework: "f".repeat(100),
      description: "d".repeat(2_000),
      capabilities,
      permissions: { allowedActionTypes: capabilities, deniedActionTypes: capabilities },
    });
    const page = await open(`/agents/${agent?.agentId}`, { width: 390 });
    await page.getByText("476 more").first().waitFor();
    await assertFits(page);
    expect(await page.locator("main *").count()).to.be.below(600);
    await page.getByText("476 more").first().click();
    await page.getByText("376 more").waitFor();
    await page.goto("/agents/agt_none");
    await page.locator("[data-screen=agent] .fault").getByText("agt_none").waitFor();
  });

  it("shows at once that a session of the agent was killed.", async () => {
    const agentId = await dashboard.service.agent("Kuno");
    const { session } = await authority().createSession({ agentId, purpose: "long work" });
    const page = await open(`/agents/${agentId}?tab=authority`);
    const row = page.locator(`[data-authority=${session?.sessionId}]`);
    await row.waitFor();
    await page.getByText("connecting for changes").waitFor({ state: "detached" });
    await authority().endSession({ sessionId: session?.sessionId ?? "" });
    await row.waitFor({ state: "detached" });
  });

  it("creates a credential, whose secret it shows once, and a grant, with faults at their fields.", async () => {
    const [agentId, other] = [await dashboard.service.agent("Lena"), await dashboard.service.agent("Lenz")];
    const page = await open(`/agents/${agentId}?tab=authority`);
    await page.click("[data-action=new-authority]");
    await page.click("[data-action=new-credentials]");
    await page.fill("[name=name]", "night shift");
    await page.fill("[name=ttl_seconds]", "-3");
    await page.click("[data-action=submit-authority]");
    await page
      .locator(".field", { has: page.locator("[name=ttl_seconds]") })
      .locator("[role=alert]")
      .waitFor();
    await page.fill("[name=ttl_seconds]", "2");
    await page.click("[data-action=submit-authority]");
    const secret = (await page.locator("[data-secret]").textContent()) ?? "";
    expect(secret).to.match(/^\S{20,}$/);
    await page.keyboard.press("Escape");
    await page.locator("[data-secret]").waitFor();
    await page.click("[data-action=stored]");
    await page.getByText("night shift").waitFor();
    await page.getByText(/expires in 1 h 59 min/).waitFor();
    expect(await page.content()).not.to.contain(secret);
    await page.click("[data-action=new-authority]");
    await page.click("[data-action=new-grants]");
    await page.fill('[name="grantee_agent_id.search"]', "Lenz");
    await page.locator(`select[name=grantee_agent_id] option[value=${other}]`).waitFor({ state: "attached" });
    await page.selectOption("select[name=grantee_agent_id]", other);
    await page.fill("[name=action_types]", "mail.send\n*bad");
    await page.click("[data-action=submit-authority]");
    await page.getByText("line 2:").waitFor();
    await page.fill("[name=action_types]", "mail.send");
    await page.fill("[name=max_uses]", "3");
    await page.click("[data-action=submit-authority]");
    await page.getByText("0 of 3 uses").waitFor();
  });

  for (const { name, ...appearance } of APPEARANCES) {
    it(`is accessible (${name}).`, async () => {
      const agentId = await equippedAgent(dashboard.service, `Nora ${name}`);
      for (let i = 0; i < 6; i++) await act(dashboard.service, agentId, i % 3 === 0 ? "delete" : "mail.read");
      const page = await open(`/agents/${agentId}`, appearance);
      await page.waitForSelector(".chart canvas");
      await page.waitForSelector(".event-row");
      await assertAccessible(page);
      await assertFits(page);
      await screenshot(page, `agent-${name}`);
      await page.click("[data-action=tab-authority]");
      await page.waitForSelector("[data-depth='1']");
      await assertAccessible(page);
      await assertFits(page);
      await screenshot(page, `agent-authority-${name}`);
      await page.click("[data-action=new-authority]");
      await page.click("[data-action=new-grants]");
      await page.waitForSelector("[name=action_types]");
      await assertAccessible(page);
      await screenshot(page, `agent-grant-${name}`);
    });
  }
});
