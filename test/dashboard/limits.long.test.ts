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
    const velocity = (scope: Scope, maxCount: bigint, decision: Decision) => ({
      type: RuleType.SEQUENCE,
      decision,
      conditions: { mode: SequenceMode.VELOCITY, matchActionTypes: ["pay.*"], maxCount, windowSeconds: 3_600n, scope },
    });
    const steps = { mode: SequenceMode.ORDERED, steps: ["secret.read", "http.*"], windowSeconds: 600n };
    dashboard = await openDashboard({
      rules: [
        velocity(Scope.AGENT, 2n, Decision.BLOCK),
        velocity(Scope.WORKSPACE, 9n, Decision.ESCALATE),
        { type: RuleType.SEQUENCE, decision: Decision.BLOCK, conditions: steps },
      ],
    });
    agentId = await dashboard.service.agent("payer");
    await act("pay.a");
    await act("pay.b");
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
    expect(await own.innerText()).to.match(/^payer\s+2 of 2, the next one fires$/);
  });

  it("follow what happens.", async () => {
    await act("pay.c");
    await page.getByText("3 of 9, 6 left").waitFor();
  });

  it("show those of one agent, and say when there is none of that id.", async () => {
    await page.fill("input[name=agent]", agentId);
    await page.waitForURL(new RegExp(`agent=${agentId}`));
    await page.waitForSelector(".limit");
    await page.fill("input[name=agent]", "agt_nobody");
    await page.getByRole("alert").filter({ hasText: "no agent agt_nobody" }).waitFor();
  });

  for (const { name, ...appearance } of APPEARANCES) {
    it(`are accessible (${name}).`, async () => {
      const shown = await dashboard.open("/limits", appearance);
      await shown.waitForSelector(".limit");
      await assertColumns(shown, "Limits", ["Limit", "Decides", "Mandate", "Counted now"]);
      await assertAccessible(shown);
      await screenshot(shown, `limits-${name}`);
    });
  }
});
