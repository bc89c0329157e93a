import { expect } from "chai";
import type { Page } from "playwright-core";
import { RuleType, SequenceMode } from "../../gen/agentcontrol/v1/mandate_service_pb.js";
import { Decision, Scope } from "../../gen/agentcontrol/v1/resources_pb.js";
import {
  APPEARANCES,
  assertAccessible,
  assertColumns,
  type Dashboard,
  describeInBrowser,
  openDashboard,
  screenshot,
} from "./browser.ts";

describeInBrowser("the limits", () => {
  let dashboard: Dashboard;
  let page: Page;
  let agentId: string;

  const act = (action_type: string) =>
    dashboard.service.rest("POST /v1/enforce/intercept", { agent_id: agentId, action_type });

  before(async () => {
    const velocity = (scope: Scope, maxCount: bigint, decision: Decision, actionType = "pay.*") => ({
      type: RuleType.SEQUENCE,
      decision,
      conditions: {
        mode: SequenceMode.VELOCITY,
        matchActionTypes: [actionType],
        maxCount,
        windowSeconds: 3_600n,
        scope,
      },
    });
    const steps = { mode: SequenceMode.ORDERED, steps: ["secret.read", "http.*"], windowSeconds: 600n };
    dashboard = await openDashboard({
      rules: [
        velocity(Scope.AGENT, 2n, Decision.BLOCK),
        velocity(Scope.WORKSPACE, 9n, Decision.ESCALATE),
        velocity(Scope.AGENT, 100n, Decision.BLOCK),
        velocity(Scope.WORKSPACE, 5n, Decision.BLOCK, "mail.*"),
        { type: RuleType.SEQUENCE, decision: Decision.BLOCK, conditions: steps },
      ],
    });
    agentId = await dashboard.service.agent("payer");
    await act("pay.a");
    await act("pay.b");
    for (let count = 0; count < 4; count++) await act("mail.send");
    page = await dashboard.open("/limits");
    await page.waitForSelector("[data-screen=limits] .limit");
  });
  after(() => dashboard.close());

  it("show each rule in a sentence with its counts.", async () => {
    const texts = await page.locator(".limit-sentence").allInnerTexts();
    expect(texts).to.include(
      "More than 2 of pay.* within 1 h; counted for each agent, also what others do on its behalf.",
    );
    expect(texts).to.include("More than 9 of pay.* within 1 h; counted for the workspace together.");
    expect(texts).to.include("secret.read, then http.* within 10 min; counted for each agent.");
    const own = page.locator(`.limit [data-id=${agentId}]`).first();
    expect(await own.innerText()).to.match(
      /^payer\s+2 of 2, the next one fires; one more fits from (\d+ \w+ \d{4}, )?\d\d:\d\d:\d\d$/,
    );
  });

  it("come with the fullest first, and say in words how full they are.", async () => {
    const filled = () => page.locator('.limit [data-title="Filled"]').allInnerTexts();
    expect((await filled()).map((text) => text.replace("Filled", "").trim())).to.deep.equal([
      "full",
      "80 %, nearly full",
      "22 %",
      "2 %",
      "nothing yet",
    ]);
    expect(await page.locator(".bar.is-full").count()).to.equal(1);
    expect(await page.locator(".bar.is-near").count()).to.equal(1);
    await page.selectOption("select[name=order]", "rule");
    await page.waitForURL(/order=rule/);
    await page.waitForFunction(
      () => document.querySelector('.limit [data-title="Filled"]')?.textContent?.includes("full") === true,
    );
    await page.selectOption("select[name=order]", "");
    await page.waitForSelector(".limit");
  });

  it("call a sequence with one step left by its steps, not full.", async () => {
    await act("secret.read");
    const sequence = page.locator(".limit", { hasText: "secret.read, then http.*" });
    await sequence.getByText("last step left").waitFor();
    const group = sequence.locator(`[data-id=${agentId}]`);
    expect(await group.innerText()).to.match(/^payer\s+1 of 2 steps, the last one fires$/);
    expect(await group.locator(".bar > span").getAttribute("style")).to.equal("width: 50%;");
    expect(await sequence.locator(".bar.is-full").count()).to.equal(0);
  });

  it("draw the history of their windows.", async () => {
    const bars = page.locator(".limit").first().getByRole("img");
    expect(await bars.getAttribute("aria-label")).to.equal(
      "payer: 2 actions within 1 h, at most 2 in 2 min 30 s, the latest just now",
    );
    expect(await bars.locator("span").count()).to.equal(24);
  });

  it("follow what happens.", async () => {
    await act("pay.c");
    await page.getByText("3 of 9, 6 left").waitFor();
  });

  it("show those of one agent, and say when there is none of that id.", async () => {
    await page.fill("input[name=agent]", "pay");
    await page.getByRole("option", { name: "payer" }).click();
    await page.waitForURL(new RegExp(`agent=${agentId}`));
    await page.waitForSelector(".limit");
    await page.fill("input[name=agent]", "agt_nobody");
    await page.keyboard.press("Enter");
    await page.getByRole("alert").filter({ hasText: "no agent agt_nobody" }).waitFor();
  });

  for (const { name, ...appearance } of APPEARANCES) {
    it(`are accessible (${name}).`, async () => {
      const shown = await dashboard.open("/limits", appearance);
      await shown.waitForSelector(".limit");
      await assertColumns(shown, "Limits", ["Limit", "Filled", "Decides", "Mandate", "Counted now"]);
      await assertAccessible(shown);
      await screenshot(shown, `limits-${name}`);
    });
  }
});
