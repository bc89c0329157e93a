import { expect } from "chai";
import type { Page } from "playwright-core";
import { ownedBy } from "../support/owned-key.ts";
import { assertAccessible, type Dashboard, describeInBrowser, openDashboard } from "./browser.ts";

describeInBrowser("changes that others review", () => {
  let dashboard: Dashboard;
  let page: Page;
  let proposed: string;
  before(async () => {
    dashboard = await openDashboard();
    await dashboard.service.rest("PATCH /v1/admin/workspaces/default", { mandate_reviews: 1 });
    page = await dashboard.open("/mandates/new");
  });
  after(() => dashboard.close());

  it("are told as proposals when they are published, and the text stays.", async () => {
    await page.locator(".cm-content").click();
    await page.keyboard.press("ControlOrMeta+a");
    await page.keyboard.insertText(
      "name: reviewed\nrules:\n  - type: trust\n    decision: block\n    conditions: {below: 5}\n",
    );
    await page.locator("[data-action=publish]:enabled").click();
    await page.fill("[role=dialog] [name=note]", "as agreed");
    await page.click("[role=dialog] [data-action=confirm]");
    const told = page.getByText(/Proposed as prp_\w+: another person must accept it/).first();
    proposed = /prp_\w+/.exec(await told.innerText())?.[0] ?? "";
    expect(await page.locator(".cm-line", { hasText: "name: reviewed" }).count()).to.equal(1);
    await assertAccessible(page);
  });

  it("are in force once another has accepted, with the note of their author.", async () => {
    const ben = await ownedBy("Ben", dashboard.service);
    const reply = (await ben(`POST /v1/enforce/proposals/${proposed}:accept`)) as unknown as {
      readonly proposal: { readonly status: string };
    };
    expect(reply.proposal.status).to.equal("accepted");
    const other = await dashboard.open("/mandates");
    await other.getByRole("link", { name: "reviewed" }).click();
    await other.getByRole("tab", { name: "History" }).click();
    await other.locator("[data-id=version-1]", { hasText: "as agreed" }).waitFor();
  });
});
