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

const AMOUNT = { amount: { type: "number" }, currency: { type: "string" } };

describeInBrowser("budgets", () => {
  let dashboard: Dashboard;
  let payer: string;
  let spender: string;
  let refused: string;
  let asked: string;

  const pay = (agent_id: string, amount: number, tool = "send_payment") =>
    dashboard.service.rest("POST /v1/enforce/intercept", {
      agent_id,
      action_type: "payment.send",
      tool,
      metadata: { arguments: { amount, currency: "EUR" } },
    });
  const settle = (decisionId: unknown, report: object) =>
    dashboard.service.rest(`POST /v1/enforce/decisions/${decisionId}/outcome`, report);
  const publish = (name: string, decision: string, conditions: object) =>
    dashboard.service.rest("POST /v1/enforce/mandates", {
      name,
      rules: [{ type: "sequence", decision, conditions: { mode: "budget", window_seconds: 86_400, ...conditions } }],
    });

  before(async () => {
    dashboard = await openDashboard();
    const { rest, agent } = dashboard.service;
    for (const name of ["send_payment", "refund"]) {
      await rest("POST /v1/enforce/tools", { name, input_schema: { type: "object", properties: AMOUNT } });
    }
    const sums = [
      { tool: "send_payment", field: "amount" },
      { tool: "refund", field: "amount" },
    ];
    await publish("Payments of a day", "block", { sums, currency: "EUR", max_total: 1_000 });
    await publish("Payments of all", "escalate", {
      sums: [{ tool: "send_payment", field: "amount" }],
      currency: "EUR",
      max_total: 5_000,
      scope: "workspace",
      other_currency: "ignore",
    });
    await publish("Points", "block", {
      sums: [{ tool: "refund", field: "amount" }],
      currency: "points",
      max_total: 20,
      other_currency: "ignore",
    });
    payer = await agent("payer");
    spender = await agent("spender");
    const first = await pay(payer, 500.5);
    await settle(first.decision_id, { status: "succeeded", amount: 480 });
    await pay(payer, 340);
    ({ decision_id: refused } = (await pay(payer, 300)) as unknown as { decision_id: string });
    const second = await pay(spender, 100, "refund");
    await settle(second.decision_id, { status: "failed" });
  });
  after(() => dashboard?.close());

  const rule = (page: Page, text: string) => page.locator(".limit", { hasText: text });

  it("are told in a sentence, with amounts in place of counts.", async () => {
    const page = await dashboard.open("/limits");
    await rule(page, "Payments of a day").locator(`[data-id=${payer}]`).waitFor();
    const texts = await page.locator(".limit-sentence").allInnerTexts();
    expect(texts).to.have.members([
      "More than €1,000.00 of send_payment amount, refund amount within 1 d; added for each agent, also what others do on its behalf.",
      "More than €5,000.00 of send_payment amount within 1 d; added for the workspace together; amounts in another currency are left aside.",
      "More than 20 POINTS of refund amount within 1 d; added for each agent, also what others do on its behalf; amounts in another currency are left aside.",
    ]);
    const own = rule(page, "Payments of a day").locator(`[data-id=${payer}]`);
    expect(await own.innerText()).to.match(
      /^payer\s+€180\.00 of €1,000\.00 left; €480\.00 captured, €340\.00 reserved$/,
    );
    expect(
      await own.locator(".bar.is-near > span").evaluateAll((all) => all.map((each) => each.style.width)),
    ).to.deep.equal(["48%", "34%"]);
    expect(await rule(page, "Payments of a day").locator('[data-title="Filled"]').innerText()).to.contain(
      "82 %, nearly full",
    );
    expect(await page.locator("main").innerText()).not.to.match(/\b0 of 0\b/);
  });

  it("follow reports, down to an overdrawn one.", async () => {
    const page = await dashboard.open("/limits");
    const made = await pay(spender, 900);
    const own = rule(page, "Payments of a day").locator(`[data-id=${spender}]`);
    await own.getByText("€100.00 of €1,000.00 left; €0.00 captured, €900.00 reserved").waitFor();
    await settle(made.decision_id, { status: "succeeded", amount: 1_250 });
    await own.getByText("€250.00 over €1,000.00; €1,250.00 captured, €0.00 reserved").waitFor();
    await rule(page, "Payments of a day").getByText("exceeded", { exact: true }).waitFor();
  });

  it("need a person from 80 % of their money.", async () => {
    const page = await dashboard.open("/overview");
    const need = page.locator("[data-need=limit]");
    await need.filter({ hasText: "spender" }).waitFor();
    const text = await need.innerText();
    expect(text).to.match(
      /^exceeded\s+spender has used up its budget for send_payment amount, refund amount, and 1 other too/,
    );
    expect(text).to.contain(
      "Payments of a day, within 1 d: €250.00 over €1,000.00, €1,250.00 captured, €0.00 reserved; any further amount is blocked.",
    );
    await page.locator(".side [data-count=limits]").getByText("1", { exact: true }).waitFor();
    await assertAccessible(page);
    await assertFits(page);
  });

  it("stand on a decision as they were with its action.", async () => {
    const page = await dashboard.open(`/decisions/${refused}`);
    const limit = page.locator("[data-limit]").filter({ hasText: "€120.00 over" });
    await limit.waitFor();
    expect(await limit.innerText()).to.match(
      /^€1,120\.00 with this action within 1 d\s+€120\.00 over €1,000\.00\s+€480\.00 captured, €640\.00 reserved\s+Adds for this agent, by rules\[0\] of the mandate/,
    );
    await limit.locator(".bar.is-full").waitFor({ state: "attached" });
  });

  it("stand on the card of an escalation with what the action would add.", async () => {
    const rich = await dashboard.service.agent("rich");
    for (let each = 0; each < 3; each++) await pay(rich, 300);
    const others = await dashboard.service.agent("others");
    await pay(others, 950);
    const more = await dashboard.service.agent("more");
    await pay(more, 990);
    const last = await dashboard.service.agent("last");
    ({ escalation_id: asked } = (await pay(last, 700)) as unknown as { escalation_id: string });
    const page = await dashboard.open(`/escalations/${asked}`);
    const limits = page.getByRole("region", { name: "Shared limits" });
    await limits.getByText("with this action").first().waitFor();
    const texts = await limits.locator("li").allInnerTexts();
    expect(texts[0]).to.match(
      /^€5,610\.00 with this action, €610\.00 over €5,000\.00 in 1 d for default: €1,730\.00 captured, €3,880\.00 reserved/,
    );
    expect(texts[1]).to.contain("€700.00 with this action, €300.00 of €1,000.00 left in 1 d");
    await assertAccessible(page);
  });

  for (const { name, ...appearance } of APPEARANCES) {
    it(`are accessible on the screen of limits (${name}).`, async () => {
      const page = await dashboard.open("/limits", appearance);
      await page.waitForSelector(`.limit [data-id=${payer}]`);
      await assertColumns(page, "Limits", ["Limit", "Filled", "Decides", "Mandate", "Counted now"]);
      await assertAccessible(page);
      await screenshot(page, `budgets-${name}`);
    });
  }
});
