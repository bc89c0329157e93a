import type { JsonObject, MessageInitShape } from "@bufbuild/protobuf";
import { expect } from "chai";
import {
  type ConditionsSchema,
  OtherCurrency,
  RuleType,
  SequenceMode,
} from "../../gen/agentcontrol/v1/mandate_service_pb.js";
import { Decision, DecisionPath, LimitKind, OutcomeStatus, Scope } from "../../gen/agentcontrol/v1/resources_pb.js";
import { sealUnknown } from "../../src/log/unknown-outcomes.ts";
import { openWorkspace, type Replica, reasonOf, type TestWorkspace } from "../support/harness.ts";

const PAYMENT: JsonObject = {
  type: "object",
  properties: {
    amount: { type: "number" },
    currency: { type: "string" },
    currency_code: { type: "string" },
    parts: { type: "array", items: { type: "number" } },
    lines: {
      type: "array",
      items: { type: "object", properties: { amount: { type: "number" }, currency: { type: "string" } } },
    },
  },
};

/** A report, or the end of the time for one. */
type Report = "unknown" | { readonly status: OutcomeStatus; readonly amount?: number };

describe("budgets", () => {
  let test: TestWorkspace;
  let agentId = "";
  beforeEach(async () => {
    test = await openWorkspace();
    agentId = await test.agent();
    for (const name of ["send_payment", "refund"]) await test.tools.registerTool({ name, inputSchema: PAYMENT });
  });
  afterEach(() => test.close());

  function budget(
    maxTotal: number,
    conditions: MessageInitShape<typeof ConditionsSchema> = {},
    decision = Decision.BLOCK,
  ) {
    const sums = [
      { tool: "send_payment", field: "amount" },
      { tool: "Refund", field: "amount" },
    ];
    return {
      type: RuleType.SEQUENCE,
      decision,
      conditions: { mode: SequenceMode.BUDGET, sums, currency: "EUR", maxTotal, windowSeconds: 3_600n, ...conditions },
    };
  }

  async function pay(args: JsonObject | number, under: object = {}, replica: Replica = test) {
    const given = typeof args === "number" ? { amount: args, currency: "EUR" } : args;
    const action = {
      agentId,
      actionType: "payment.send",
      tool: "send_payment",
      metadata: { arguments: given },
      ...under,
    };
    const answer = await test.intercept(action, replica);
    const { receipt } = await test.enforcement.getDecision({ decisionId: answer.decisionId });
    const limits = receipt?.authorisation?.collectiveLimits ?? [];
    const { body } = await test.receipt(answer.decisionId);
    return { ...answer, limits, reserved: body.reserved };
  }
  const decisionOf = async (...given: Parameters<typeof pay>) => (await pay(...given)).decision;

  it("add the amounts of several tools exactly, and the receipt shows what is reserved and left.", async () => {
    await test.mandate([budget(1)]);
    for (const amount of [0.1, 0.2, 0.3]) expect(await decisionOf(amount)).to.equal(Decision.ALLOW);
    const last = await pay(0.4, { tool: "refund" });
    expect(last.decision).to.equal(Decision.ALLOW);
    expect(last.reserved?.map(({ millionths }) => millionths)).to.deep.equal([400_000]);
    const [limit] = last.limits;
    expect(limit).to.deep.include({ kind: LimitKind.BUDGET, scope: Scope.AGENT, group: agentId, count: 0n, limit: 0n });
    const { $typeName: _, pot, ...state } = limit?.budget ?? {};
    const paid = { currency: "EUR", limit: 1, captured: 0, overByApproval: false };
    expect(state).to.deep.equal({ ...paid, total: 1, reserved: 1, remaining: 0 });
    expect(last.reserved).to.deep.equal([{ pot, millionths: 400_000, currency: "EUR" }]);
    const refused = await pay(0.000001);
    expect(refused.decision).to.equal(Decision.BLOCK);
    expect(refused.reasons[0]).to.deep.include({
      code: "BUDGET_EXCEEDED",
      message: "1.000001 EUR in 3600 s are more than 1 EUR",
      remaining: 0,
      over: 0.000001,
    });
    expect(refused.reasons[0]?.wouldPass).to.match(/^nothing fits; 0\.000001 EUR from \d\d:\d\d:\d\d UTC$/);
    expect(refused.reserved).to.equal(undefined);
    expect(await decisionOf(0)).to.equal(Decision.ALLOW);
  });

  it("say what still fits, as a change of the one argument or as an amount.", async () => {
    await test.mandate([budget(10)]);
    await pay(1.8);
    const { reasons } = await pay(9);
    expect(reasons[0]?.wouldPass).to.match(/^would allow at amount <= 8\.20 EUR; 9 EUR from [-\d: ]+ UTC$/);
    expect(reasons[0]).to.include({ remaining: 8.2, over: 0.8 });
    expect(await decisionOf(8.2)).to.equal(Decision.ALLOW);
    await test.mandate([budget(10, { sums: [{ tool: "send_payment", field: "lines[].amount" }] })]);
    const lines = [
      { amount: 7, currency: "EUR" },
      { amount: 4, currency: "eur " },
    ];
    const refused = await pay({ amount: 0, currency: "EUR", lines });
    expect(refused.reasons.map(({ wouldPass }) => wouldPass)).to.deep.equal(["10 EUR still fit"]);
  });

  const UNFIT: readonly (readonly [string, JsonObject, string])[] = [
    ["a missing amount", { currency: "EUR" }, "ARGUMENT_MISSING"],
    ["a null amount", { amount: null, currency: "EUR" }, "ARGUMENT_MISSING"],
    ["a text", { amount: "1", currency: "EUR" }, "ARGUMENT_WRONG_TYPE"],
    ["a list", { amount: [1], currency: "EUR" }, "ARGUMENT_WRONG_TYPE"],
    ["a negative amount", { amount: -1, currency: "EUR" }, "AMOUNT_INVALID"],
    ["seven places", { amount: 0.1234567, currency: "EUR" }, "AMOUNT_INVALID"],
    ["more than 999,999,999", { amount: 1_000_000_000, currency: "EUR" }, "AMOUNT_INVALID"],
    ["no currency", { amount: 1 }, "CURRENCY_MISSING"],
    ["another currency", { amount: 1, currency: "USD" }, "CURRENCY_DIFFERS"],
    ["two currencies", { amount: 1, currency: "EUR", currency_code: "USD" }, "CURRENCY_DIFFERS"],
    ["a currency that is no text", { amount: 1, currency: 978 }, "CURRENCY_DIFFERS"],
  ];
  for (const [name, args, code] of UNFIT) {
    it(`are violated by ${name}, which is not added.`, async () => {
      await test.mandate([budget(10)]);
      const refused = await pay(args);
      expect(refused.decision).to.equal(Decision.BLOCK);
      expect(refused.reasons[0]).to.deep.include({ code, argument: "amount" });
      expect((await pay(10)).limits[0]?.budget?.total).to.equal(10);
    });
  }

  it("ignore another currency on request, never two at once, and reserve nothing for it.", async () => {
    await test.mandate([budget(10, { otherCurrency: OtherCurrency.IGNORE })]);
    const other = await pay({ amount: 500, currency: "USD" });
    expect(other).to.deep.include({ decision: Decision.ALLOW, reserved: undefined });
    expect(await decisionOf({ amount: 500, currency: "USD", currency_code: "EUR" })).to.equal(Decision.BLOCK);
    expect(await decisionOf({ amount: 500 })).to.equal(Decision.BLOCK);
    expect(await decisionOf(10)).to.equal(Decision.ALLOW);
  });

  it("add every element of a list, and none of a list that is too long.", async () => {
    await test.mandate([budget(10, { sums: [{ tool: "send_payment", field: "lines[].amount" }] })]);
    const lines = (...amounts: number[]) => ({ lines: amounts.map((amount) => ({ amount, currency: "EUR" })) });
    expect(await decisionOf(lines(1, 2, 3))).to.equal(Decision.ALLOW);
    expect(await decisionOf(lines(4, 0.000001))).to.equal(Decision.BLOCK);
    expect(await decisionOf(lines())).to.equal(Decision.BLOCK);
    expect((await pay(lines(4, -1))).reasons[0]?.code).to.equal("AMOUNT_INVALID");
    expect(await decisionOf(lines(4))).to.equal(Decision.ALLOW);
    await test.mandate([budget(10, { sums: [{ tool: "refund", field: "parts[]" }] })]);
    const parts = (count: number) => ({ amount: 0, currency: "EUR", parts: new Array<number>(count).fill(0.001) });
    const long = await pay(parts(10_001), { tool: "refund" });
    expect(long.reasons[0]).to.deep.include({ code: "AMOUNT_INVALID", argument: "parts[]" });
    expect(await decisionOf(parts(10_000), { tool: "refund" })).to.equal(Decision.ALLOW);
  });

  it("that escalate are exceeded by an approval, which reserves; those that block are not.", async () => {
    await test.mandate([budget(10, {}, Decision.ESCALATE)]);
    await pay(9);
    const asked = await pay(5);
    expect(asked.decision).to.equal(Decision.ESCALATE);
    expect((await pay(1)).limits[0]?.budget?.total).to.equal(10);
    await test.resolve(asked.escalationId ?? "");
    const approved = await pay(5, { escalationId: asked.escalationId ?? "" });
    expect(approved).to.deep.include({ decision: Decision.ALLOW, decisionPath: DecisionPath.APPROVED });
    expect(approved.limits[0]?.budget).to.deep.include({ total: 15, remaining: 0, overByApproval: true });
    expect(approved.reserved).to.have.length(1);
    await test.mandate([budget(10)]);
    const again = await pay(1, { escalationId: asked.escalationId ?? "" });
    expect(again.decision).to.equal(Decision.BLOCK);
  });

  it("count what an agent does for a principal for both, once in a group with both.", async () => {
    const principal = await test.agent();
    await test.authority.createGrant({
      grantorAgentId: principal,
      granteeAgentId: agentId,
      actionTypes: ["payment.*"],
    });
    const departmentId = await test.department(agentId, principal);
    await test.mandate([budget(10), budget(100, { scope: Scope.DEPARTMENT })]);
    const { limits } = await pay(6, { onBehalfOf: principal });
    expect(limits.map(({ group, budget: state }) => [group, state?.total])).to.deep.equal([
      [agentId, 6],
      [principal, 6],
      [departmentId, 6],
    ]);
    const refused = await pay(5, { agentId: principal });
    expect(refused.reasons[0]?.message).to.equal("11 EUR in 3600 s are more than 10 EUR");
    expect((await pay(5, { onBehalfOf: principal })).decision).to.equal(Decision.BLOCK);
  });

  it("cover no other tool, and no decision of an ended key or a repeated request pays.", async () => {
    await test.mandate([budget(10)]);
    await test.tools.registerTool({ name: "read", inputSchema: PAYMENT });
    expect((await pay(100, { tool: "read" })).limits).to.deep.equal([]);
    const requestId = "0190a5b0-0000-7000-8000-000000000001";
    for (let count = 0; count < 3; count++) expect(await decisionOf(6, { requestId })).to.equal(Decision.ALLOW);
    expect((await pay(4)).limits[0]?.budget?.total).to.equal(10);
  });

  it("go on over versions that change the limit or the window, and begin anew with another pot.", async () => {
    const mandateId = await test.mandate([budget(10)]);
    await pay(6);
    const update = (rule: ReturnType<typeof budget>) =>
      test.mandates.updateMandate({ mandateId, name: "limit", rules: [rule] });
    await update(budget(12, { windowSeconds: 86_400n }));
    expect((await pay(6)).limits[0]?.budget).to.deep.include({ total: 12, limit: 12 });
    await update(budget(12, { scope: Scope.WORKSPACE }));
    expect((await pay(6)).limits[0]?.budget?.total).to.equal(6);
    await update(budget(12));
    expect((await pay(0)).limits[0]?.budget?.total).to.equal(12);
  });

  it("are one pot for all replicas, also for one that starts later.", async () => {
    await test.mandate([budget(10, { scope: Scope.WORKSPACE })]);
    const second = await test.replica();
    const replicas = [test, second];
    for (let count = 0; count < 8; count++) {
      expect(await decisionOf(1, {}, replicas[count % 2] as Replica)).to.equal(Decision.ALLOW);
    }
    const third = await test.replica();
    expect((await pay(1.5, {}, third)).limits[0]?.budget).to.deep.include({ total: 9.5, remaining: 0.5 });
    for (const replica of [test, second, third]) expect(await decisionOf(0.6, {}, replica)).to.equal(Decision.BLOCK);
    expect(await decisionOf(0.5, {}, second)).to.equal(Decision.ALLOW);
  });

  const { SUCCEEDED, FAILED, CANCELLED } = OutcomeStatus;
  const REPORTS: readonly (readonly [string, readonly Report[], number])[] = [
    ["captures what was reserved", [{ status: SUCCEEDED }], 4],
    ["captures less", [{ status: SUCCEEDED, amount: 1.25 }], 1.25],
    ["captures more, which counts in full", [{ status: SUCCEEDED, amount: 11 }], 11],
    ["captures nothing", [{ status: SUCCEEDED, amount: 0 }], 0],
    ["fails and gives its amount back", [{ status: FAILED }], 0],
    ["is cancelled and gives its amount back", [{ status: CANCELLED }], 0],
    ["stays unknown and keeps its amount", ["unknown"], 4],
    ["was unknown and failed", ["unknown", { status: FAILED }], 0],
    ["was unknown and captures less", ["unknown", { status: SUCCEEDED, amount: 3 }], 3],
    [
      "is reported twice and captures once",
      [
        { status: SUCCEEDED, amount: 2 },
        { status: SUCCEEDED, amount: 2 },
      ],
      2,
    ],
  ];
  for (const [what, reports, total] of REPORTS) {
    it(`count ${total} of 4 for an action that ${what}, on every replica.`, async () => {
      await test.mandate([budget(10, { scope: Scope.WORKSPACE, windowSeconds: 7_200n })]);
      const second = await test.replica();
      await pay(0, {}, second);
      const { decisionId } = await pay(4);
      for (const report of reports) {
        if (report === "unknown") {
          test.clock.advance(3_601_000);
          await sealUnknown(test.log, decisionId);
          const { decision } = await second.enforcement.getDecision({ decisionId });
          expect(decision?.outcome?.status).to.equal(OutcomeStatus.UNKNOWN);
        } else await second.enforcement.reportOutcome({ decisionId, ...report });
      }
      const third = await test.replica();
      for (const replica of [test, second, third]) {
        const { limits } = await pay(0, {}, replica);
        expect(limits[0]?.budget?.total).to.equal(total);
      }
      const { rows } = await test.database.pool.query("select sum(millionths)::float8 as sum from budget_amount");
      expect(rows).to.deep.equal([{ sum: total * 1_000_000 }]);
    });
  }

  it("show what is captured apart from what is reserved.", async () => {
    await test.mandate([budget(10)]);
    const { decisionId } = await pay(4);
    await test.enforcement.reportOutcome({ decisionId, status: SUCCEEDED, amount: 3 });
    const { limits } = await pay(2);
    expect(limits[0]?.budget).to.deep.include({ reserved: 2, captured: 3, total: 5, remaining: 5 });
  });

  it("take no amount for an action that reserved different ones, and capture each when it is left out.", async () => {
    const lines = [{ amount: 3, currency: "EUR" }];
    await test.mandate([budget(10), budget(10, { sums: [{ tool: "send_payment", field: "lines[].amount" }] })]);
    const { decisionId } = await pay({ amount: 4, currency: "EUR", lines });
    const refused = test.enforcement.reportOutcome({ decisionId, status: SUCCEEDED, amount: 4 });
    expect(await reasonOf(refused)).to.equal("INVALID_FIELD");
    await test.enforcement.reportOutcome({ decisionId, status: SUCCEEDED });
    const { limits } = await pay({ amount: 0, currency: "EUR", lines: [{ amount: 0, currency: "EUR" }] });
    expect(limits.map(({ budget: state }) => state?.captured)).to.have.members([4, 3]);
  });

  it("never overshoot when many pay at once on two replicas.", async () => {
    await test.mandate([budget(50, { scope: Scope.WORKSPACE })]);
    const second = await test.replica();
    const paid = await Promise.all(
      Array.from({ length: 120 }, (_, index) => decisionOf(1, {}, index % 2 === 0 ? test : second)),
    );
    expect(paid.filter((decision) => decision === Decision.ALLOW)).to.have.length(50);
    const { rows } = await test.database.pool.query("select sum(millionths)::float8 as sum from budget_amount");
    expect(rows).to.deep.equal([{ sum: 50_000_000 }]);
  });

  it("no longer compile when their tool's schema loses the amount: their calls escalate, and those of other tools do not.", async () => {
    await test.mandate([budget(10, {}, Decision.ESCALATE)]);
    await test.tools.registerTool({ name: "send_payment", inputSchema: { type: "object", properties: {} } });
    expect((await pay(1)).reasons[0]?.code).to.equal("MANDATE_STALE");
    expect(await decisionOf(1, { tool: "refund" })).to.equal(Decision.ESCALATE);
    expect(await decisionOf(1, { tool: "read" })).to.equal(Decision.ALLOW);
  });
});
