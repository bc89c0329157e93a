import type { MessageInitShape } from "@bufbuild/protobuf";
import { expect } from "chai";
import type { InterceptRequestSchema } from "../../gen/agentcontrol/v1/enforcement_service_pb.js";
import { MandateMode, type RuleSchema, RuleType } from "../../gen/agentcontrol/v1/mandate_service_pb.js";
import { Decision, DecisionPath, Scope } from "../../gen/agentcontrol/v1/resources_pb.js";
import { actionRule, openWorkspace, reasonOf, type TestWorkspace } from "../support/harness.ts";

type Request = Partial<Exclude<MessageInitShape<typeof InterceptRequestSchema>, { readonly $typeName: string }>>;
type RuleInit = MessageInitShape<typeof RuleSchema>;

const contentRule = (decision: Decision, ...patterns: string[]): RuleInit => ({
  type: RuleType.CONTENT,
  decision,
  conditions: { patterns },
});

const trustRule = (decision: Decision, below: number): RuleInit => ({
  type: RuleType.TRUST,
  decision,
  conditions: { below },
});

describe("deciding, step by step", () => {
  let test: TestWorkspace;
  let agentId: string;
  beforeEach(async () => {
    test = await openWorkspace();
    agentId = await test.agent();
  });
  afterEach(() => test.close());

  const act = (request: Request = {}) => test.intercept({ agentId, actionType: "pay", ...request } as never);

  async function expectDecided(request: Request, decision: Decision, decisionPath: DecisionPath, code?: string) {
    const reply = await act(request);
    expect(reply).to.include({ decision, decisionPath });
    if (code !== undefined) expect(reply.reasons[0]?.code).to.equal(code);
    return reply;
  }

  const { ALLOW, BLOCK, ESCALATE } = Decision;

  it("an unknown agent gets an error and no decision.", async () => {
    const { seq } = await test.log.caughtUp();
    expect(await reasonOf(act({ agentId: "agt_none" }))).to.equal("AGENT_NOT_FOUND");
    expect((await test.log.caughtUp()).seq).to.equal(seq);
  });

  it("a deactivated agent is refused first, whatever else would refuse it.", async () => {
    await test.agents.deactivateAgent({ agentId });
    await test.mandate([actionRule(ESCALATE, "pay")]);
    const refused = await expectDecided({ sessionId: "ses_x" }, BLOCK, DecisionPath.REVOKED, "AGENT_REVOKED");
    const { body } = await test.receipt(refused.decisionId);
    expect(body.authorisation).to.deep.equal({ collective_limits: [], permissions: "not_evaluated" });
    expect(body.mandates).to.deep.equal([]);
  });

  const identities: readonly [Request, DecisionPath, string][] = [
    [{ onBehalfOf: "agt_other" }, DecisionPath.DELEGATION, "GRANT_MISSING"],
    [{ grantId: "grt_none" }, DecisionPath.DELEGATION, "GRANT_UNKNOWN"],
    [{ sessionId: "ses_none" }, DecisionPath.SESSION, "SESSION_UNKNOWN"],
  ];
  for (const [request, path, code] of identities) {
    it(`a \`${Object.keys(request)[0]}\` that does not exist blocks before permissions are looked at.`, async () => {
      agentId = await test.agent({ permissions: { deniedActionTypes: ["pay"] } });
      await expectDecided(request, BLOCK, path, code);
    });
  }

  it("an `intentContractId` that does not exist blocks, after permissions were looked at.", async () => {
    const contract = { intentContractId: "itc_none" };
    await expectDecided(contract, BLOCK, DecisionPath.INTENT_CONTRACT, "INTENT_CONTRACT_UNKNOWN");
    agentId = await test.agent({ permissions: { deniedActionTypes: ["pay"] } });
    await expectDecided(contract, BLOCK, DecisionPath.PERMISSIONS, "ACTION_DENIED");
  });

  const permissions: readonly [string, object, string, string][] = [
    ["denied", { permissions: { deniedActionTypes: ["PAY*"] } }, "pay.send", "denied"],
    ["denied and allowed", { permissions: { deniedActionTypes: ["pay"], allowedActionTypes: ["*"] } }, "pay", "denied"],
    [
      "denied and among the capabilities",
      { permissions: { deniedActionTypes: ["pay"] }, capabilities: ["pay"] },
      "pay",
      "denied",
    ],
    ["not on the allow-list", { permissions: { allowedActionTypes: ["read"] } }, "pay", "not_listed"],
    ["not among the capabilities", { capabilities: ["read", "write*"] }, "pay", "not_listed"],
    [
      "on the allow-list",
      { permissions: { allowedActionTypes: ["pay"] }, capabilities: ["read"] },
      " Pay ",
      "admitted",
    ],
    [
      "among the capabilities",
      { permissions: { allowedActionTypes: ["read"] }, capabilities: ["pa*"] },
      "pay",
      "admitted",
    ],
    ["of an agent without lists", {}, "anything", "admitted"],
  ];
  for (const [what, lists, actionType, want] of permissions) {
    it(`an action ${what} is ${want}.`, async () => {
      agentId = await test.agent(lists);
      const reply = await act({ actionType });
      const isAdmitted = want === "admitted";
      expect(reply.decisionPath).to.equal(isAdmitted ? DecisionPath.DEFAULT : DecisionPath.PERMISSIONS);
      expect(reply.decision).to.equal(isAdmitted ? ALLOW : BLOCK);
      expect((await test.receipt(reply.decisionId)).body.authorisation.permissions).to.equal(want);
      expect(reply.reasons[0]?.wouldPass).to.equal(undefined);
    });
  }

  it("permissions refuse before mandates are looked at.", async () => {
    agentId = await test.agent({ capabilities: ["read"] });
    await test.mandate([actionRule(ESCALATE, "pay")]);
    await expectDecided({}, BLOCK, DecisionPath.PERMISSIONS);
  });

  for (const [word, decision] of [
    ["allow", ALLOW],
    ["block", BLOCK],
    ["escalate", ESCALATE],
  ] as const) {
    it(`without a mandate that matches, the workspace's default \`${word}\` decides.`, async () => {
      const { workspaceId } = test;
      await test.admin.updateWorkspace({ workspaceId, defaultDecision: decision });
      await test.mandate([actionRule(BLOCK, "other")]);
      const reply = await expectDecided({}, decision, DecisionPath.DEFAULT, "DEFAULT");
      expect(reply.policyName).to.equal(undefined);
      expect(reply.escalationId === undefined).to.equal(decision !== ESCALATE);
    });
  }

  it("the most restrictive of all mandates wins, whatever their priorities.", async () => {
    await test.mandate([actionRule(ALLOW, "pay")], { name: "allows", priority: 100 });
    await expectDecided({}, ALLOW, DecisionPath.POLICY);
    await test.mandate([actionRule(ESCALATE, "pay")], { name: "escalates", priority: 50 });
    expect((await expectDecided({}, ESCALATE, DecisionPath.POLICY)).policyName).to.equal("escalates");
    await test.mandate([actionRule(BLOCK, "pay")], { name: "blocks", priority: -5 });
    const reply = await expectDecided({}, BLOCK, DecisionPath.POLICY);
    expect(reply.policyName).to.equal("blocks");
    expect(reply.reasons.map(({ mandateName }) => mandateName)).to.deep.equal(["blocks", "escalates", "allows"]);
  });

  it("a tie goes to the higher priority, then to the first name.", async () => {
    for (const name of ["second", "first"]) await test.mandate([actionRule(BLOCK, "pay")], { name });
    expect((await act()).policyName).to.equal("first");
    await test.mandate([actionRule(BLOCK, "pay")], { name: "third", priority: 1 });
    expect((await act()).policyName).to.equal("third");
  });

  it("an observing mandate is recorded and decides nothing.", async () => {
    const observer = await test.mandate([actionRule(BLOCK, "pay")], { mode: MandateMode.OBSERVE });
    const reply = await expectDecided({}, ALLOW, DecisionPath.DEFAULT);
    const { body } = await test.receipt(reply.decisionId);
    expect(body.observed).to.have.length(1);
    expect(body.observed[0]).to.deep.include({ mandate_id: observer, version: 1, would_decide: "block" });
    expect(body.observed[0]?.reasons[0]?.code).to.equal("ACTION_MATCHED");
    expect(body.trust).to.deep.equal({ before: 50, after: 50.2 });
  });

  it("a mandate of a scope covers its agent or its department alone.", async () => {
    const [member, other] = [await test.agent(), await test.agent()];
    const departmentId = await test.department(member);
    await test.mandate([actionRule(ESCALATE, "pay")], { scope: Scope.DEPARTMENT, departmentId });
    await test.mandate([actionRule(BLOCK, "pay")], { scope: Scope.AGENT, agentId });
    await expectDecided({}, BLOCK, DecisionPath.POLICY);
    await expectDecided({ agentId: member }, ESCALATE, DecisionPath.POLICY);
    await expectDecided({ agentId: other }, ALLOW, DecisionPath.DEFAULT);
    await test.departments.addDepartmentMember({ departmentId, agentId: other });
    await expectDecided({ agentId: other }, ESCALATE, DecisionPath.POLICY);
  });

  it("a mandate that a new tool schema made stale still blocks the tool's calls, and no others.", async () => {
    const { tools } = test;
    const schema = (name: string) => ({ type: "object", properties: { [name]: { type: "number" } } });
    await tools.registerTool({ name: "till", inputSchema: schema("amount") });
    const rule = { field: "amount", operator: ">", value: { kind: { case: "numberValue" as const, value: 500 } } };
    await test.mandate([{ tool: "till", decision: BLOCK, conditions: { rules: [rule as never] } }]);
    const metadata = { arguments: { amount: 501 } };
    const blocked = await expectDecided({ tool: "till", metadata }, BLOCK, DecisionPath.POLICY, "CONDITION_HELD");
    expect(blocked.reasons[0]).to.include({ argument: "amount", rule: "rules[0].conditions.rules[0]" });
    expect(blocked.reasons[0]?.wouldPass).to.equal("would allow at amount <= 500");
    await tools.registerTool({ name: "till", inputSchema: schema("total") });
    await expectDecided({ tool: "till", metadata }, BLOCK, DecisionPath.POLICY, "MANDATE_STALE");
    await expectDecided({ metadata }, ALLOW, DecisionPath.DEFAULT);
    await tools.registerTool({ name: "till", inputSchema: schema("amount") });
    await expectDecided({ tool: "till", metadata }, BLOCK, DecisionPath.POLICY, "CONDITION_HELD");
  });

  it("a content rule finds its pattern in the content, without case.", async () => {
    await test.mandate([contentRule(BLOCK, "secret\\s+plan", "^wire")]);
    await expectDecided({ actionContent: "the SECRET  plan" }, BLOCK, DecisionPath.POLICY, "CONTENT_MATCHED");
    await expectDecided({ actionContent: "Wire it" }, BLOCK, DecisionPath.POLICY, "CONTENT_MATCHED");
    await expectDecided({ actionContent: "a wire" }, ALLOW, DecisionPath.DEFAULT);
    await expectDecided({}, ALLOW, DecisionPath.DEFAULT);
  });

  it("a trust rule holds below its limit and not at it.", async () => {
    await test.mandate([trustRule(ESCALATE, 50)]);
    await expectDecided({}, ALLOW, DecisionPath.DEFAULT);
    await test.mandate([contentRule(BLOCK, "bad")]);
    await act({ actionContent: "bad" });
    const reply = await expectDecided({}, ESCALATE, DecisionPath.POLICY, "TRUST_BELOW");
    expect(reply.trustScore).to.equal(48.2);
  });

  it("trust moves by +0.2, -2.0 and -0.5, and the reply tells the score before.", async () => {
    await test.mandate([actionRule(BLOCK, "block"), actionRule(ESCALATE, "ask")]);
    const types = ["ok", "block", "ask", "ok", "ok", "block", "block", "ask"];
    const want = [50, 50.2, 48.2, 47.7, 47.9, 48.1, 46.1, 44.1];
    const scores: number[] = [];
    for (const actionType of types) scores.push((await act({ actionType })).trustScore);
    expect(scores).to.deep.equal(want);
    const { agent } = await test.agents.getAgent({ agentId });
    expect(agent?.trustLevel).to.equal(43.6);
  });

  it("trust stays within 0 and 100, and moves again from there.", async () => {
    await test.mandate([actionRule(BLOCK, "block"), actionRule(ESCALATE, "ask")]);
    for (let count = 0; count < 26; count++) await act({ actionType: "block" });
    expect((await act({ actionType: "ask" })).trustScore).to.equal(0);
    expect((await act({ actionType: "ok" })).trustScore).to.equal(0);
    expect((await act({ actionType: "ok" })).trustScore).to.equal(0.2);
    const risen = await Promise.all(Array.from({ length: 505 }, () => act({ actionType: "ok" })));
    expect(Math.max(...risen.map(({ trustScore }) => trustScore))).to.equal(100);
    expect((await act({ actionType: "ask" })).trustScore).to.equal(100);
    expect((await act({ actionType: "ok" })).trustScore).to.equal(99.5);
  });

  it("a new version and the end of a mandate count from the next decision on.", async () => {
    const { mandates } = test;
    const mandateId = await test.mandate([actionRule(BLOCK, "pay")], { name: "versions" });
    await expectDecided({}, BLOCK, DecisionPath.POLICY);
    await mandates.updateMandate({ mandateId, name: "versions", rules: [actionRule(ESCALATE, "pay")] });
    const second = await expectDecided({}, ESCALATE, DecisionPath.POLICY);
    expect((await test.receipt(second.decisionId)).body.mandates[0]).to.include({ mandate_id: mandateId, version: 2 });
    await mandates.archiveMandate({ mandateId });
    await expectDecided({}, ALLOW, DecisionPath.DEFAULT);
  });
});
