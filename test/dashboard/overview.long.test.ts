import { expect } from "chai";
import type { Page } from "playwright-core";
import { RuleType } from "../../gen/agentcontrol/v1/mandate_service_pb.js";
import { Decision } from "../../gen/agentcontrol/v1/resources_pb.js";
import {
  APPEARANCES,
  assertAccessible,
  type Dashboard,
  describeInBrowser,
  openDashboard,
  screenshot,
} from "./browser.ts";

const rule = (decision: Decision, pattern: string) => ({
  type: RuleType.ACTION,
  decision,
  conditions: { matchActionTypes: [pattern] },
});

describeInBrowser("the overview", () => {
  let dashboard: Dashboard;
  let page: Page;
  let agentId: string;
  const NAME = 'payer <img src=x onerror="window.hacked=1">\u00a0x';

  const act = (action_type: string) =>
    dashboard.service.rest("POST /v1/enforce/intercept", { agent_id: agentId, action_type });

  before(async () => {
    dashboard = await openDashboard({ rules: [rule(Decision.BLOCK, "drop.*"), rule(Decision.ESCALATE, "pay.*")] });
    agentId = await dashboard.service.agent(NAME);
    await dashboard.service.rest("POST /v1/enforce/mandates", {
      name: "trial",
      mode: "observe",
      rules: [{ type: "action", decision: "block", conditions: { match_action_types: ["read.*"] } }],
    });
    for (const type of ["read.a", "read.b", "read.c", "drop.x", "drop.y", "pay.z"]) await act(type);
    page = await dashboard.open("/");
    await page.waitForSelector("[data-screen=overview] .counts");
  });
  after(() => dashboard.close());

  it("counts decisions by outcome, names the reasons and what waits.", async () => {
    const count = (word: string) => page.locator(`.counts [data-id=${word}] dd`).innerText();
    expect([await count("allowed"), await count("blocked"), await count("escalated")]).to.deep.equal(["3", "2", "1"]);
    const reasons = page.getByRole("region", { name: "Most frequent reasons" });
    expect(await reasons.locator("tbody tr").first().innerText()).to.match(/house rules rules\[0\]\s+2$/);
    const observed = page.getByRole("region", { name: "Observing mandates" });
    expect(await observed.locator("tbody tr").innerText()).to.match(/trial version 1\s+3\s+0/);
    const waiting = page.getByRole("region", { name: "Waiting for a person" });
    await waiting.locator(".big").getByText("1", { exact: true }).waitFor();
    expect(await waiting.locator("[data-age]").allInnerTexts()).to.deep.equal([
      "under 5 minutes\n1",
      "5 minutes to an hour\n0",
      "over an hour\n0",
    ]);
    await page.getByText("ready", { exact: true }).waitFor();
    await page.waitForSelector(".chart canvas");
  });

  it("shows what happens meanwhile, and keeps the window in the address.", async () => {
    await act("pay.more");
    const waiting = page.getByRole("region", { name: "Waiting for a person" }).locator(".big");
    await waiting.getByText("2", { exact: true }).waitFor();
    await page.selectOption("[data-action=window]", "7d");
    await page.waitForURL(/window=7d/);
    await page.reload();
    await page.waitForSelector("[data-screen=overview] .counts");
    expect(await page.locator("[data-action=window]").inputValue()).to.equal("7d");
  });

  it("shows names as they are, inert.", async () => {
    const name = page.getByRole("region", { name: "Lowest trust" }).locator(`[data-id=${agentId}]`);
    expect(await name.locator(".shown").innerText()).to.equal('payer <img src=x onerror="window.hacked=1">U+00A0x');
    expect(await page.evaluate(() => "hacked" in window)).to.equal(false);
  });

  for (const { name, ...appearance } of APPEARANCES) {
    it(`is accessible (${name}).`, async () => {
      const shown = await dashboard.open("/", appearance);
      await shown.waitForSelector(".chart canvas");
      await assertAccessible(shown);
      await screenshot(shown, `overview-${name}`);
    });
  }
});
