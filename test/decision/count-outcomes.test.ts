import type { MessageInitShape } from "@bufbuild/protobuf";
import { timestampFromMs, timestampMs } from "@bufbuild/protobuf/wkt";
import { expect } from "chai";
import {
  BudgetRelease,
  type ConditionsSchema,
  RuleType,
  SequenceMode,
} from "../../gen/agentcontrol/v1/mandate_service_pb.js";
import { Decision, OutcomeStatus, Scope } from "../../gen/agentcontrol/v1/resources_pb.js";
import { sealUnknown } from "../../src/log/unknown-outcomes.ts";
import { keyOfAgent, openWorkspace, type Replica, reasonOf, type TestWorkspace } from "../support/harness.ts";

const { SUCCEEDED, FAILED, CANCELLED, PENDING, UNKNOWN } = OutcomeStatus;
const PAYMENT = {
  type: "object",
  properties: { amount: { type: "number" }, currency: { type: "string" } },
} as const;

/** Steps of an action's life: reports, or the end of the time for one. */
type Step = "unknown" | OutcomeStatus.SUCCEEDED | OutcomeStatus.FAILED | OutcomeStatus.CANCELLED;

describe("count_outcomes", () => {
  let test: TestWorkspace;
  let agentId = "";
  beforeEach(async () => {
    test = await openWorkspace();
    agentId = await test.agent();
    await test.tools.registerTool({ name: "send_payment", inputSchema: PAYMENT });
  });
  afterEach(() => test.close());

  const rule = (conditions: MessageInitShape<typeof ConditionsSchema>) => ({
    type: RuleType.SEQUENCE,
    decision: Decision.BLOCK,
    conditions: { windowSeconds: 86_400n, scope: Scope.WORKSPACE, ...conditions },
  });
  const velocity = (maxCount: number, countOutcomes: readonly OutcomeStatus[]) =>
    rule({
      mode: SequenceMode.VELOCITY,
      matchActionTypes: ["payment.*"],
      maxCount: BigInt(maxCount),
      countDecisions: [Decision.ALLOW],
      countOutcomes: [...countOutcomes],
    });
  const budget = (maxTotal: number, countOutcomes: readonly OutcomeStatus[]) =>
    rule({
      mode: SequenceMode.BUDGET,
      sums: [{ tool: "send_payment", field: "amount" }],
      currency: "EUR",
      maxTotal,
      countOutcomes: [...countOutcomes],
    });

  async function pay(amount = 4, init: object = {}, replica: Replica = test) {
    const metadata = { arguments: { amount, currency: "EUR" } };
    const action = { agentId, actionType: "payment.send", tool: "send_payment", metadata, ...init };
    const answer = await test.intercept(action, replica);
    const { body } = await test.receipt(answer.decisionId);
    return { ...answer, body, limits: body.authorisation.collective_limits };
  }

  async function take(decisionId: string, steps: readonly Step[], replica: Replica) {
    for (const step of steps) {
      if (step === "unknown") {
        test.clock.advance(3_601_000);
        await sealUnknown(test.log, decisionId);
        const { decision } = await replica.enforcement.getDecision({ decisionId });
        expect(decision?.outcome?.status).to.equal(UNKNOWN);
      } else await replica.enforcement.reportOutcome({ decisionId, status: step });
    }
  }

  const LIVES: readonly (readonly [string, readonly Step[], OutcomeStatus])[] = [
    ["nobody has reported", [], PENDING],
    ["succeeded", [SUCCEEDED], SUCCEEDED],
    ["failed", [FAILED], FAILED],
    ["was cancelled", [CANCELLED], CANCELLED],
    ["became unknown", ["unknown"], UNKNOWN],
    ["became unknown and failed", ["unknown", FAILED], FAILED],
    ["became unknown and succeeded", ["unknown", SUCCEEDED], SUCCEEDED],
  ];
  const SETS = [[SUCCEEDED], [PENDING, FAILED], [FAILED, CANCELLED, UNKNOWN], [PENDING, SUCCEEDED, UNKNOWN]];
  for (const [what, steps, status] of LIVES) {
    it(`counts an action that ${what} where its status is named, on every replica and after a cold start.`, async () => {
      for (const [index, set] of SETS.entries()) {
        await test.mandate([velocity(100, set)], { name: `count ${index}` });
        await test.mandate([budget(100, set)], { name: `sum ${index}` });
      }
      const second = await test.replica();
      await pay(0, { actionType: "other" }, second);
      const { decisionId, reportOutcome } = await pay(4);
      expect(reportOutcome).to.equal(true);
      await take(decisionId, steps, second);
      const third = await test.replica();
      const byMandate = new Map(
        (await test.mandates.listMandates({})).mandates.map(({ mandateId, name }) => [mandateId, name]),
      );
      for (const replica of [test, second, third]) {
        const seen = await replica.mandates.listLimits({ pageSize: 50 });
        for (const limit of seen.limits) {
          const name = byMandate.get(limit.mandateId) ?? "";
          const isCounted = (SETS[Number(name.split(" ")[1])] ?? []).includes(status);
          const [group] = limit.groups;
          const found = name.startsWith("count") ? Number(group?.count) : group?.budget?.total;
          expect(found, `${name} ${what}`).to.equal(isCounted ? (name.startsWith("count") ? 1 : 4) : 0);
        }
        expect(seen.limits).to.have.length(8);
      }
    });
  }

  it("lets a failed action make room, and a refused one take none.", async () => {
    await test.mandate([velocity(2, [PENDING, SUCCEEDED, UNKNOWN])]);
    const first = await pay();
    await pay();
    const refused = await pay();
    expect(refused.decision).to.equal(Decision.BLOCK);
    expect(refused.reasons[0]).to.include({ code: "LIMIT_EXCEEDED", remaining: 0, over: 1 });
    expect(refused.reportOutcome).to.equal(false);
    const at = refused.reasons[0]?.resetsAt;
    expect(at && timestampMs(at)).to.equal(Date.parse(first.body.at) + 86_400_000);
    const stepAt = async (atMs: number) => {
      const steps = [{ actionType: "payment.send" }];
      const { preflight } = await test.dryRuns.preflight({ agentId, steps, at: timestampFromMs(atMs) });
      return preflight?.steps[0]?.decision;
    };
    const atMs = at === undefined ? 0 : timestampMs(at);
    expect([await stepAt(atMs - 1), await stepAt(atMs)]).to.deep.equal([Decision.BLOCK, Decision.ALLOW]);
    await test.enforcement.reportOutcome({ decisionId: first.decisionId, status: FAILED });
    const third = await pay();
    expect(third).to.include({ decision: Decision.ALLOW });
    expect(third.limits[0]).to.include({ count: 2, limit: 2 });
    expect((await pay()).decision).to.equal(Decision.BLOCK);
  });

  it("counts an action for the agent and the principal, and none of another type.", async () => {
    const principal = await test.agent();
    await test.authority.createGrant({
      grantorAgentId: principal,
      granteeAgentId: agentId,
      actionTypes: ["payment.*", "mail.*"],
    });
    const own = velocity(5, [PENDING]);
    await test.mandate([{ ...own, conditions: { ...own.conditions, scope: Scope.AGENT } }]);
    await pay(1, { onBehalfOf: principal });
    await pay(1, { onBehalfOf: principal, actionType: "mail.send" });
    const { limits } = await pay(1, { onBehalfOf: principal });
    expect(limits.map(({ group, count }) => [group, count])).to.deep.equal([
      [agentId, 2],
      [principal, 2],
    ]);
  });

  it("takes an amount with a report of an action that a budget and a count have.", async () => {
    await test.mandate([velocity(5, [PENDING, SUCCEEDED]), budget(100, [SUCCEEDED])]);
    const { decisionId, body } = await pay(4);
    expect(body.reserved?.map(({ unit, millionths }) => [unit, millionths])).to.deep.equal([
      [undefined, 4_000_000],
      ["action", 1],
    ]);
    const { limits } = await pay(1);
    expect(limits.map(({ budget: state, count }) => state?.total ?? count)).to.deep.equal([2, 1]);
    await test.enforcement.reportOutcome({ decisionId, status: SUCCEEDED, amount: 2.5 });
    const after = await pay(1);
    expect(after.limits.map(({ budget: state, count }) => state?.total ?? count)).to.deep.equal([3, 3.5]);
    expect(await reasonOf(test.enforcement.reportOutcome({ decisionId, status: FAILED }))).to.equal("OUTCOME_EXISTS");
  });

  it("begins a pot of its own, and its default in any order is the budget's own.", async () => {
    const mandateId = await test.mandate([budget(100, [])]);
    await pay(6);
    const update = (countOutcomes: readonly OutcomeStatus[]) =>
      test.mandates.updateMandate({ mandateId, name: "limit", rules: [budget(100, countOutcomes)] });
    await update([UNKNOWN, PENDING, SUCCEEDED]);
    expect((await pay(1)).limits[0]?.budget?.total).to.equal(7);
    await update([PENDING, SUCCEEDED, FAILED]);
    expect((await pay(1)).limits[0]?.budget?.total).to.equal(1);
  });

  it("holds an amount where a confirmed budget counts less once an agent's report is believed.", async () => {
    const agent = keyOfAgent(test.adminCaller, agentId);
    const confirmed = budget(100, [PENDING, FAILED]);
    await test.mandate([{ ...confirmed, conditions: { ...confirmed.conditions, release: BudgetRelease.CONFIRMED } }]);
    const { decisionId } = await pay(4);
    await test.enforcement.reportOutcome({ decisionId, status: SUCCEEDED }, agent);
    expect((await pay(0)).limits[0]?.budget?.total).to.equal(4);
    await test.enforcement.reportOutcome({ decisionId, status: CANCELLED });
    expect((await pay(0)).limits[0]?.budget?.total).to.equal(0);
    const other = await pay(3);
    await test.enforcement.reportOutcome({ decisionId: other.decisionId, status: FAILED }, agent);
    expect((await pay(0)).limits[0]?.budget).to.include({ total: 3, reserved: 3 });
  });

  it("takes a correction of what an agent reported, in the pots that believed it and in those that did not.", async () => {
    const agent = keyOfAgent(test.adminCaller, agentId);
    const confirmed = { ...budget(100, []).conditions, release: BudgetRelease.CONFIRMED };
    const rules = [velocity(9, [PENDING, FAILED]), velocity(9, [SUCCEEDED, CANCELLED]), budget(100, [SUCCEEDED])];
    await test.mandate([...rules, { ...budget(100, []), conditions: confirmed }]);
    const totals = async (replica: Replica) => {
      const { limits } = await replica.mandates.listLimits({});
      return limits.map(({ groups: [group] }) => group?.budget?.total ?? Number(group?.count));
    };
    const { decisionId } = await pay(4);
    expect(await totals(test)).to.deep.equal([1, 0, 0, 4]);
    await test.enforcement.reportOutcome({ decisionId, status: FAILED }, agent);
    expect(await totals(test)).to.deep.equal([1, 0, 0, 4]);
    const second = await test.replica();
    await test.enforcement.reportOutcome({ decisionId, status: SUCCEEDED, amount: 2.5 });
    const third = await test.replica();
    await pay(0, { actionType: "other", tool: "none" }, second);
    for (const replica of [test, second, third]) expect(await totals(replica)).to.deep.equal([0, 1, 2.5, 2.5]);
  });

  it("warns where actions under way do not count.", async () => {
    const { warnings } = await test.mandates.createMandate({
      name: "late",
      rules: [velocity(1, [SUCCEEDED]), budget(1, [PENDING])],
    });
    expect(warnings.map(({ path, reason }) => [path, reason])).to.deep.equal([
      ["rules[0].conditions.count_outcomes", "PENDING_NOT_COUNTED"],
    ]);
  });

  it("does not overshoot when many act at once on two replicas, some of which fail.", async () => {
    await test.mandate([velocity(10, [PENDING, SUCCEEDED, UNKNOWN])]);
    const second = await test.replica();
    const replicas = [test, second];
    let [allowed, failed] = [0, 0];
    await Promise.all(
      Array.from({ length: 60 }, async (_, index) => {
        const { decision, decisionId } = await pay(1, {}, replicas[index % 2]);
        if (decision !== Decision.ALLOW) return;
        allowed += 1;
        if (index % 3 !== 0) return;
        failed += 1;
        await replicas[(index + 1) % 2]?.enforcement.reportOutcome({ decisionId, status: FAILED });
      }),
    );
    expect(allowed - failed).to.be.at.most(10);
    const third = await test.replica();
    for (const replica of [...replicas, third]) {
      const { limits } = await replica.mandates.listLimits({});
      expect(Number(limits[0]?.groups[0]?.count)).to.equal(allowed - failed);
    }
  });
});
