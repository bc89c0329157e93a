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
    await page.waitForSelector(".chart canvas");
    expect(await page.getByText("Health").count()).to.equal(0);
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

  describe("draws decisions as bars", () => {
    /** Returns the place on the page of the newest bar that has decisions, or of an outcome of it. */
    async function barOf(on: Page, outcome?: string) {
      // What is read later moves the chart of a narrow page.
      await on.waitForSelector("[data-need=waiting]");
      await on.waitForSelector(".outcome-chart canvas");
      const mark = on.locator("[data-action=open-decisions]");
      await mark.focus();
      await on.keyboard.press("End");
      const steps = ["allowed", "escalated", "blocked"].indexOf(outcome ?? "") + 1;
      for (let step = 0; step < steps; step++) await on.keyboard.press("ArrowUp");
      const box = await mark.boundingBox();
      await mark.blur();
      const { x, y, width, height } = box ?? { x: 0, y: 0, width: 0, height: 0 };
      return { x: x + width / 2, y: y + height / 2, width };
    }
    const filtersOf = (on: Page) => Object.fromEntries(new URL(on.url()).searchParams);

    it("that tell their time and counts below the pointer, and open their decisions at a click.", async () => {
      const shown = await dashboard.open("/overview?window=7d");
      const { x, y } = await barOf(shown, "blocked");
      await shown.mouse.move(x, y);
      const tip = shown.locator("[data-tip]");
      await tip.locator(".is-marked", { hasText: "2 blocked" }).waitFor();
      expect(await tip.innerText())
        .to.match(/^\d+ \w+, \d\d:\d\d to /)
        .and.to.contain("3 allowed");
      await shown.mouse.click(x, y);
      await shown.waitForSelector("[data-screen=decisions]");
      const { decision, since = "", until = "" } = filtersOf(shown);
      expect([decision, Date.parse(until) - Date.parse(since)]).to.deep.equal(["block", 14_400_000]);
      await shown.locator("[data-screen=decisions] [data-id]").nth(1).waitFor();
      expect(await shown.locator("[data-screen=decisions] li[data-id]", { hasText: "drop." }).count()).to.equal(2);
    });

    it("that the keyboard walks through, in words, and opens with Enter.", async () => {
      const shown = await dashboard.open("/overview?window=7d");
      await shown.waitForSelector(".outcome-chart canvas");
      const mark = shown.locator("[data-action=open-decisions]");
      await mark.focus();
      await shown.keyboard.press("ArrowLeft");
      const told = shown.locator(".outcome-chart [role=status]");
      await told.getByText(/: 0 allowed, 0 escalated, 0 blocked$/).waitFor();
      await shown.keyboard.press("End");
      await told.getByText(/: 3 allowed, \d escalated, 2 blocked$/).waitFor();
      await shown.keyboard.press("ArrowUp");
      await told.getByText(/: 3 allowed$/).waitFor();
      await shown.keyboard.press("ArrowDown");
      await shown.keyboard.press("ArrowDown");
      await told.getByText(/: 2 blocked$/).waitFor();
      expect(await mark.getAttribute("aria-label")).to.equal(`Decisions of ${await told.innerText()}`);
      await shown.keyboard.press("Enter");
      await shown.waitForSelector("[data-screen=decisions]");
      expect(filtersOf(shown).decision).to.equal("block");
    });

    it("that a tap tells, and a second one opens.", async () => {
      const context = await dashboard.browser.newContext({
        baseURL: dashboard.service.http,
        hasTouch: true,
        viewport: { width: 390, height: 900 },
        storageState: await page.context().storageState(),
      });
      const shown = await dashboard.open("/overview?window=7d", { context });
      const { x, y } = await barOf(shown, "blocked");
      const main = shown.locator("main#content");
      expect(await main.evaluate((element) => element.scrollWidth <= element.clientWidth)).to.equal(true);
      await shown.touchscreen.tap(x, y);
      await shown.locator("[data-tip] .is-marked", { hasText: "2 blocked" }).waitFor();
      expect(new URL(shown.url()).pathname).to.equal("/overview");
      await shown.touchscreen.tap(x, y);
      await shown.waitForSelector("[data-screen=decisions]");
      expect(filtersOf(shown).decision).to.equal("block");
      await context.close();
    });

    it("that open without an outcome beside what was decided.", async () => {
      const shown = await dashboard.open("/overview?window=7d");
      const { x, y, width } = await barOf(shown);
      // The bar before, in which nothing was decided.
      await shown.mouse.click(x - width, y);
      await shown.waitForSelector("[data-screen=decisions]");
      expect(Object.keys(filtersOf(shown)).sort()).to.deep.equal(["since", "until"]);
    });
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
