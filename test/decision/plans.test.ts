import { fromJson, type MessageInitShape, toJson } from "@bufbuild/protobuf";
import { expect } from "chai";
import {
  type CreateIntentContractRequestSchema,
  OutsideContract,
  type PlanStepSchema,
} from "../../gen/agentcontrol/v1/authority_service_pb.js";
import { GetDecisionResponseSchema, ObservationSource } from "../../gen/agentcontrol/v1/enforcement_service_pb.js";
import { ConditionsSchema, RuleType } from "../../gen/agentcontrol/v1/mandate_service_pb.js";
import { Decision, Scope } from "../../gen/agentcontrol/v1/resources_pb.js";
import { assertAnswers } from "../../src/verify/contradictions.ts";
import { parseEntry } from "../../src/verify/entry.ts";
import { backtest, draftOf } from "../dryrun/run-backtest.ts";
import { type InterceptInit, openWorkspace, reasonOf, type TestWorkspace } from "../support/harness.ts";

type Step = MessageInitShape<typeof PlanStepSchema>;
type ContractInit = MessageInitShape<typeof CreateIntentContractRequestSchema>;

const ALLOWED = "allow default DEFAULT";
const OUTSIDE = "block intent_contract OUTSIDE_CONTRACT";

describe("a plan", () => {
  let test: TestWorkspace;
  before(async () => {
    test = await openWorkspace({ replicas: 2 });
    const properties = { to: { type: "string" }, amount: { type: "number" } };
    for (const name of ["send", "read", "pay"])
      await test.tools.registerTool({ name, inputSchema: { type: "object", properties } });
  });
  after(() => test.close());

  const contract = async (init: ContractInit): Promise<string> =>
    (await test.authority.createIntentContract({ goal: "send the report", ...init })).intentContract
      ?.intentContractId ?? "";
  const plan = (agentId: string, steps: readonly Step[], over: ContractInit = {}): Promise<string> =>
    contract({ agentId, steps: [...steps], ...over });
  const session = async (agentId: string): Promise<string> =>
    (await test.authority.createSession({ agentId })).session?.sessionId ?? "";
  const call = (agentId: string, tool: string, args: object = {}, over: InterceptInit = {}): InterceptInit => {
    return { agentId, actionType: "call", tool, metadata: { arguments: args as never }, ...over };
  };
  const tell = async (tried: InterceptInit, ms = 0): Promise<string> => {
    const { decision, path, reasons } = await test.decideIn(ms, tried);
    return `${decision} ${path} ${reasons[0]?.code}`;
  };
  const contractsOf = async (tried: InterceptInit, replica?: TestWorkspace["replicas"][number]) => {
    const { decisionId } = await test.intercept(tried, replica);
    const { receipt } = await test.enforcement.getDecision({ decisionId });
    return receipt?.contracts.map(({ intentContractId, inside, step }) => ({ intentContractId, inside, step }));
  };
  const where = (field: string, operator: string, value: string | number) =>
    fromJson(ConditionsSchema, { rules: [{ field, operator, value }] });
  const to = (value: string) => where("to", "==", value);

  it("admits the calls of its steps and no other.", async () => {
    const agentId = await test.agent("a");
    const intentContractId = await plan(agentId, [{ tool: "Send", conditions: to("bob") }, { tool: "read" }]);
    const named = (tool: string, args?: object) => call(agentId, tool, args, { intentContractId });
    expect(await tell(named("send", { to: "bob" }))).to.equal(ALLOWED);
    expect(await tell(named("send", { to: " BOB" }))).to.equal(ALLOWED);
    expect(await tell(named("read", { to: "eve" }))).to.equal(ALLOWED);
    for (const args of [{ to: "eve" }, {}, { to: null }, { to: ["bob"] }, { to: { bob: "bob" } }])
      expect(await tell(named("send", args)), JSON.stringify(args)).to.equal(OUTSIDE);
    expect(await tell(named("pay", { to: "bob" }))).to.equal(OUTSIDE);
    expect(await tell({ agentId, actionType: "send-ish", intentContractId })).to.equal(OUTSIDE);
    expect(await tell(call(agentId, "pay"))).to.equal(ALLOWED);
  });

  it("uses the first step that fits, as often as it may be called, on every replica.", async () => {
    const agentId = await test.agent("a");
    const steps = [
      { tool: "send", conditions: to("bob"), maxCalls: 1n },
      { tool: "send", maxCalls: 2n },
    ];
    const intentContractId = await plan(agentId, steps);
    const named = call(agentId, "send", { to: "bob" }, { intentContractId });
    const [first, second] = test.replicas;
    const used = [await contractsOf(named, first), await contractsOf(named, second), await contractsOf(named, first)];
    expect(used.map((each) => each?.[0]?.step)).to.deep.equal([0, 1, 1]);
    for (const replica of test.replicas) {
      const { decision, reasons } = await test.intercept(named, replica);
      expect([decision, reasons[0]?.code]).to.deep.equal([Decision.BLOCK, "OUTSIDE_CONTRACT"]);
    }
    const { intentContract: shown } = await test.authority.getIntentContract({ intentContractId });
    expect([shown?.actions, shown?.steps.map(({ calls }) => calls)]).to.deep.equal([3n, [1n, 2n]]);
    await test.log.saveTrust();
    const fresh = await test.replica();
    const { intentContract: reloaded } = await fresh.authority.getIntentContract({ intentContractId });
    expect(reloaded?.steps.map(({ calls }) => calls)).to.deep.equal([1n, 2n]);
    await test.authority.endIntentContract({ intentContractId });
    const { intentContract: ended } = await test.authority.getIntentContract({ intentContractId });
    expect([ended?.actions, ended?.steps.map(({ calls }) => calls)]).to.deep.equal([3n, [1n, 2n]]);
  });

  it("gives the literals that its conditions name to rules that trust contracts, while it is in force.", async () => {
    const agentId = await test.agent("a");
    const conditions = fromJson(ConditionsSchema, {
      arguments: [{ path: "to", kind: "VALUE_KIND_DESTINATION" }],
      trusted: ["contract"],
    });
    const rules = [{ type: RuleType.PROVENANCE, tool: "pay", decision: Decision.ESCALATE, conditions }];
    await test.mandates.createMandate({ name: `origin ${agentId}`, scope: Scope.AGENT, agentId, rules });
    const sessionId = await session(agentId);
    await test.enforcement.observe({ sessionId, source: ObservationSource.PROMPT, content: "Pay the bills" });
    const pay = (to: string) => tell(call(agentId, "pay", { to }, { sessionId }));
    const asked = "escalate policy PROVENANCE_NOT_TRUSTED";
    expect(await pay("bob")).to.equal(asked);
    const steps = [
      { tool: "send", conditions: to("bob") },
      { tool: "read", conditions: where("to", "!=", "eve") },
      {
        tool: "read",
        conditions: fromJson(ConditionsSchema, { rules: [{ field: "to", operator: "in", value: ["ann"] }] }),
      },
    ];
    const outside = { sessionId, outside: OutsideContract.RULES };
    const intentContractId = await plan(agentId, steps, outside);
    for (const each of ["bob", " BOB", "ann"]) expect(await pay(each)).to.equal("allow default DEFAULT");
    expect(await pay("eve")).to.equal(asked);
    // The contract covers the session alone, not every action of the agent.
    const other = await session(agentId);
    await test.enforcement.observe({ sessionId: other, source: ObservationSource.PROMPT, content: "Pay the bills" });
    expect(await tell(call(agentId, "pay", { to: "bob" }, { sessionId: other }))).to.equal(asked);
    await test.authority.endIntentContract({ intentContractId });
    expect(await pay("bob")).to.equal(asked);
  });

  it("counts no call that a mandate refuses, or that is asked for again.", async () => {
    const agentId = await test.agent("a");
    const conditions = where("amount", ">", 100);
    const rules = [{ tool: "pay", decision: Decision.ESCALATE, conditions }];
    await test.mandates.createMandate({ name: agentId, scope: Scope.AGENT, agentId, rules });
    const intentContractId = await plan(agentId, [{ tool: "pay", maxCalls: 1n }]);
    const named = call(agentId, "pay", { amount: 900 }, { intentContractId });
    const { decision, escalationId } = await test.intercept(named);
    expect(decision).to.equal(Decision.ESCALATE);
    await test.resolve(escalationId ?? "");
    const approved = { ...named, escalationId, requestId: crypto.randomUUID() } as InterceptInit;
    for (const _ of [1, 2]) expect((await test.intercept(approved)).decision).to.equal(Decision.ALLOW);
    const { intentContract } = await test.authority.getIntentContract({ intentContractId });
    expect(intentContract?.steps[0]?.calls).to.equal(1n);
    expect(await tell(call(agentId, "pay", { amount: 1 }, { intentContractId }))).to.equal(OUTSIDE);
  });

  it("admits with the contract's lists only what both admit.", async () => {
    const agentId = await test.agent("a");
    const over = { allowedActionTypes: ["mail.*"], allowedTools: ["send"] };
    const intentContractId = await plan(agentId, [{ tool: "send" }, { tool: "read" }], over);
    const mail = { intentContractId, actionType: "mail.send" };
    expect(await tell(call(agentId, "send", {}, mail))).to.equal(ALLOWED);
    expect(await tell(call(agentId, "read", {}, mail))).to.equal(OUTSIDE);
    expect(await tell(call(agentId, "send", {}, { intentContractId, actionType: "sms.send" }))).to.equal(OUTSIDE);
  });

  it("of a session covers every action of the session, whether it names the contract or not.", async () => {
    const agentId = await test.agent("a");
    const sessionId = await session(agentId);
    const intentContractId = await plan(agentId, [{ tool: "read" }], { sessionId });
    expect(await tell(call(agentId, "read", {}, { sessionId }))).to.equal(ALLOWED);
    expect(await tell(call(agentId, "send", {}, { sessionId }))).to.equal(OUTSIDE);
    expect(await tell({ agentId, actionType: "anything", sessionId })).to.equal(OUTSIDE);
    expect(await contractsOf(call(agentId, "read", {}, { sessionId }))).to.deep.equal([
      { intentContractId, inside: true, step: 0 },
    ]);
    const other = await plan(agentId, [{ tool: "send" }]);
    expect(await tell(call(agentId, "send", {}, { sessionId, intentContractId: other }))).to.equal(OUTSIDE);
    await test.authority.endIntentContract({ intentContractId });
    expect(await tell(call(agentId, "send", {}, { sessionId }))).to.equal(ALLOWED);
  });

  it("of a session ends with the session, and never before it.", async () => {
    const agentId = await test.agent("a");
    const { session: made } = await test.authority.createSession({ agentId, ttlSeconds: 60n });
    const sessionId = made?.sessionId ?? "";
    const intentContractId = await plan(agentId, [{ tool: "read" }], { sessionId, maxActions: 1n });
    const { intentContract } = await test.authority.getIntentContract({ intentContractId });
    expect(intentContract?.expiresAt).to.deep.equal(made?.expiresAt);
    await test.intercept(call(agentId, "read", {}, { sessionId }));
    expect(await tell(call(agentId, "read", {}, { sessionId }))).to.equal(
      "block intent_contract INTENT_CONTRACT_EXPIRED",
    );
    expect(await tell(call(agentId, "send", {}, { sessionId }), 61_000)).to.equal("block session SESSION_EXPIRED");
  });

  it("is refused with its own lifetime, a second one, or another's session.", async () => {
    const [agentId, other] = await test.newAgents(2);
    const sessionId = await session(agentId as string);
    const steps = [{ tool: "read" }];
    const make = (over: ContractInit) => contract({ agentId: agentId as string, steps, sessionId, ...over });
    expect(await reasonOf(make({ durationSeconds: 60n }))).to.equal("INVALID_FIELD");
    expect(await reasonOf(make({ agentId: other as string }))).to.equal("AUTHORITY_NOT_FOUND");
    expect(await reasonOf(make({ sessionId: "ses_none" }))).to.equal("AUTHORITY_NOT_FOUND");
    expect(await reasonOf(make({ steps: [] }))).to.equal("INVALID_FIELD");
    await make({});
    expect(await reasonOf(make({}))).to.equal("SESSION_HAS_CONTRACT");
  });

  it("that does not compile is refused with every violation.", async () => {
    const agentId = await test.agent("a");
    const bad = [
      { tool: "unknown", conditions: to("bob") },
      { tool: "send", conditions: where("too", "==", "bob") },
      { tool: "send", conditions: { rules: [] } },
    ];
    const error = await plan(agentId, bad).then(
      () => undefined,
      (thrown) => thrown,
    );
    expect(error.violations.map(({ field, reason }: Record<string, string>) => `${field} ${reason}`)).to.deep.equal([
      "steps[0].tool TOOL_NOT_REGISTERED",
      "steps[1].conditions.rules[0].field FIELD_NOT_IN_SCHEMA",
      "steps[2].conditions.rules CONDITIONS_MISSING",
    ]);
  });

  it("blocks a step that no longer compiles, and admits it once it does.", async () => {
    const agentId = await test.agent("a");
    const schema = (name: string) => ({ type: "object", properties: { [name]: { type: "string" } } });
    const register = (name: string) => test.tools.registerTool({ name: "moved", inputSchema: schema(name) });
    await register("to");
    const intentContractId = await plan(agentId, [{ tool: "moved", conditions: to("bob") }, { tool: "read" }]);
    const named = call(agentId, "moved", { to: "bob" }, { intentContractId });
    expect(await tell(named)).to.equal(ALLOWED);
    await register("recipient");
    expect(await tell(named)).to.equal("block intent_contract PLAN_STEP_STALE");
    expect(await tell(call(agentId, "read", {}, { intentContractId }))).to.equal(ALLOWED);
    await register("to");
    expect(await tell(named)).to.equal(ALLOWED);
  });

  it("that escalates what is outside asks a person, and the mandates still hold.", async () => {
    const agentId = await test.agent("a");
    const conditions = where("amount", ">", 100);
    await test.mandates.createMandate({
      name: agentId,
      scope: Scope.AGENT,
      agentId,
      rules: [{ tool: "pay", decision: Decision.BLOCK, conditions }],
    });
    const over = { outside: OutsideContract.ESCALATE };
    const intentContractId = await plan(agentId, [{ tool: "read" }], over);
    const named = call(agentId, "pay", { amount: 1 }, { intentContractId });
    expect(await tell(named)).to.equal("escalate intent_contract OUTSIDE_CONTRACT");
    const { escalationId } = await test.intercept(named);
    await test.resolve(escalationId ?? "");
    expect(await contractsOf({ ...named, escalationId } as InterceptInit)).to.deep.equal([
      { intentContractId, inside: false, step: undefined },
    ]);
    const { intentContract } = await test.authority.getIntentContract({ intentContractId });
    expect(intentContract?.actions).to.equal(0n);
    const dear = call(agentId, "pay", { amount: 900 }, { intentContractId });
    const asked = await test.intercept(dear);
    await test.resolve(asked.escalationId ?? "");
    expect(await tell({ ...dear, escalationId: asked.escalationId } as InterceptInit)).to.match(/^block policy/);
  });

  it("that leaves the outside to rules lets `when` read `plan.state`.", async () => {
    const agentId = await test.agent("a");
    const rules = [
      { type: RuleType.ACTION, decision: Decision.BLOCK, when: 'plan.state == "outside"' },
      { type: RuleType.ACTION, decision: Decision.ESCALATE, when: 'plan.state == "none"' },
    ];
    await test.mandates.createMandate({ name: agentId, scope: Scope.AGENT, agentId, rules });
    const intentContractId = await plan(agentId, [{ tool: "read" }], { outside: OutsideContract.RULES });
    const [inside, outside] = [call(agentId, "read"), call(agentId, "send")];
    expect(await tell({ ...inside, intentContractId } as InterceptInit)).to.equal(ALLOWED);
    expect(await tell({ ...outside, intentContractId } as InterceptInit)).to.equal("block policy WHEN_HELD");
    expect(await tell(inside)).to.equal("escalate policy WHEN_HELD");
  });

  it("marks the actions outside in lists of decisions, whatever was decided on each.", async () => {
    const agentId = await test.agent("a");
    const kinds = [OutsideContract.BLOCK, OutsideContract.ESCALATE, OutsideContract.RULES];
    for (const outside of kinds) {
      const sessionId = await session(agentId);
      await plan(agentId, [{ tool: "read" }], { sessionId, outside });
      for (const tool of ["read", "send"]) await test.intercept(call(agentId, tool, {}, { sessionId }));
    }
    await test.intercept(call(agentId, "send"));
    const { decisions } = await test.enforcement.listDecisions({ agentId });
    const told = decisions.map(({ tool, decision, outsideContract }) => ({
      told: `${tool} ${Decision[decision].toLowerCase()}`,
      outsideContract,
    }));
    expect(told).to.deep.equal([
      { told: "send allow", outsideContract: false },
      { told: "send allow", outsideContract: true },
      { told: "read allow", outsideContract: false },
      { told: "send escalate", outsideContract: true },
      { told: "read allow", outsideContract: false },
      { told: "send block", outsideContract: true },
      { told: "read allow", outsideContract: false },
    ]);
  });

  it("is none for an action that names neither contract nor session, which a rule can block.", async () => {
    const agentId = await test.agent("a");
    const sessionId = await session(agentId);
    await plan(agentId, [{ tool: "read" }], { sessionId });
    expect(await tell(call(agentId, "send"))).to.equal(ALLOWED);
    const rules = [{ type: RuleType.ACTION, decision: Decision.BLOCK, when: 'plan.state == "none"' }];
    await test.mandates.createMandate({ name: agentId, scope: Scope.AGENT, agentId, rules });
    expect(await tell(call(agentId, "send"))).to.equal("block policy WHEN_HELD");
    expect(await tell(call(agentId, "read", {}, { sessionId }))).to.equal(ALLOWED);
  });

  it("is taken as recorded by a backtest.", async () => {
    const agentId = await test.agent("a");
    const intentContractId = await plan(agentId, [{ tool: "read" }], { outside: OutsideContract.RULES });
    for (const tool of ["read", "send"]) await test.intercept(call(agentId, tool, {}, { intentContractId }));
    await test.intercept(call(agentId, "send"));
    await test.authority.endIntentContract({ intentContractId });
    const drafts = (["inside", "outside", "none"] as const).map((state) =>
      draftOf(state, [{ type: RuleType.ACTION, decision: Decision.BLOCK, when: `plan.state == "${state}"` }]),
    );
    const changed = await Promise.all(
      drafts.map(async (draft) => (await backtest(test, { drafts: [draft], agentId })).changes.length),
    );
    expect(changed).to.deep.equal([1, 1, 1]);
  });

  it("is part of an answer that the verifier compares with the sealed text.", async () => {
    const agentId = await test.agent("a");
    const sessionId = await session(agentId);
    const over = { sessionId, outside: OutsideContract.RULES };
    await plan(agentId, [{ tool: "pay" }, { tool: "read" }], over);
    for (const tool of ["read", "send"]) {
      const { decisionId } = await test.intercept(call(agentId, tool, {}, { sessionId }));
      const response = await test.enforcement.getDecision({ decisionId });
      const answer = toJson(GetDecisionResponseSchema, response, { useProtoFieldName: true }) as never;
      const body = parseEntry(response.receipt?.canonicalBody ?? "", Number(response.receipt?.index));
      assertAnswers(answer, body);
      const [covering] = response.receipt?.contracts ?? [];
      if (covering !== undefined) covering.inside = !covering.inside;
      const lie = toJson(GetDecisionResponseSchema, response, { useProtoFieldName: true }) as never;
      expect(() => assertAnswers(lie, body)).to.throw("receipt.contracts");
    }
  });

  it("counts a pattern that takes too long as outside, and spends nothing of the mandates' checks.", async () => {
    const agentId = await test.agent("a");
    const conditions = where("to", "matches", "(a|b){1,90}c");
    const intentContractId = await plan(agentId, [{ tool: "send", conditions }]);
    expect(await tell(call(agentId, "send", { to: "abc" }, { intentContractId }))).to.equal(ALLOWED);
    const long = `${"ab".repeat(30_000)}c`;
    expect(await tell(call(agentId, "send", { to: long }, { intentContractId }))).to.equal(OUTSIDE);
  });

  it("ends with its agent.", async () => {
    const agentId = await test.agent("a");
    const intentContractId = await plan(agentId, [{ tool: "read", maxCalls: 5n }]);
    await test.intercept(call(agentId, "read", {}, { intentContractId }));
    await test.revoke(agentId);
    const { intentContract } = await test.authority.getIntentContract({ intentContractId });
    expect([intentContract?.actions, intentContract?.steps[0]?.calls]).to.deep.equal([1n, 1n]);
  });
});
