import { expect } from "chai";
import type { Page } from "playwright-core";
import { ownedBy } from "../support/owned-key.ts";
import {
  assertAccessible,
  assertColumns,
  assertFits,
  type Dashboard,
  describeInBrowser,
  openDashboard,
} from "./browser.ts";

const HOSTILE = "<img src=x onerror=window.hacked=1>";
const above = (value: number, decision: string): object => ({
  tool: "send_payment",
  decision,
  conditions: { rules: [{ field: "amount", operator: ">", value }] },
});
/** The mandate with a second rule: above 5,000 is blocked. */
const DRAFT = `name: large payments
rules:
  - tool: send_payment
    decision: escalate
    conditions:
      rules:
        - field: amount
          operator: ">"
          value: 500
  - tool: send_payment
    decision: block
    conditions:
      rules:
        - field: amount
          operator: ">"
          value: 5000
`;

describeInBrowser("backtests of a draft", () => {
  let dashboard: Dashboard;
  let mandateId: string;
  let bensKey: string;
  let address: string;
  before(async () => {
    dashboard = await openDashboard();
    const { rest, agent } = dashboard.service;
    await rest("POST /v1/enforce/tools", {
      name: "send_payment",
      input_schema: { type: "object", properties: { amount: { type: "number" }, to: { type: "string" } } },
    });
    const agentId = await agent(`payer ${HOSTILE}`);
    for (const amount of [100, 600, 9_000]) {
      const metadata = { arguments: { amount, to: HOSTILE } };
      await rest("POST /v1/enforce/intercept", {
        agent_id: agentId,
        action_type: "payment.send",
        tool: "send_payment",
        metadata,
      });
    }
    // It asks about two of the three, which is no change of the draft.
    const made = await rest("POST /v1/enforce/mandates", { name: "large payments", rules: [above(500, "escalate")] });
    mandateId = (made as unknown as { mandate: { mandate_id: string } }).mandate.mandate_id;
    bensKey = String((await rest("POST /v1/admin/keys", { name: "Ben", role: "operator", owner: "Ben" })).secret);
  });
  after(() => dashboard.close());

  const write = async (page: Page, text: string): Promise<void> => {
    await page.locator(".cm-content").click();
    await page.keyboard.press("ControlOrMeta+a");
    await page.keyboard.insertText(text);
    await page.locator("[data-action=publish]:enabled").waitFor();
  };
  const rows = (page: Page) => page.locator("[data-report] .virtual [data-id^=dec_]");

  it("list only what the draft changes, by day and with agent, action and value, and are kept.", async () => {
    const page = await dashboard.open(`/mandates/${mandateId}`);
    await write(page, DRAFT);
    await page.click("[data-action=publish]");
    await page.locator("[data-last-backtest=none]").waitFor();
    await page.click("[role=dialog] [data-action=cancel]");
    await page.click("[data-action=backtest]");
    await page.click("[data-action=start]");
    await page.locator("[data-report]").waitFor();
    expect(await rows(page).count()).to.equal(1);
    const row = await rows(page).innerText();
    expect(row).to.match(/escalate.*block.*payer <img.*payment\.send.*amount\s+9000/s);
    await page.getByRole("region", { name: "Changed decisions by day" }).locator("canvas").waitFor();
    address = (await page.locator("[data-kept] a").getAttribute("href")) ?? "";
    expect(address).to.match(/^\/backtests\/bkt_/);
    await assertAccessible(page);
    await page.keyboard.press("Escape");
    await page.click("[data-action=publish]");
    const last = page.locator(`[data-last-backtest="${address.replace("/backtests/", "")}"]`);
    expect(await last.innerText()).to.include("0 decisions looser and 1 stricter of 3");
  });

  it("open for another operator at their address, with the text and what it changes.", async () => {
    const page = await dashboard.open(address, { key: bensKey });
    await page.locator("[data-report]").waitFor();
    expect(await page.locator("[data-found]").innerText()).to.equal("0 decisions looser, 1 stricter");
    await page.locator(".diff .is-added", { hasText: "value: 5000" }).waitFor();
    expect(await rows(page).count()).to.equal(1);
    expect(await page.locator("[data-changed-since]").count()).to.equal(0);
    expect(await page.locator("main img").count()).to.equal(0);
    expect(await page.evaluate(() => "hacked" in window)).to.equal(false);
    await assertColumns(page, "Changed decisions", ["Decision", "Agent", "Action", "Why", "Decided"]);
    await assertAccessible(page);
    await page.setViewportSize({ width: 390, height: 900 });
    // The chart follows the width after the page.
    await page.waitForFunction(() => {
      const main = document.querySelector("main");
      return main !== null && main.scrollWidth <= main.clientWidth;
    });
    await assertFits(page);
  });

  it("show their text to no auditor, and to nobody of another workspace.", async () => {
    const { rest, workspace } = dashboard.service;
    const { secret } = await rest("POST /v1/admin/keys", { name: "auditor", role: "auditor" });
    for (const [key, fault] of [
      [String(secret), "auditor"],
      [(await workspace("elsewhere")).key, "no backtest"],
    ] as const) {
      const page = await dashboard.open(address, { key });
      await page.locator("main .fault").getByText(fault).waitFor();
      expect(await page.locator("main").innerText()).to.not.include("large payments");
    }
  });

  it("are shown beside a proposal of the same text, and say when the rules have changed since.", async () => {
    const { rest } = dashboard.service;
    await rest("PATCH /v1/admin/workspaces/default", { mandate_reviews: 1 });
    const reply = await rest(`PUT /v1/enforce/mandates/${mandateId}`, {
      name: "large payments",
      rules: [above(500, "escalate"), above(5_000, "block")],
    });
    const { proposal_id: id } = (reply as unknown as { proposal: { proposal_id: string } }).proposal;
    const page = await dashboard.open(`/proposals/${id}`, { key: bensKey });
    await page.locator("[data-last-backtest]").getByText("0 decisions looser and 1 stricter of 3").waitFor();
    await page.click("[data-action=backtest]");
    await page.click("[data-action=start]");
    await page.locator("[data-report]").waitFor();
    expect(await rows(page).count()).to.equal(1);
    await page.keyboard.press("Escape");
    await page.locator("[data-last-backtest]").getByText("Ben").waitFor();
    const ben = await ownedBy("Ben", dashboard.service);
    await ben(`POST /v1/enforce/proposals/${id}:accept`);
    await page.goto(address);
    await page.locator("[data-changed-since]").waitFor();
    expect(await rows(page).count()).to.equal(0);
  });
});
