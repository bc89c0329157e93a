import { expect } from "chai";
import type { Page } from "playwright-core";
import {
  APPEARANCES,
  assertAccessible,
  assertColumns,
  assertFits,
  type Dashboard,
  describeInBrowser,
  openDashboard,
  screenshot,
} from "./browser.ts";

describeInBrowser("the people of the dashboard", () => {
  let dashboard: Dashboard;
  before(async () => {
    dashboard = await openDashboard();
  });
  after(() => dashboard.close());

  const open = async (path: string, options = {}): Promise<Page> => {
    const page = await dashboard.open(path, options);
    await page.waitForSelector("[data-screen]");
    return page;
  };
  const statusOf = async (key: string): Promise<number> =>
    (await fetch(`${dashboard.service.http}/v1/enforce/agents`, { headers: { "x-api-key": key } })).status;
  const add = async (page: Page, name: string): Promise<void> => {
    await page.click("[data-action=add-person]");
    await page.fill("[name=name]", name);
    await page.click("[data-action=submit-person]");
    await page.waitForSelector("[data-screen=person] .facts");
  };
  const invite = async (page: Page): Promise<string> => {
    await page.click("[data-action=invite-person]");
    await page.click("[data-action=confirm]");
    const link = (await page.locator("[data-secret]").textContent()) ?? "";
    await page.click("[data-action=stored]");
    return link;
  };
  const fieldOf = (page: Page, name: string) =>
    page.locator(".field", { has: page.locator(`[name=${name}]`) }).locator("[role=alert]");

  it("are added, invited by a link that shows a key once without a sign-in, and deactivated.", async () => {
    const page = await open("/people");
    await page.click("[data-action=add-person]");
    await page.fill("[name=name]", "key_1");
    await page.fill("[name=subject]", "7");
    await page.click("[data-action=submit-person]");
    await fieldOf(page, "name").waitFor();
    await page.click("[data-action=cancel]");
    await add(page, "Ann <b>Lee</b>");
    const link = await invite(page);
    expect(link).to.match(/\/invite#acpi_[a-z2-7]{52}$/);
    await page.getByText("invited, link ends").waitFor();
    const { pathname, hash } = new URL(link);

    const guest = await dashboard.open(`${pathname}${hash}`, { key: null });
    await guest.waitForSelector("[data-screen=invite]");
    await assertAccessible(guest);
    await guest.click("[data-action=open-invite]");
    const key = (await guest.locator("[data-secret]").textContent()) ?? "";
    expect(await statusOf(key)).to.equal(200);
    expect(new URL(guest.url()).hash).to.equal("");
    await guest.getByText("Key of Ann <b>Lee</b>").waitFor();
    const again = await dashboard.open(`${pathname}${hash}`, { key: null });
    await again.click("[data-action=open-invite]");
    await again.locator("[role=alert]", { hasText: "used already" }).waitFor();
    expect(await again.locator("[data-secret]").count()).to.equal(0);

    await page.reload();
    const row = page.locator(".keys-row", { hasText: "personal key" });
    await row.getByText("active").waitFor();
    await row.getByText("of Ann <b>Lee</b> made by first admin").waitFor();
    await page.click("[data-action=edit-person]");
    await page.selectOption("[name=role]", { label: "auditor: reads everything, changes nothing" });
    await page.click("[data-action=submit-person]");
    await row.getByText("revoked").waitFor();
    expect(await statusOf(key)).to.equal(401);
    await page.click("[data-action=deactivate-person]");
    await page.click("[data-action=confirm]");
    await page.locator(".facts").getByText("deactivated").waitFor();
    expect(await page.locator("[data-action=invite-person]").count()).to.equal(0);
    await page.click("[data-action=reactivate-person]");
    await page.click("[data-action=confirm]");
    await page.waitForSelector("[data-action=invite-person]");
  });

  it("say what is wrong with a link that is not whole.", async () => {
    const page = await dashboard.open("/invite", { key: null });
    await page.locator("[role=alert]", { hasText: "not whole" }).waitFor();
    expect(await page.locator("[data-action=open-invite]").isDisabled()).to.equal(true);
  });

  it("are found by what they answered.", async () => {
    const { rest, agent } = dashboard.service;
    const agentId = await agent("Asking");
    const { secret } = await rest("POST /v1/admin/keys", { name: "approvals", role: "operator", owner: "Maria" });
    await rest("PATCH /v1/admin/workspaces/default", { default_decision: "escalate" });
    for (const [action_type, key] of [
      ["by.maria", String(secret)],
      ["by.admin", undefined],
    ] as const) {
      const { escalation_id: id } = await rest("POST /v1/enforce/intercept", { agent_id: agentId, action_type });
      await rest(`POST /v1/enforce/escalations/${id}/resolve`, { resolution: "rejected" }, key);
    }
    await rest("PATCH /v1/admin/workspaces/default", { default_decision: "allow" });
    const page = await open("/escalations?show=answered");
    const rows = page.locator(".resolved");
    await rows.getByText("by.admin").waitFor();
    await page.selectOption("[name=by]", { label: "Maria" });
    await rows.getByText("by.admin").waitFor({ state: "detached" });
    await rows.getByText("by.maria").waitFor();
    await page.selectOption("[name=by]", { label: "You" });
    await rows.getByText("by.admin").waitFor();
    await assertAccessible(page);
  });

  it("are shown to admins alone.", async () => {
    for (const role of ["operator", "auditor"]) {
      const { secret = "" } = await dashboard.service.rest("POST /v1/admin/keys", { name: role, role });
      const page = await open("/people", { key: secret });
      await page.getByText("This screen is for admins").waitFor();
      expect(await page.locator("main [data-action], main [data-id]").count()).to.equal(0);
      expect(await page.locator("[data-nav=people]").count()).to.equal(0);
    }
  });

  for (const { name, ...appearance } of APPEARANCES) {
    it(`are accessible (${name}).`, async () => {
      const page = await open("/people", appearance);
      await add(page, `Shown ${name}`);
      await assertAccessible(page);
      await assertFits(page);
      await invite(page);
      await screenshot(page, `person-${name}`);
      await page.click("[data-action=edit-person]");
      await page.waitForSelector("[role=dialog]");
      await assertAccessible(page);
      await screenshot(page, `person-edit-${name}`);
      await page.click("[data-action=cancel]");
      await page.goto("/people");
      await page.waitForSelector(".people-row");
      await assertColumns(page, "People", ["Name", "Role", "State", "Keys", "Last seen"]);
      await assertAccessible(page);
      await assertFits(page);
      await screenshot(page, `people-${name}`);
      await page.click("[data-action=add-person]");
      await page.waitForSelector("[role=dialog]");
      await assertAccessible(page);
      await screenshot(page, `people-add-${name}`);
    });
  }
});
