import { timestampFromMs, timestampMs } from "@bufbuild/protobuf/wkt";
import { expect } from "chai";
import { MandateMode } from "../../gen/agentcontrol/v1/mandate_service_pb.js";
import { Decision, Scope } from "../../gen/agentcontrol/v1/resources_pb.js";
import { receiptFrom } from "../../src/log/receipts.ts";
import { WorkspaceLog } from "../../src/log/writer.ts";
import { loadState } from "../../src/state/load.ts";
import {
  actionRule,
  attempt,
  openWorkspace,
  type Replica,
  type TestWorkspace,
  velocityRule,
} from "../support/harness.ts";

const HOUR_MS = 3_600_000;

describe("a reached limit", () => {
  let test: TestWorkspace;
  let agentId = "";
  beforeEach(async () => {
    test = await openWorkspace();
    agentId = await test.agent();
  });
  afterEach(() => test.close());

  /** Attempts an action. Returns its answer, and the receipt's members that tell when limits have room again. */
  async function pay(init: object = {}, replica: Replica = test) {
    const reply = await test.intercept({ agentId, actionType: "pay", ...init }, replica);
    const { body } = await test.receipt(reply.decisionId);
    const [reason] = reply.reasons;
    return {
      ...reply,
      body,
      reason,
      atMs: Date.parse(body.at),
      resetsAtMs: reason?.resetsAt && timestampMs(reason.resetsAt),
      limits: body.authorisation.collective_limits,
    };
  }

  /** Decides an action at a later time, without recording it. */
  async function decisionAt(atMs: number, step: object = { actionType: "pay" }, by = agentId) {
    const { preflight } = await test.dryRuns.preflight({ agentId: by, steps: [step], at: timestampFromMs(atMs) });
    return preflight?.steps[0]?.decision;
  }

  it("tells the millisecond from which one more action fits, in the answer and sealed.", async () => {
    await test.mandate([velocityRule(2)]);
    const first = await pay();
    const second = await pay();
    expect([first, second].map(({ reasons }) => reasons.map(({ resetsAt }) => resetsAt))).to.deep.equal([
      [undefined],
      [undefined],
    ]);
    expect(second.limits[0]?.resets_at).to.equal(new Date(first.atMs + HOUR_MS).toISOString());
    const third = await pay();
    expect(third).to.include({ decision: Decision.BLOCK, resetsAtMs: second.atMs + HOUR_MS });
    expect(third.reason).to.deep.include({ code: "LIMIT_EXCEEDED", remaining: 0, over: 1 });
    const sealed = { remaining: 0, resets_at: new Date(third.resetsAtMs ?? 0).toISOString() };
    expect(third.body.reasons[0]).to.deep.include(sealed);
    expect(third.limits[0]).to.deep.include(sealed);
  });

  for (const scope of [Scope.AGENT, Scope.DEPARTMENT, Scope.WORKSPACE]) {
    it(`of scope ${Scope[scope]} has room at that millisecond and not before.`, async () => {
      const colleague = await test.agent();
      await test.department(agentId, colleague);
      await test.mandate([velocityRule(3, { scope, windowSeconds: 60n })]);
      let last = await pay();
      for (const by of [colleague, agentId, agentId, colleague, agentId]) last = await pay({ agentId: by });
      expect(last.decision).to.equal(Decision.BLOCK);
      const at = last.resetsAtMs ?? 0;
      expect([await decisionAt(at - 1), await decisionAt(at)]).to.deep.equal([Decision.BLOCK, Decision.ALLOW]);
    });
  }

  it("of agent and principal has room when both have.", async () => {
    const principal = await test.agent();
    await test.authority.createGrant({ grantorAgentId: principal, granteeAgentId: agentId, actionTypes: ["pay*"] });
    await test.mandate([velocityRule(3, { windowSeconds: 60n })]);
    for (const by of [principal, principal, principal]) await pay({ agentId: by });
    const [, , last] = [await pay(), await pay(), await pay({ onBehalfOf: principal })];
    // The agent's own limit is filled, the principal's exceeded.
    expect(last.limits.map(({ count }) => count)).to.deep.equal([3, 4]);
    const times = last.limits.map(({ resets_at: time = "" }) => Date.parse(time));
    expect(last.resetsAtMs).to.equal(Math.max(...times));
    const step = { actionType: "pay", onBehalfOf: principal };
    const at = last.resetsAtMs ?? 0;
    expect([await decisionAt(at - 1, step), await decisionAt(at, step)]).to.deep.equal([
      Decision.BLOCK,
      Decision.ALLOW,
    ]);
  });

  it("does not wait for this action if it does not count its decision.", async () => {
    const counted = { windowSeconds: 60n, countDecisions: [Decision.ALLOW] };
    await test.mandate([velocityRule(1, counted)]);
    const first = await pay();
    await pay();
    const third = await pay();
    expect(third.resetsAtMs).to.equal(first.atMs + 60_000);
    const at = third.resetsAtMs ?? 0;
    expect([await decisionAt(at - 1), await decisionAt(at)]).to.deep.equal([Decision.BLOCK, Decision.ALLOW]);
  });

  it("counts the decision that an approval makes of an escalation.", async () => {
    await test.mandate([velocityRule(0, { windowSeconds: 60n }, Decision.ESCALATE)], { name: "asks" });
    await test.mandate([velocityRule(1, { windowSeconds: 60n, countDecisions: [Decision.ALLOW] })], { name: "counts" });
    const asked = await pay();
    const limitOf = ({ limits }: Awaited<ReturnType<typeof pay>>) => limits.find(({ limit }) => limit === 1);
    // An escalated action is not counted, so that one more fits now.
    expect(limitOf(asked)?.resets_at).to.equal(asked.body.at);
    const escalationId = asked.escalationId ?? "";
    await test.resolve(escalationId);
    const done = await pay({ escalationId });
    expect(done.decision).to.equal(Decision.ALLOW);
    expect(limitOf(done)?.resets_at).to.equal(new Date(done.atMs + 60_000).toISOString());
  });

  it("of no action at all never has room.", async () => {
    await test.mandate([velocityRule(0)]);
    const { reason, limits } = await pay();
    expect(reason).to.deep.include({ code: "LIMIT_EXCEEDED", remaining: 0 });
    expect(reason?.resetsAt).to.equal(undefined);
    expect(limits[0]).not.to.have.property("resets_at");
  });

  it("of a rule with `when` tells it with each of the rule's reasons.", async () => {
    await test.mandate([{ ...velocityRule(1), when: 'action.type == "pay"' }]);
    await pay();
    const { reasons, resetsAtMs } = await pay();
    expect(reasons.map(({ code }) => code)).to.deep.equal(["LIMIT_EXCEEDED", "WHEN_HELD"]);
    expect(reasons.map(({ resetsAt }) => resetsAt && timestampMs(resetsAt))).to.deep.equal([resetsAtMs, resetsAtMs]);
    expect(reasons.map(({ remaining }) => remaining)).to.deep.equal([0, undefined]);
  });

  it("tells apart the reasons of rules that refused nothing.", async () => {
    await test.mandate([actionRule(Decision.ALLOW, "pay"), velocityRule(1), actionRule(Decision.ESCALATE, "pay")]);
    await pay();
    const { reasons, body } = await pay();
    expect(reasons.map(({ rule, decision }) => [rule, decision])).to.deep.equal([
      ["rules[1]", undefined],
      ["rules[2]", Decision.ESCALATE],
      ["rules[0]", Decision.ALLOW],
    ]);
    expect(body.reasons.map(({ decision }) => decision)).to.deep.equal([undefined, "escalate", "allow"]);
  });

  it("of an observing mandate tells it with what the mandate would decide.", async () => {
    await test.mandate([velocityRule(1)], { mode: MandateMode.OBSERVE });
    const first = await pay();
    const second = await pay();
    const time = new Date(second.atMs + HOUR_MS).toISOString();
    expect(first.limits[0]?.resets_at).to.equal(new Date(first.atMs + HOUR_MS).toISOString());
    expect(second.body.observed[0]?.reasons[0]).to.include({ code: "LIMIT_EXCEEDED", remaining: 0, resets_at: time });
  });

  it("tells a retry what was sealed, on every replica.", async () => {
    await test.mandate([velocityRule(1)]);
    await pay();
    const requestId = "0b8a4c1e-6f0e-4b5e-9a0c-0a4f6f1b2c3d";
    const first = await pay({ requestId });
    await pay();
    for (const replica of [test, await test.replica()]) {
      const again = await pay({ requestId }, replica);
      expect(again.replayed).to.equal(true);
      expect(again.reasons).to.deep.equal(first.reasons);
    }
  });

  it("is told alike by replicas whose clocks differ: the time of the log counts.", async () => {
    await test.mandate([velocityRule(2, { windowSeconds: 60n })]);
    const start = (await loadState(test.database.pool, "default")).lastAtMs + 1_000;
    const logs: WorkspaceLog[] = [];
    for (const aheadMs of [0, 30_000]) {
      const clock = { now: () => start + aheadMs, observe: () => undefined };
      const { database } = await test.replica();
      logs.push(new WorkspaceLog(database, await loadState(database.pool, "default"), clock));
    }
    const told: (readonly [number, number | undefined])[] = [];
    for (const index of [0, 1, 0, 1, 0]) {
      const { atMs, reasons } = await attempt(logs[index] as WorkspaceLog, { agentId, actionType: "pay" });
      told.push([atMs - start, reasons[0]?.resetsAtMs && reasons[0].resetsAtMs - start]);
    }
    // Of two actions that fit, the one before the last has to leave. The clock that is behind follows the log.
    expect(told).to.deep.equal([
      [0, undefined],
      [30_000, undefined],
      [30_000, 90_000],
      [30_000, 90_000],
      [30_000, 90_000],
    ]);
  });

  it("of decisions from before limits told it is read as it was sealed.", async () => {
    await test.mandate([velocityRule(1)]);
    await pay();
    const { decisionId } = await pay();
    const { canonicalBody, leafHash } = await test.receipt(decisionId);
    const { reasons, authorisation, ...body } = JSON.parse(canonicalBody);
    const [{ remaining: _r, resets_at: _t, ...reason }] = reasons;
    const [{ resets_at: _l, ...limit }] = authorisation.collective_limits;
    const old = { ...body, reasons: [reason], authorisation: { ...authorisation, collective_limits: [limit] } };
    const { body: read } = receiptFrom(JSON.stringify(old), leafHash);
    expect(read.reasons).to.deep.equal([reason]);
    const { resets_at: _now, ...seen } = (await test.receipt(decisionId)).body.authorisation.collective_limits[0] ?? {};
    expect(read.authorisation.collective_limits).to.deep.equal([seen]);
  });
});
