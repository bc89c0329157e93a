import { expect } from "chai";
import { Role } from "../../gen/agentcontrol/v1/access_pb.js";
import { RuleType } from "../../gen/agentcontrol/v1/mandate_service_pb.js";
import { Decision, DecisionPath } from "../../gen/agentcontrol/v1/resources_pb.js";
import { attempt, callerWith, failureOf, openWorkspace, reasonOf, type TestWorkspace } from "../support/harness.ts";

describe("AgentService", () => {
  let test: TestWorkspace;
  let agentId: string;
  let otherId: string;
  before(async () => {
    test = await openWorkspace();
    const { agents, mandates } = test;
    agentId = (await agents.registerAgent({ name: "busy" })).agent?.agentId ?? "";
    otherId = (await agents.registerAgent({ name: "other" })).agent?.agentId ?? "";
    const rule = (decision: Decision, type: string) => ({
      type: RuleType.ACTION,
      decision,
      conditions: { matchActionTypes: [type] },
    });
    const rules = [rule(Decision.BLOCK, "drop"), rule(Decision.ESCALATE, "ask")];
    await mandates.createMandate({ name: "house rules", rules });
    for (const actionType of ["read", "drop", "ask"]) await attempt(test.log, { agentId, actionType });
    for (let index = 0; index < 25; index++) {
      await attempt(test.log, { agentId, actionType: `read.${index}` });
      if (index % 5 === 0) await attempt(test.log, { agentId: otherId, actionType: "noise" });
    }
  });
  after(() => test.close());

  it("gives an agent with its last 20 decisions, newest first.", async () => {
    const { agent, recentDecisions } = await test.agents.getAgent({ agentId });
    const types = recentDecisions.map(({ actionType }) => actionType);
    expect(types).to.deep.equal(Array.from({ length: 20 }, (_, index) => `read.${24 - index}`));
    expect(recentDecisions.every((record) => record.agentId === agentId)).to.equal(true);
    expect(agent?.trustLevel).to.equal(52.7);
  });

  it("gives the trust after each decision and what it changed, beside the decisions.", async () => {
    const { trustHistory, decisions, nextPageToken } = await test.agents.getAgentHistory({ agentId });
    expect(nextPageToken).to.equal(undefined);
    expect(decisions).to.have.length(28);
    const first = trustHistory.slice(-3).reverse();
    expect(first.map(({ trustLevel, change, cause }) => [trustLevel, change, cause])).to.deep.equal([
      [50.2, 0.2, "action_allowed"],
      [48.2, -2, "action_blocked"],
      [47.7, -0.5, "action_escalated"],
    ]);
    expect(trustHistory.map(({ decisionId }) => decisionId)).to.deep.equal(decisions.map((each) => each.decisionId));
    const [asked, dropped] = decisions.slice(-3);
    expect(dropped).to.include({ decision: Decision.BLOCK, policyName: "house rules", trustScore: 50.2 });
    expect(asked).to.include({ decision: Decision.ESCALATE, decisionPath: DecisionPath.POLICY });
    expect(asked?.escalationId).to.equal(asked?.decisionId.replace("dec_", "esc_"));
  });

  it("records the change as applied when trust meets an end of its range.", async () => {
    const { agents, admin } = test;
    await admin.updateWorkspace({ workspaceId: "default", initialTrust: 99.9 });
    const trusted = (await agents.registerAgent({ name: "trusted" })).agent?.agentId ?? "";
    for (let index = 0; index < 2; index++) await attempt(test.log, { agentId: trusted, actionType: "read" });
    const { trustHistory } = await agents.getAgentHistory({ agentId: trusted });
    expect(trustHistory.map(({ trustLevel, change }) => [trustLevel, change])).to.deep.equal([
      [100, 0],
      [100, 0.1],
    ]);
  });

  it("pages through a history without gaps while it grows.", async () => {
    const { agents } = test;
    const all = (await agents.getAgentHistory({ agentId, pageSize: 500 })).decisions.map(({ seq }) => seq);
    const seen: bigint[] = [];
    let pageToken = "";
    do {
      const page = await agents.getAgentHistory({ agentId, pageSize: 9, pageToken });
      seen.push(...page.decisions.map(({ seq }) => seq));
      await attempt(test.log, { agentId, actionType: "later" });
      pageToken = page.nextPageToken ?? "";
    } while (pageToken !== "");
    expect(seen).to.deep.equal(all);
  });

  it("refuses a token of another agent's history, of another list and of another filter.", async () => {
    const { agents } = test;
    const { nextPageToken: pageToken = "" } = await agents.getAgentHistory({ agentId, pageSize: 1 });
    const foreign = agents.getAgentHistory({ agentId: otherId, pageToken });
    expect(await reasonOf(foreign)).to.equal("INVALID_PAGE_TOKEN");
    expect(await reasonOf(agents.listAgents({ pageToken }))).to.equal("INVALID_PAGE_TOKEN");
    const { nextPageToken: listed = "" } = await agents.listAgents({ pageSize: 1 });
    expect(await reasonOf(agents.listAgents({ pageToken: listed, status: 1 }))).to.equal("INVALID_PAGE_TOKEN");
    expect(await reasonOf(agents.listAgents({ pageSize: 501 }))).to.equal("INVALID_FIELD");
  });

  it("shows a bound key its own agent only, whether the other exists or not.", async () => {
    const { agents } = test;
    const bound = callerWith(test.adminCaller, Role.AGENT, agentId);
    expect((await agents.getAgent({ agentId }, bound)).agent?.agentId).to.equal(agentId);
    expect((await agents.getAgentHistory({ agentId }, bound)).decisions).to.not.deep.equal([]);
    for (const foreign of [otherId, "agt_no"]) {
      for (const call of [agents.getAgent, agents.getAgentHistory]) {
        const failure = await failureOf(call({ agentId: foreign }, bound));
        expect(failure.metadata).to.deep.equal({ agent_id: foreign, bound_agent_id: agentId });
      }
      expect(await reasonOf(agents.getAgent({ agentId: foreign }, bound))).to.equal("AGENT_NOT_ALLOWED");
    }
    const unbound = callerWith(test.adminCaller, Role.AGENT);
    expect((await agents.getAgent({ agentId: otherId }, unbound)).agent?.agentId).to.equal(otherId);
  });
});
