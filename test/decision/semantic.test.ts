import type { MessageInitShape } from "@bufbuild/protobuf";
import { expect } from "chai";
import type { InterceptRequest } from "../../gen/agentcontrol/v1/enforcement_service_pb.js";
import { type ConditionsSchema, RuleType } from "../../gen/agentcontrol/v1/mandate_service_pb.js";
import { Decision, DecisionPath } from "../../gen/agentcontrol/v1/resources_pb.js";
import { actionFrom } from "../../src/api/action.ts";
import { createIntercept } from "../../src/decision/intercept.ts";
import { ErrorReason } from "../../src/errors.ts";
import { LongChecker } from "../../src/policy/long/checker.ts";
import { canonicalJson } from "../../src/tree/canonical.ts";
import { assertIntact, readLog } from "../log/stored-log.ts";
import { type WatchedGuard, watchedGuard } from "../semantic/harness.ts";
import { answers, judges, type ModelServer, startModelServer, staysSilent } from "../semantic/model-server.ts";
import { dryRunOn } from "../support/decide-on.ts";
import { actionRule, failureOf, openWorkspace, type TestWorkspace } from "../support/harness.ts";

type ConditionsInit = MessageInitShape<typeof ConditionsSchema>;

const semanticRule = (conditions: ConditionsInit = {}, decision = Decision.BLOCK) => ({
  type: RuleType.SEMANTIC,
  decision,
  conditions: { prompt: "sends secrets", matchActionTypes: ["mail.*"], ...conditions },
});

describe("a guard that is asked before the log", () => {
  let model: ModelServer;
  let watched: WatchedGuard;
  let workspace: TestWorkspace;
  let agentId: string;
  beforeEach(async () => {
    model = await startModelServer(judges({ violates: true, confidence: 0.93 }));
    watched = watchedGuard(model.url);
    workspace = await openWorkspace({ guard: watched.guard });
    agentId = await workspace.agent();
  });
  afterEach(async () => {
    assertIntact(await readLog(workspace.url));
    await workspace.close();
    await model.close();
  });

  const mail = (init: object = {}) =>
    workspace.intercept({ agentId, actionType: "mail.send", actionContent: "the key is 42", ...init });
  const guardsOf = async (decisionId: string) =>
    (await workspace.enforcement.getDecision({ decisionId })).receipt?.guards ?? [];
  /** Resolves once the model was asked so many times. */
  const asked = async (count: number): Promise<void> => {
    while (model.asked.length < count) await new Promise((resolve) => setTimeout(resolve, 2));
  };

  it("has its verdict sealed with the mandate's version, and decides by it.", async () => {
    const mandateId = await workspace.mandate([actionRule(Decision.ALLOW, "*"), semanticRule()]);
    const { decision, decisionId, reasons } = await mail();
    expect(decision).to.equal(Decision.BLOCK);
    expect(reasons[0]).to.include({ code: "GUARD_VIOLATION", rule: "rules[1]", mandateId });
    const [guard, ...others] = await guardsOf(decisionId);
    expect(others).to.deep.equal([]);
    expect(guard).to.deep.include({
      mandateId,
      version: 1,
      rule: "rules[1]",
      model: "model-2025-01-01",
      violates: true,
      confidence: 0.93,
      reason: "it sends a secret away",
    });
    expect(guard?.latencyMs).to.be.at.least(0);
    const { canonicalBody } = await workspace.receipt(decisionId);
    expect(canonicalJson(JSON.parse(canonicalBody))).to.equal(canonicalBody);
    expect(model.asked[0]?.body).to.contain("sends secrets").and.to.contain("the key is 42");
  });

  it("allows what it finds no fault with, and seals that too.", async () => {
    model.behaviour = judges({ violates: false, confidence: 0.8 });
    await workspace.mandate([semanticRule()]);
    const { decision, decisionId } = await mail();
    expect(decision).to.equal(Decision.ALLOW);
    expect((await guardsOf(decisionId))[0]).to.include({ violates: false, confidence: 0.8 });
  });

  it("is asked once where rules of several mandates ask the same.", async () => {
    await workspace.mandate([semanticRule(), semanticRule({ minConfidence: 1 })]);
    await workspace.mandate([semanticRule({}, Decision.ESCALATE), semanticRule({ prompt: "begs" })]);
    const { decisionId } = await mail();
    expect(model.asked).to.have.length(2);
    expect(await guardsOf(decisionId)).to.have.length(4);
  });

  it("is not asked where it would change nothing: other actions, blocked ones, refused ones.", async () => {
    await workspace.mandate([semanticRule({ matchActionTypes: ["mail.*", "file.*"] })]);
    await workspace.mandate([actionRule(Decision.BLOCK, "mail.send")]);
    const denied = await workspace.agent({ permissions: { deniedActionTypes: ["mail.*"] } });
    const gone = await workspace.agent();
    await workspace.agents.deactivateAgent({ agentId: gone });
    for (const init of [{}, { actionType: "pay" }, { agentId: denied }, { agentId: gone, actionType: "file.read" }]) {
      const { decisionId } = await mail(init);
      expect(await guardsOf(decisionId)).to.deep.equal([]);
    }
    expect((await failureOf(mail({ agentId: "agt_unknown" }))).reason).to.equal(ErrorReason.AGENT_NOT_FOUND);
    expect(model.asked).to.deep.equal([]);
  });

  for (const [onUnavailable, decision] of [
    [Decision.UNSPECIFIED, Decision.ESCALATE],
    [Decision.BLOCK, Decision.BLOCK],
    [Decision.ALLOW, Decision.ALLOW],
  ] as const) {
    it(`decides ${Decision[decision]} without a verdict when told ${Decision[onUnavailable]}.`, async () => {
      model.behaviour = answers("", 500);
      await workspace.mandate([semanticRule({ onUnavailable })]);
      const reply = await mail();
      expect(reply.decision).to.equal(decision);
      expect((await guardsOf(reply.decisionId))[0])
        .to.include({ unavailable: "server_error" })
        .and.not.have.property("violates");
    });
  }

  it("has no longer than a rule gives it.", async () => {
    model.behaviour = staysSilent;
    await workspace.mandate([semanticRule({ timeoutMs: 30 })]);
    const { decision, decisionId } = await mail();
    expect(decision).to.equal(Decision.ESCALATE);
    expect((await guardsOf(decisionId))[0]?.unavailable).to.equal("timed_out");
  });

  /** Holds the model's answers until `meanwhile` is over, and gives what came of the action. */
  async function mailWhile(meanwhile: () => Promise<unknown>) {
    let release = (): void => undefined;
    const held = new Promise<void>((resolve) => {
      release = resolve;
    });
    model.behaviour = (response, ...rest) =>
      void held.then(() => judges({ violates: false, confidence: 1 })(response, ...rest));
    const reply = mail();
    await asked(1);
    await meanwhile();
    release();
    return reply;
  }

  it("does not hold up the log.", async () => {
    await workspace.mandate([semanticRule()]);
    const { decision } = await mailWhile(async () => {
      const others = Array.from({ length: 20 }, () => workspace.intercept({ agentId, actionType: "pay" }));
      for (const { decision } of await Promise.all(others)) expect(decision).to.equal(Decision.ALLOW);
    });
    expect(decision).to.equal(Decision.ALLOW);
  });

  it("counts as unavailable to a rule that came into force while the action waited.", async () => {
    const mandateId = await workspace.mandate([semanticRule()]);
    const late: string[] = [];
    const reply = await mailWhile(async () => late.push(await workspace.mandate([semanticRule({ prompt: "new" })])));
    expect(reply.decision).to.equal(Decision.ESCALATE);
    const guards = await guardsOf(reply.decisionId);
    expect(guards.map(({ unavailable }) => unavailable)).to.have.members([undefined, "not_asked"]);
    expect(guards.find(({ unavailable }) => unavailable === "not_asked")?.mandateId).to.equal(late[0]);
    expect(guards.find(({ unavailable }) => unavailable === undefined)?.mandateId).to.equal(mandateId);
  });

  const changes: Readonly<Record<string, [(mandateId: string) => Promise<unknown>, Decision, DecisionPath]>> = {
    "the end of the mandate": [
      (mandateId) => workspace.mandates.archiveMandate({ mandateId }),
      Decision.ALLOW,
      DecisionPath.DEFAULT,
    ],
    "a mandate that blocks": [
      () => workspace.mandate([actionRule(Decision.BLOCK, "mail.*")]),
      Decision.BLOCK,
      DecisionPath.POLICY,
    ],
    "the agent's end": [() => workspace.agents.deactivateAgent({ agentId }), Decision.BLOCK, DecisionPath.REVOKED],
  };
  for (const [what, [change, decision, path]] of Object.entries(changes)) {
    it(`does not outlive ${what} meanwhile.`, async () => {
      const mandateId = await workspace.mandate([semanticRule()]);
      const reply = await mailWhile(() => change(mandateId));
      expect([reply.decision, reply.decisionPath]).to.deep.equal([decision, path]);
    });
  }

  it("escalates what a human may approve, and is asked again about the approved action.", async () => {
    await workspace.mandate([semanticRule({}, Decision.ESCALATE)]);
    const { escalationId = "" } = await mail();
    await workspace.resolve(escalationId);
    const reply = await mail({ escalationId });
    expect([reply.decision, reply.decisionPath]).to.deep.equal([Decision.ALLOW, DecisionPath.APPROVED]);
    expect(await guardsOf(reply.decisionId)).to.have.length(1);
    await workspace.mandate([semanticRule({}, Decision.BLOCK)]);
    const again = await mail();
    expect(again.decision).to.equal(Decision.BLOCK);
  });

  it("is given up, and nothing decided, when the caller goes away.", async () => {
    model.behaviour = staysSilent;
    await workspace.mandate([semanticRule()]);
    const caller = new AbortController();
    const request = { agentId, actionType: "mail.send", actionContent: "" } as InterceptRequest;
    const command = { workspaceId: "default", action: actionFrom(request, workspace.adminCaller) };
    const intercept = createIntercept({ logs: workspace.logs, guard: watched.guard, checker: new LongChecker() });
    const waiter = {
      signal: caller.signal,
      get isOver() {
        return caller.signal.aborted;
      },
    };
    const reply = intercept({ ...command, waiter, wire: "rest", receivedAt: 0 });
    await asked(1);
    caller.abort();
    expect((await failureOf(reply)).reason).to.equal(ErrorReason.CANCELLED);
    await model.idle();
    const { rows } = await workspace.database.pool.query("select 1 from ledger_entry where kind = 0");
    expect(rows).to.deep.equal([]);
  });

  it("costs an action without semantic rules no look ahead.", async () => {
    await workspace.mandate([actionRule(Decision.BLOCK, "x")]);
    const request = { agentId, actionType: "mail.send", actionContent: "hello" } as InterceptRequest;
    const needs = () => workspace.log.needsOf(actionFrom(request, workspace.adminCaller));
    expect(needs()).to.deep.equal({ mayTakeLong: false, asksGuard: false });
    await workspace.mandate([semanticRule()]);
    expect(needs()).to.deep.equal({ mayTakeLong: false, asksGuard: true });
  });

  it("leaves no trace in the state of what it looked ahead at.", async () => {
    await workspace.mandate([semanticRule()]);
    const before = await workspace.log.caughtUp();
    const { seq, lastAtMs } = before;
    const request = { agentId, actionType: "mail.send", actionContent: "" } as InterceptRequest;
    const outcome = await dryRunOn(workspace.log, actionFrom(request, workspace.adminCaller));
    expect(outcome).to.include({ decision: "escalate" });
    expect(before).to.include({ seq, lastAtMs });
    expect(before.agents.get(agentId)?.trustTenths).to.equal(500);
    expect(before.trustChangedAt.size).to.equal(0);
  });
});
