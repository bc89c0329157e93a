import { fromJson, type MessageInitShape, toJson } from "@bufbuild/protobuf";
import { expect } from "chai";
import { Role } from "../../gen/agentcontrol/v1/access_pb.js";
import { PromptSource } from "../../gen/agentcontrol/v1/admin_service_pb.js";
import { AgentRequirement } from "../../gen/agentcontrol/v1/agent_service_pb.js";
import {
  type CreateIntentContractRequestSchema,
  OutsideContract,
} from "../../gen/agentcontrol/v1/authority_service_pb.js";
import { GetDecisionResponseSchema, ObservationSource } from "../../gen/agentcontrol/v1/enforcement_service_pb.js";
import { ConditionsSchema, ProvenanceFires, RuleType } from "../../gen/agentcontrol/v1/mandate_service_pb.js";
import { Decision, Scope, ValueKind } from "../../gen/agentcontrol/v1/resources_pb.js";
import { MAX_SESSIONS } from "../../src/authority/by-agent.ts";
import type { KeyHolder } from "../../src/registry/authenticator.ts";
import { assertAnswers } from "../../src/verify/contradictions.ts";
import { parseEntry } from "../../src/verify/entry.ts";
import { backtest, draftOf } from "../dryrun/run-backtest.ts";
import { fieldsOf, openWorkspace, reasonOf, type TestWorkspace } from "../support/harness.ts";

type ContractInit = MessageInitShape<typeof CreateIntentContractRequestSchema>;

describe("authority that an agent makes for itself", () => {
  let test: TestWorkspace;
  before(async () => {
    test = await openWorkspace();
    for (const name of ["read", "send"]) await test.tools.registerTool({ name, inputSchema: { type: "object" } });
  });
  after(() => test.close());

  const keyOf = (agentId: string | null): KeyHolder => {
    return { keyId: "key_agent", workspaceId: test.workspaceId, role: Role.AGENT, agentId };
  };
  const begin = async (agentId: string, key?: KeyHolder): Promise<string> =>
    (await test.authority.createSession({ agentId }, key)).session?.sessionId ?? "";
  const plan = async (init: ContractInit, key?: KeyHolder): Promise<string> =>
    (await test.authority.createIntentContract({ goal: "x", steps: [{ tool: "read" }], ...init }, key)).intentContract
      ?.intentContractId ?? "";
  const tell = async (agentId: string, tool: string, over: object = {}): Promise<string> => {
    const { decision, path, reasons } = await test.decideIn(0, { agentId, actionType: "call", tool, ...over });
    return `${decision} ${path} ${reasons[0]?.code}`;
  };
  const ALLOWED = "allow default DEFAULT";

  it("is a session that the agent begins, acts in and ends.", async () => {
    const agentId = await test.agent("a");
    const key = keyOf(agentId);
    const sessionId = await begin(agentId, key);
    expect(await tell(agentId, "send", { sessionId })).to.equal(ALLOWED);
    expect((await test.authority.getSession({ sessionId }, key)).session).to.include({ agentId, byAgent: true });
    await test.authority.endSession({ sessionId }, key);
    await test.authority.endSession({ sessionId }, key);
    expect(await tell(agentId, "send", { sessionId })).to.equal("block session SESSION_UNKNOWN");
  });

  it("is never another agent's, whose sessions are unknown to it.", async () => {
    const [agentId, other] = [await test.agent("a"), await test.agent("b")];
    const key = keyOf(agentId);
    const ofOther = await begin(other, keyOf(other));
    const { authority } = test;
    expect(await reasonOf(() => authority.createSession({ agentId: other }, key))).to.equal("AGENT_NOT_ALLOWED");
    for (const call of [
      () => authority.getSession({ sessionId: ofOther }, key),
      () => authority.endSession({ sessionId: ofOther }, key),
      () => authority.getSession({ sessionId: "ses_none" }, key),
      () => authority.endSession({ sessionId: "ses_none" }, key),
      () => plan({ agentId, sessionId: ofOther }, key),
    ])
      expect(await reasonOf(call)).to.equal("AUTHORITY_NOT_FOUND");
    expect(await reasonOf(() => plan({ agentId: other, sessionId: ofOther }, key))).to.equal("AGENT_NOT_ALLOWED");
    expect(await tell(other, "send", { sessionId: ofOther })).to.equal(ALLOWED);
  });

  it("is as good as an operator's where a key is bound to no agent, and ends no more.", async () => {
    const agentId = await test.agent("a");
    const sessionId = await begin(agentId, keyOf(null));
    const ofOperator = await begin(agentId);
    expect((await test.authority.getSession({ sessionId }, keyOf(null))).session?.byAgent).to.equal(true);
    await test.authority.endSession({ sessionId }, keyOf(null));
    const end = () => test.authority.endSession({ sessionId: ofOperator }, keyOf(null));
    expect(await reasonOf(end)).to.equal("OPERATOR_NEEDED");
  });

  it("leaves alone what operators made: their sessions and their plans.", async () => {
    const agentId = await test.agent("a");
    const key = keyOf(agentId);
    const sessionId = await begin(agentId);
    await plan({ agentId, sessionId });
    expect(await reasonOf(() => test.authority.endSession({ sessionId }, key))).to.equal("OPERATOR_NEEDED");
    expect(await reasonOf(() => plan({ agentId, sessionId, steps: [{ tool: "send" }] }, key))).to.equal(
      "SESSION_HAS_CONTRACT",
    );
    expect(await tell(agentId, "send", { sessionId })).to.equal("block intent_contract OUTSIDE_CONTRACT");
  });

  it("lasts a week at most, and is refused to an agent that is not active.", async () => {
    const agentId = await test.agent("a");
    const key = keyOf(agentId);
    const lasting = (ttlSeconds: bigint) => test.authority.createSession({ agentId, ttlSeconds }, key);
    await lasting(604_800n);
    expect(await fieldsOf(lasting(604_801n))).to.deep.equal(["ttl_seconds"]);
    await test.agents.deactivateAgent({ agentId });
    expect(await reasonOf(() => begin(agentId, key))).to.equal("AGENT_INACTIVE");
  });

  it("is at most a thousand sessions in force, which are its own.", async () => {
    const agentId = await test.agent("a");
    const key = keyOf(agentId);
    await begin(agentId);
    const first = await begin(agentId, key);
    for (let made = 1; made < MAX_SESSIONS; made += 100)
      await Promise.all(Array.from({ length: Math.min(100, MAX_SESSIONS - made) }, () => begin(agentId, key)));
    expect(await reasonOf(() => begin(agentId, key))).to.equal("TOO_MANY_SESSIONS");
    await begin(agentId);
    await test.authority.endSession({ sessionId: first }, key);
    await begin(agentId, key);
    await test.clock.ahead(86_400_001, async () => begin(agentId, key));
  }).timeout(60_000);

  it("is a plan that narrows what the agent may do, and ends with its session alone.", async () => {
    const agentId = await test.agent("a");
    const key = keyOf(agentId);
    const sessionId = await begin(agentId, key);
    const intentContractId = await plan({ agentId, sessionId }, key);
    expect(await tell(agentId, "read", { sessionId })).to.equal(ALLOWED);
    expect(await tell(agentId, "send", { sessionId })).to.equal("block intent_contract OUTSIDE_CONTRACT");
    expect(await reasonOf(() => plan({ agentId, sessionId, steps: [{ tool: "send" }] }, key))).to.equal(
      "SESSION_HAS_CONTRACT",
    );
    const { decisionId } = await test.enforcement.intercept({ agentId, actionType: "call", tool: "read", sessionId });
    const answer = await test.enforcement.getDecision({ decisionId });
    expect(answer.receipt?.contracts).to.have.length(1);
    expect(answer.receipt?.contracts[0]).to.include({ intentContractId, inside: true, step: 0, byAgent: true });
    const told = () => toJson(GetDecisionResponseSchema, answer, { useProtoFieldName: true }) as never;
    const body = parseEntry(answer.receipt?.canonicalBody ?? "", Number(answer.receipt?.index));
    assertAnswers(told(), body);
    const [covering] = answer.receipt?.contracts ?? [];
    if (covering !== undefined) covering.byAgent = false;
    expect(() => assertAnswers(told(), body)).to.throw("receipt.contracts");
    await test.authority.endIntentContract({ intentContractId });
    expect(await tell(agentId, "send", { sessionId })).to.equal(ALLOWED);
  });

  it("gives no plan without a session, and none that leaves actions to the rules.", async () => {
    const agentId = await test.agent("a");
    const key = keyOf(agentId);
    const sessionId = await begin(agentId, key);
    const make = (init: ContractInit) => test.authority.createIntentContract({ goal: "x", agentId, ...init }, key);
    expect(await fieldsOf(make({ allowedActionTypes: ["*"] }))).to.deep.equal(["session_id"]);
    const steps = [{ tool: "read" }];
    expect(await fieldsOf(make({ sessionId, steps, outside: OutsideContract.RULES }))).to.deep.equal(["outside"]);
    await make({ sessionId, steps, outside: OutsideContract.ESCALATE });
    expect(await tell(agentId, "send", { sessionId })).to.equal("escalate intent_contract OUTSIDE_CONTRACT");
  });

  it("is no plan to rules, which would allow more inside of one, or ask less.", async () => {
    const agentId = await test.agent("a");
    const rules = [
      { type: RuleType.ACTION, decision: Decision.BLOCK, when: 'plan.state == "none"' },
      { type: RuleType.ACTION, decision: Decision.ALLOW, when: 'plan.state == "inside"' },
    ];
    await test.mandates.createMandate({ name: agentId, scope: Scope.AGENT, agentId, rules });
    const sessionId = await begin(agentId, keyOf(agentId));
    await plan({ agentId, sessionId }, keyOf(agentId));
    expect(await tell(agentId, "read", { sessionId })).to.match(/^block policy/);
    const ofOperator = await begin(agentId);
    await plan({ agentId, sessionId: ofOperator });
    expect(await tell(agentId, "read", { sessionId: ofOperator })).to.match(/^allow/);
    for (const own of [sessionId, ofOperator])
      await test.intercept({ agentId, actionType: "call", tool: "read", sessionId: own });
    const draft = draftOf("asks", [
      { type: RuleType.ACTION, decision: Decision.ESCALATE, when: 'plan.state == "inside"' },
    ]);
    expect((await backtest(test, { drafts: [draft], agentId })).changes, "and in a backtest").to.have.length(1);
  });

  it("is the contract that an agent must have, unless operators alone say what agents are asked.", async () => {
    const agentId = await test.agent({ name: "planned", requires: [AgentRequirement.CONTRACT] });
    const sessionId = await begin(agentId, keyOf(agentId));
    expect(await tell(agentId, "read", { sessionId })).to.equal("block intent_contract CONTRACT_REQUIRED");
    await plan({ agentId, sessionId }, keyOf(agentId));
    expect(await tell(agentId, "read", { sessionId })).to.not.include("CONTRACT_REQUIRED");
    const { workspaceId } = test;
    await test.admin.updateWorkspace({ workspaceId, promptFrom: PromptSource.OPERATOR });
    expect(await tell(agentId, "read", { sessionId })).to.equal("block intent_contract CONTRACT_REQUIRED");
    const ofOperator = await begin(agentId);
    await plan({ agentId, sessionId: ofOperator });
    expect(await tell(agentId, "read", { sessionId: ofOperator })).to.not.include("CONTRACT_REQUIRED");
    await test.admin.updateWorkspace({ workspaceId, promptFrom: PromptSource.AGENT });
  });

  it("names values that rules trust, unless operators alone say what agents are asked.", async () => {
    const inputSchema = { type: "object", properties: { to: { type: "string" } } };
    await test.tools.registerTool({ name: "mail", inputSchema });
    const agentId = await test.agent("a");
    const conditions = {
      arguments: [{ path: "to", kind: ValueKind.DESTINATION }],
      trusted: [{ kind: { case: "stringValue" as const, value: "contract" } }],
      fires: ProvenanceFires.NOT_TRUSTED,
    };
    const rule = { type: RuleType.PROVENANCE, tool: "mail", decision: Decision.ESCALATE, conditions };
    await test.mandates.createMandate({ name: agentId, scope: Scope.AGENT, agentId, rules: [rule] });
    const steps = [
      {
        tool: "mail",
        conditions: fromJson(ConditionsSchema, { rules: [{ field: "to", operator: "==", value: "bob@x.example" }] }),
      },
    ];
    const own = await begin(agentId, keyOf(agentId));
    await plan({ agentId, sessionId: own, steps }, keyOf(agentId));
    const ofOperator = await begin(agentId);
    await plan({ agentId, sessionId: ofOperator, steps });
    const told = async (sessionId: string): Promise<string> => {
      await test.enforcement.observe({ sessionId, source: ObservationSource.PROMPT, content: "do as planned" });
      return await tell(agentId, "mail", { sessionId, metadata: { arguments: { to: "bob@x.example" } } });
    };
    expect([await told(own), await told(ofOperator)]).to.deep.equal([ALLOWED, ALLOWED]);
    const { workspaceId } = test;
    await test.admin.updateWorkspace({ workspaceId, promptFrom: PromptSource.OPERATOR });
    expect(await told(own)).to.equal("escalate policy PROVENANCE_NOT_TRUSTED");
    expect(await told(ofOperator)).to.equal(ALLOWED);
    await test.admin.updateWorkspace({ workspaceId, promptFrom: PromptSource.AGENT });
  });

  it("is nothing else: keys of agents make and list no other authority.", async () => {
    const agentId = await test.agent("a");
    const key = keyOf(agentId);
    const sessionId = await begin(agentId, key);
    const intentContractId = await plan({ agentId, sessionId }, key);
    const { authority } = test;
    for (const call of [
      () => authority.endIntentContract({ intentContractId }, key),
      () => authority.listSessions({}, key),
      () => authority.listIntentContracts({}, key),
      () => authority.createCredential({ agentId }, key),
      () => authority.createTemporalWindow({ agentId, actionTypes: ["*"], durationSeconds: 60n }, key),
      () => authority.createGrant({ grantorAgentId: agentId, granteeAgentId: "agt_x", actionTypes: ["*"] }, key),
    ])
      expect(await reasonOf(call)).to.equal("ROLE_NOT_ALLOWED");
  });
});
