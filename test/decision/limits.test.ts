import { expect } from "chai";
import { Decision, Scope } from "../../gen/agentcontrol/v1/resources_pb.js";
import type { SealedLimit } from "../../src/log/receipts.ts";

import { WorkspaceLog } from "../../src/log/writer.ts";
import type { CounterSpec } from "../../src/policy/types.ts";

import type { MissingHistory } from "../../src/state/counters/log-history.ts";
import { VelocityWindows } from "../../src/state/counters/windows.ts";
import { loadState } from "../../src/state/load.ts";
import { actionRule, attempt, openWorkspace, type TestWorkspace, velocityRule } from "../support/harness.ts";

/** A log of the workspace whose clock stands until it is set. */
async function logWithClock(replica: TestWorkspace): Promise<{ log: WorkspaceLog; at: (ms: number) => void }> {
  const state = await loadState(replica.database.pool, "default");
  const start = state.lastAtMs + 1_000;
  let now = start;
  const clock = { now: () => now, observe: () => undefined };
  const log = new WorkspaceLog(replica.database, state, clock);
  return {
    log,
    at(ms) {
      now = start + ms;
    },
  };
}

describe("collective limits", () => {
  let test: TestWorkspace;
  beforeEach(async () => {
    test = await openWorkspace();
  });
  afterEach(() => test.close());

  async function pay(agentId: string, actionType = "pay") {
    const { decision, decisionId } = await test.intercept({ agentId, actionType });
    const { body } = await test.receipt(decisionId);
    return { decision, limits: body.authorisation.collective_limits as readonly SealedLimit[] };
  }

  it("show on the receipt what was counted, of which group, and what is left.", async () => {
    const agentId = await test.agent();
    const mandateId = await test.mandate([actionRule(Decision.ALLOW, "read"), velocityRule(2)]);
    const want = { scope: "agent", group: agentId, members: 1, limit: 2, window: 3600, source: "decision_log" };
    const place = { mandate_id: mandateId, rule: "rules[1]" };
    for (const [count, remaining, decision] of [
      [1, 1, Decision.ALLOW],
      [2, 0, Decision.ALLOW],
      [3, 0, Decision.BLOCK],
    ] as const) {
      const { limits, ...paid } = await pay(agentId);
      const [{ resets_at: resetsAt, ...limit } = {}] = limits;
      expect({ ...paid, limit }).to.deep.equal({ decision, limit: { ...want, ...place, count, remaining } });
      expect(resetsAt !== undefined).to.equal(remaining === 0);
    }
    expect((await pay(agentId, "read")).limits).to.deep.equal([]);
  });

  it("of scope agent count each agent alone.", async () => {
    const [one, two] = [await test.agent(), await test.agent()];
    await test.mandate([velocityRule(1)]);
    expect((await pay(one)).decision).to.equal(Decision.ALLOW);
    expect((await pay(two)).decision).to.equal(Decision.ALLOW);
    expect((await pay(one)).decision).to.equal(Decision.BLOCK);
  });

  it("of scope workspace count everybody, the deactivated included.", async () => {
    const [one, two] = [await test.agent(), await test.agent()];
    await test.mandate([velocityRule(2, { scope: Scope.WORKSPACE })]);
    await pay(one);
    await test.agents.deactivateAgent({ agentId: one });
    const { limits } = await pay(two);
    expect(limits[0]).to.include({ scope: "workspace", group: "default", members: 2, count: 2, remaining: 0 });
    expect((await pay(one)).limits).to.deep.equal([]);
    expect((await pay(two)).limits[0]).to.include({ count: 4 });
  });

  it("of scope department count the union of the actor's departments, each action once.", async () => {
    const [both, left, right, alone] = [await test.agent(), await test.agent(), await test.agent(), await test.agent()];
    const departments = [await test.department(both, left), await test.department(both, right)].sort();
    await test.mandate([velocityRule(100, { scope: Scope.DEPARTMENT })]);
    for (const agentId of [both, left, right, alone]) await pay(agentId);
    expect((await pay(both)).limits[0]).to.include({ group: departments.join("+"), members: 3, count: 4 });
    expect((await pay(left)).limits[0]).to.include({ members: 2, count: 4 });
    expect((await pay(alone)).limits[0]).to.include({ group: alone, members: 1, count: 2 });
  });

  it("of a named department apply to its members alone.", async () => {
    const [member, outsider] = [await test.agent(), await test.agent()];
    const departmentId = await test.department(member);
    await test.department(member, outsider);
    await test.mandate([velocityRule(1, { scope: Scope.DEPARTMENT, departmentId })]);
    await pay(outsider);
    expect((await pay(member)).limits[0]).to.include({ group: departmentId, members: 1, count: 1 });
    expect(await pay(outsider)).to.deep.equal({ decision: Decision.ALLOW, limits: [] });
    expect((await pay(member)).decision).to.equal(Decision.BLOCK);
    await test.departments.addDepartmentMember({ departmentId, agentId: outsider });
    expect((await pay(outsider)).limits[0]).to.include({ members: 2, count: 5 });
  });

  it("count every attempt whatever came of it, or only the decisions that the rule names.", async () => {
    const agentId = await test.agent({ permissions: { deniedActionTypes: ["pay.denied"] } });
    await test.mandate([actionRule(Decision.ESCALATE, "pay.ask")], { name: "asks" });
    const counted = [[], [Decision.ALLOW], [Decision.BLOCK], [Decision.ESCALATE, Decision.BLOCK]];
    await test.mandate(counted.map((countDecisions) => velocityRule(100, { countDecisions })));
    for (const actionType of ["pay", "pay", "pay.denied", "pay.ask"]) await pay(agentId, actionType);
    const { limits } = await pay(agentId);
    expect(limits.map(({ count }) => count)).to.deep.equal([5, 3, 2, 3]);
  });

  it("match action types trimmed and without case, exactly or up to a trailing star.", async () => {
    const agentId = await test.agent();
    await test.mandate([velocityRule(100, { matchActionTypes: [" PAY.Send ", "refund*"] })]);
    for (const actionType of ["pay.send", " Pay.SEND ", "refund", "Refund.all", "pay", "pay.send.more"]) {
      await pay(agentId, actionType);
    }
    expect((await pay(agentId, "pay.send")).limits[0]).to.include({ count: 5 });
  });

  it("take what happened before the mandate into account.", async () => {
    const agentId = await test.agent();
    await pay(agentId);
    await pay(agentId);
    await test.mandate([velocityRule(2)]);
    expect((await pay(agentId)).decision).to.equal(Decision.BLOCK);
  });

  for (const scope of [Scope.AGENT, Scope.DEPARTMENT, Scope.WORKSPACE]) {
    it(`of scope ${Scope[scope]} forget an action exactly when it is as old as the window.`, async () => {
      const agentId = await test.agent();
      await test.department(agentId);
      await test.mandate([velocityRule(1, { scope, windowSeconds: 10n })]);
      const { log, at } = await logWithClock(test);
      const decideAt = async (ms: number): Promise<string> => {
        at(ms);
        return (await attempt(log, { agentId, actionType: "pay" })).decision;
      };
      expect(await decideAt(0)).to.equal("allow");
      expect(await decideAt(9_999)).to.equal("block");
      // The first is out of the window now; the blocked one, an attempt, is in it.
      expect(await decideAt(10_000)).to.equal("block");
      expect(await decideAt(19_999)).to.equal("block");
      expect(await decideAt(29_999)).to.equal("allow");
      // A clock that goes back does not bring time back.
      expect(await decideAt(25_000)).to.equal("block");
      expect(await decideAt(39_999)).to.equal("allow");
    });
  }

  it("loaded anew see the same boundary.", async () => {
    const agentId = await test.agent();
    await test.mandate([velocityRule(1, { windowSeconds: 10n })]);
    const first = await logWithClock(test);
    await attempt(first.log, { agentId, actionType: "pay" });
    for (const [ms, want] of [
      [8_999, "block"],
      [18_999, "allow"],
    ] as const) {
      const { log, at } = await logWithClock(test);
      at(ms);
      expect((await attempt(log, { agentId, actionType: "pay" })).decision).to.equal(want);
    }
  });
});

describe("the window of a group that nobody asks for any more", () => {
  it("keeps no more times than fall into it.", () => {
    const windows = new VelocityWindows(
      { agentCount: () => 1, departmentsOf: () => ["d"], membersOfAny: () => new Set(["a"]) },
      "w",
    );
    const spec = (scope: CounterSpec["scope"]): CounterSpec => ({
      key: "pay",
      patterns: ["pay"],
      excluded: [],
      countDecisions: [],
      windowMs: 1_000,
      scope,
    });
    windows.require([spec("workspace"), spec("department")], 0);
    const missing = windows.missing(0, 0) as MissingHistory;
    windows.load(missing, { expired: [], entries: [], nextIndex: 0, rest: [], source: "decision_log" });
    for (const scope of ["workspace", "department"] as const) windows.read(spec(scope), "a", 0);
    const before = process.memoryUsage().arrayBuffers;
    for (let at = 0; at < 1_000_000; at++) windows.record({ agentId: "a", actionType: "pay", at, decision: "allow" });
    // A million times are 8 MB in each of the two.
    expect(process.memoryUsage().arrayBuffers - before).to.be.below(4_000_000);
    expect(windows.read(spec("workspace"), "a", 1_000_000).count).to.equal(1_000);
  });
});
