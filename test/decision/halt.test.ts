import { randomUUID } from "node:crypto";
import { create } from "@bufbuild/protobuf";
import { expect } from "chai";
import { Role } from "../../gen/agentcontrol/v1/access_pb.js";
import { InterceptRequestSchema } from "../../gen/agentcontrol/v1/enforcement_service_pb.js";
import { Resolution } from "../../gen/agentcontrol/v1/escalation_service_pb.js";
import { Decision, DecisionPath } from "../../gen/agentcontrol/v1/resources_pb.js";
import { actionFrom } from "../../src/api/action.ts";
import { createIntercept } from "../../src/decision/intercept.ts";
import { LongChecker } from "../../src/policy/long/checker.ts";
import {
  actionRule,
  callerWith,
  openWorkspace,
  type Replica,
  reasonOf,
  type TestWorkspace,
  velocityRule,
} from "../support/harness.ts";
import { NO_GUARD } from "../support/no-guard.ts";

describe("a halted workspace", () => {
  let test: TestWorkspace;
  const halt = (halted = true, by: Replica = test): Promise<unknown> =>
    by.admin.updateWorkspace({ workspaceId: test.workspaceId, halted });
  const pay = (agentId: string, more: object = {}, by: Replica = test) =>
    test.intercept({ agentId, actionType: "pay", ...more }, by);

  beforeEach(async () => {
    // Replicas that hear nothing of each other: what they know of the halt they learn from the log.
    test = await openWorkspace({ replicas: 3, hearsWakeUps: false });
  });
  afterEach(() => test.close());

  it("blocks every action on every replica from the next decision on, until the halt ends.", async () => {
    const agentId = await test.agent();
    for (const replica of test.replicas) expect((await pay(agentId, {}, replica)).decision).to.equal(Decision.ALLOW);
    await halt();
    for (const replica of test.replicas) {
      const { decision, decisionPath, reasons, trustScore } = await pay(agentId, {}, replica);
      expect([decision, decisionPath]).to.deep.equal([Decision.BLOCK, DecisionPath.HALTED]);
      expect(reasons.map(({ code }) => code)).to.deep.equal(["WORKSPACE_HALTED"]);
      expect(trustScore).to.be.greaterThan(50);
    }
    await halt(false, test.replicas[2]);
    for (const replica of test.replicas) expect((await pay(agentId, {}, replica)).decision).to.equal(Decision.ALLOW);
  });

  it("is known to a replica that starts while it lasts.", async () => {
    const agentId = await test.agent();
    await halt();
    const late = await test.replica();
    expect((await pay(agentId, {}, late)).decisionPath).to.equal(DecisionPath.HALTED);
  });

  it("costs no trust and no count of a limit.", async () => {
    const agentId = await test.agent();
    await test.mandate([velocityRule(2)]);
    await halt();
    const before = (await pay(agentId)).trustScore;
    for (let n = 0; n < 5; n++) await pay(agentId);
    await halt(false);
    const first = await pay(agentId);
    expect([first.decision, first.trustScore]).to.deep.equal([Decision.ALLOW, before]);
    const { body } = await test.receipt((await pay(agentId)).decisionId);
    expect(body.authorisation.collective_limits?.map(({ count }) => count)).to.deep.equal([2]);
  });

  it("also blocks an action that a person approves meanwhile, whose approval is good afterwards.", async () => {
    const agentId = await test.agent();
    await test.mandate([actionRule(Decision.ESCALATE, "pay")]);
    const { escalationId = "" } = await pay(agentId);
    await halt();
    await test.resolve(escalationId, Resolution.APPROVED, test.replicas[1]);
    expect((await pay(agentId, { escalationId }, test.replicas[2])).decisionPath).to.equal(DecisionPath.HALTED);
    await halt(false);
    const { decision, decisionPath } = await pay(agentId, { escalationId }, test.replicas[2]);
    expect([decision, decisionPath]).to.deep.equal([Decision.ALLOW, DecisionPath.APPROVED]);
  });

  it("creates no escalation, and edits nothing into force.", async () => {
    const agentId = await test.agent();
    await test.mandate([actionRule(Decision.ESCALATE, "pay")]);
    const { escalationId = "" } = await pay(agentId);
    await halt();
    expect((await pay(agentId, { actionContent: "other" })).escalationId).to.equal(undefined);
    const edit = test.escalations.editEscalation({ escalationId, arguments: { amount: 1 } });
    expect(await reasonOf(edit)).to.equal("EDIT_BLOCKED");
  });

  it("refuses the repeat of an allowed request, whose first decision stays and answers once the halt is over.", async () => {
    const agentId = await test.agent();
    const requestId = randomUUID();
    const first = await pay(agentId, { requestId });
    await halt();
    const refusals = [await pay(agentId, { requestId }), await pay(agentId, { requestId }, test.replicas[1])];
    for (const { decision, decisionPath } of refusals)
      expect([decision, decisionPath]).to.deep.equal([Decision.BLOCK, DecisionPath.HALTED]);
    // Sealed once, however often the request is repeated.
    expect(new Set(refusals.map(({ decisionId }) => decisionId)).size).to.equal(1);
    expect((await test.receipt(refusals[0]?.decisionId ?? "")).body.replay_of).to.equal(first.decisionId);
    await halt(false);
    const again = await pay(agentId, { requestId }, test.replicas[2]);
    expect([again.decisionId, again.decision, again.replayed]).to.deep.equal([first.decisionId, Decision.ALLOW, true]);
  });

  it("shows in dry runs what a call would get.", async () => {
    const agentId = await test.agent();
    await halt();
    const { preflight } = await test.dryRuns.preflight({ agentId, steps: [{ actionType: "pay" }] });
    expect(preflight?.steps.map(({ decisionPath }) => decisionPath)).to.deep.equal([DecisionPath.HALTED]);
  });

  it("seals at most sixty refusals a minute for a key, and none of them outlives the halt.", async () => {
    const agentId = await test.agent();
    await halt();
    const checker = new LongChecker();
    const [{ logs }, other] = test.replicas as [Replica, Replica];
    const intercept = createIntercept({ logs, guard: NO_GUARD, checker });
    const caller = { keyId: "key_test", workspaceId: test.workspaceId, role: Role.OPERATOR, agentId: null };
    const action = () => actionFrom(create(InterceptRequestSchema, { agentId, actionType: "pay" }), caller);
    const waiter = { isOver: false, signal: new AbortController().signal };
    const call = () =>
      intercept({ workspaceId: test.workspaceId, action: action(), waiter, wire: "rest", receivedAt: 0 });
    const size = async () => (await test.log.caughtUp()).seq;
    const before = await size();
    const sealed = [];
    for (let n = 0; n < 70; n++) sealed.push(await call());
    expect((await size()) - before).to.equal(60);
    expect(sealed.every(({ decision, path }) => decision === "block" && path === "halted")).to.equal(true);
    expect(sealed.slice(60).every(({ isReplayed }) => isReplayed)).to.equal(true);
    expect(sealed[69]?.decisionId).to.equal(sealed[59]?.decisionId);
    // Ended on another replica, of which this one has not heard.
    await halt(false, other);
    expect((await call()).decision).to.equal("allow");
    await checker.close();
  });

  it("is started and ended by operators and admins of the workspace, who are named in the log.", async () => {
    const operator = callerWith(test.adminCaller, Role.OPERATOR);
    const { workspaceId } = test;
    const asOperator = (settings: object) => test.admin.updateWorkspace({ workspaceId, ...settings }, operator);
    expect((await asOperator({ halted: true })).workspace?.halted).to.equal(true);
    expect((await test.admin.getWorkspace({ workspaceId }, operator)).workspace?.halted).to.equal(true);
    expect(await reasonOf(asOperator({ fourEyes: true }))).to.equal("ROLE_NOT_ALLOWED");
    expect(await reasonOf(asOperator({ halted: false, name: "mine" }))).to.equal("ROLE_NOT_ALLOWED");
    expect((await asOperator({ halted: false })).workspace?.halted).to.equal(false);
    for (const role of [Role.AGENT, Role.AUDITOR]) {
      const call = test.admin.updateWorkspace({ workspaceId, halted: true }, callerWith(test.adminCaller, role));
      expect(await reasonOf(call)).to.equal("ROLE_NOT_ALLOWED");
    }
    const changes = await test.database.pool.query(
      "select body from ledger_entry where workspace_id = $1 and body like '%workspace_updated%' order by seq",
      [workspaceId],
    );
    const sealed = changes.rows.map(({ body }) => JSON.parse(body));
    expect(sealed.map(({ by, workspace }) => [by, workspace.halted])).to.deep.equal([
      [operator.keyId, true],
      [operator.keyId, false],
    ]);
  });
});
