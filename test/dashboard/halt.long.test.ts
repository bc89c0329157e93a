import { expect } from "chai";
import { assertAccessible, type Dashboard, describeInBrowser, openDashboard } from "./browser.ts";

describeInBrowser("the halt of a workspace", () => {
  let dashboard: Dashboard;
  let agentId: string;

  const act = (): Promise<{ readonly decision?: string; readonly decision_path?: string }> =>
    dashboard.service.rest("POST /v1/enforce/intercept", { agent_id: agentId, action_type: "pay" });
  const keyOf = async (role: string): Promise<string> => {
    const { secret }: { secret?: string } = await dashboard.service.rest("POST /v1/admin/keys", { name: role, role });
    return secret ?? "";
  };

  before(async () => {
    dashboard = await openDashboard();
    agentId = await dashboard.service.agent("payer");
  });
  after(() => dashboard.close());

  it("is started by an operator after a confirmation, and shown on every screen until it ends.", async () => {
    const page = await dashboard.open("/decisions", { key: await keyOf("operator") });
    await page.click("[data-action=halt]");
    await page.getByRole("dialog").waitFor();
    expect((await act()).decision).to.equal("allow");
    await page.click("[data-action=confirm]");
    await page.waitForSelector("[data-banner=halted]");
    expect((await act()).decision_path).to.equal("halted");
    await assertAccessible(page);
    for (const screen of ["overview", "escalations", "agents", "mandates", "vault"]) {
      await page.click(`[data-nav=${screen}]`);
      await page.waitForSelector(`[data-screen=${screen}]`);
      expect(await page.locator("[data-banner=halted]").count(), screen).to.equal(1);
    }
    expect(await page.locator("[data-action=halt]").count()).to.equal(0);
    await page.click("[data-action=resume]");
    await page.click("[data-action=confirm]");
    await page.waitForSelector("[data-action=halt]");
    expect(await page.locator("[data-banner=halted]").count()).to.equal(0);
    expect((await act()).decision).to.equal("allow");
  });

  it("is only shown to an auditor, also when someone else starts it.", async () => {
    const page = await dashboard.open("/overview", { key: await keyOf("auditor") });
    await page.waitForSelector("[data-screen=overview]");
    expect(await page.locator("[data-action=halt]").count()).to.equal(0);
    await dashboard.service.rest("PATCH /v1/admin/workspaces/default", { halted: true });
    await page.waitForSelector("[data-banner=halted]");
    expect(await page.locator("[data-action=resume]").count()).to.equal(0);
    await dashboard.service.rest("PATCH /v1/admin/workspaces/default", { halted: false });
    await page.waitForSelector("[data-banner=halted]", { state: "detached" });
  });
});
