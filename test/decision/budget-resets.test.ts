import type { MessageInitShape } from "@bufbuild/protobuf";
import { timestampFromMs, timestampMs } from "@bufbuild/protobuf/wkt";
import { expect } from "chai";
import fc from "fast-check";
import {
  type ConditionsSchema,
  OtherCurrency,
  RuleType,
  SequenceMode,
} from "../../gen/agentcontrol/v1/mandate_service_pb.js";
import { Decision, OutcomeStatus, Scope } from "../../gen/agentcontrol/v1/resources_pb.js";
import { retryAfterMs } from "../../src/retry/retry-after.ts";
import { openWorkspace, type TestWorkspace } from "../support/harness.ts";

const WINDOW_MS = 3_600_000;
const NUMBER = { type: "number" } as const;
const PAYMENT = {
  type: "object",
  properties: { amount: NUMBER, fee: NUMBER, currency: { type: "string" } },
} as const;

/** Rule of a budget of EUR over `amount`. */
function budgetRule(
  maxTotal: number,
  conditions: MessageInitShape<typeof ConditionsSchema> = {},
  decision = Decision.BLOCK,
) {
  const sums = [{ tool: "send_payment", field: "amount" }];
  const window = { windowSeconds: BigInt(WINDOW_MS / 1_000) };
  return {
    type: RuleType.SEQUENCE,
    decision,
    conditions: { mode: SequenceMode.BUDGET, sums, currency: "EUR", maxTotal, ...window, ...conditions },
  };
}

describe("the time at which a budget has room", () => {
  let test: TestWorkspace;
  let agentId = "";
  beforeEach(async () => {
    test = await openWorkspace();
    agentId = await test.agent();
    await test.tools.registerTool({ name: "send_payment", inputSchema: PAYMENT });
  });
  afterEach(() => test.close());

  const action = (amount: number, init: object = {}) => ({
    actionType: "payment.send",
    tool: "send_payment",
    metadata: { arguments: { amount, currency: "EUR" } },
    ...init,
  });

  async function pay(amount: number, init: object = {}) {
    const reply = await test.intercept({ agentId, ...action(amount, init) });
    const { body } = await test.receipt(reply.decisionId);
    const [reason] = reply.reasons;
    const limits = body.authorisation.collective_limits;
    const resetsAtMs = reason?.resetsAt && timestampMs(reason.resetsAt);
    return { ...reply, body, reason, limits, resetsAtMs, atMs: Date.parse(body.at) };
  }

  /** Decides a payment at a later time, without recording it. */
  async function decisionAt(atMs: number, amount: number, init: object = {}) {
    const steps = [action(amount, init)];
    const { preflight } = await test.dryRuns.preflight({ agentId, steps, at: timestampFromMs(atMs) });
    return preflight?.steps[0]?.decision;
  }

  it("is that from which the amount of the refused action fits, and stands in the reason with what remains.", async () => {
    await test.mandate([budgetRule(100)]);
    const first = await pay(60);
    test.clock.advance(1_000);
    const second = await pay(31.8);
    const refused = await pay(100);
    expect(refused).to.include({ decision: Decision.BLOCK, resetsAtMs: second.atMs + WINDOW_MS });
    expect(refused.reason).to.include({ code: "BUDGET_EXCEEDED", remaining: 8.2, over: 91.8 });
    const sealed = { remaining: 8.2, over: 91.8, resets_at: new Date(second.atMs + WINDOW_MS).toISOString() };
    expect(refused.body.reasons[0]).to.deep.include(sealed);
    expect(refused.limits[0]?.resets_at).to.equal(sealed.resets_at);
    const smaller = await pay(50);
    expect(smaller.resetsAtMs).to.equal(first.atMs + WINDOW_MS);
    const time = new Date(Math.ceil((first.atMs + WINDOW_MS) / 1000) * 1000).toISOString();
    expect(smaller.reason?.wouldPass).to.contain("would allow at amount <= 8.20 EUR; 50 EUR from ");
    expect(smaller.reason?.wouldPass).to.contain(`${time.slice(11, 19)} UTC`);
  });

  it("is exact to the millisecond, over random payments and outcomes.", async () => {
    await test.mandate([budgetRule(100, { scope: Scope.WORKSPACE })]);
    const amount = fc.nat(6_000).map((cents) => cents / 100);
    const paid: fc.Arbitrary<readonly [number, number, number]> = fc.tuple(amount, fc.nat(WINDOW_MS / 4), fc.nat(5));
    let told = 0;
    await fc.assert(
      fc.asyncProperty(fc.array(paid, { minLength: 4, maxLength: 12 }), async (payments) => {
        for (const [each, waits, outcome] of payments) {
          test.clock.advance(waits);
          const { decisionId, decision, resetsAtMs } = await pay(each);
          if (decision === Decision.BLOCK) {
            expect(resetsAtMs, `${each}`).to.be.a("number");
            const at = resetsAtMs ?? 0;
            expect([await decisionAt(at - 1, each), await decisionAt(at, each)]).to.deep.equal([
              Decision.BLOCK,
              Decision.ALLOW,
            ]);
            told += 1;
          } else if (outcome < 3) {
            const status = [OutcomeStatus.SUCCEEDED, OutcomeStatus.FAILED, OutcomeStatus.CANCELLED][outcome];
            const amountOf = status === OutcomeStatus.SUCCEEDED ? { amount: Math.round(each * 50) / 100 } : {};
            await test.enforcement.reportOutcome({ decisionId, status: status ?? 0, ...amountOf });
          }
        }
      }),
      { numRuns: 12 },
    );
    expect(told).to.be.above(5);
  }).timeout(120_000);

  it("counts an amount that was reserved: two of which one fits have room when it leaves.", async () => {
    await test.mandate([budgetRule(10)]);
    const { atMs, limits, reason } = await pay(6);
    expect(limits[0]?.resets_at).to.equal(new Date(atMs + WINDOW_MS).toISOString());
    expect(reason?.resetsAt).to.equal(undefined);
    expect([await decisionAt(atMs + WINDOW_MS - 1, 6), await decisionAt(atMs + WINDOW_MS, 6)]).to.deep.equal([
      Decision.BLOCK,
      Decision.ALLOW,
    ]);
    expect((await pay(2)).limits[0]).not.to.have.property("resets_at");
  });

  it("is told of an approved action that exceeds the budget, with its own amount.", async () => {
    await test.mandate([budgetRule(10, {}, Decision.ESCALATE)]);
    await pay(9);
    const asked = await pay(5);
    await test.resolve(asked.escalationId ?? "");
    test.clock.advance(5_000);
    const done = await pay(5, { escalationId: asked.escalationId ?? "" });
    expect(done.decision).to.equal(Decision.ALLOW);
    const at = Date.parse(done.limits[0]?.resets_at ?? "");
    expect([await decisionAt(at - 1, 5), await decisionAt(at, 5)]).to.deep.equal([Decision.ESCALATE, Decision.ALLOW]);
  });

  it("of agent and principal is the later one, and what remains the smaller.", async () => {
    const principal = await test.agent();
    await test.authority.createGrant({
      grantorAgentId: principal,
      granteeAgentId: agentId,
      actionTypes: ["payment.*"],
    });
    await test.mandate([budgetRule(10)]);
    await pay(8);
    test.clock.advance(1_000);
    await pay(9, { agentId: principal });
    const refused = await pay(7, { onBehalfOf: principal });
    expect(refused.limits.map(({ budget }) => budget?.total)).to.deep.equal([15, 16]);
    expect(refused.reason).to.include({ remaining: 1, over: 6 });
    const times = refused.limits.map(({ resets_at }) => Date.parse(resets_at ?? ""));
    expect(refused.resetsAtMs).to.equal(Math.max(...times));
    const at = refused.resetsAtMs ?? 0;
    const init = { onBehalfOf: principal };
    expect([await decisionAt(at - 1, 7, init), await decisionAt(at, 7, init)]).to.deep.equal([
      Decision.BLOCK,
      Decision.ALLOW,
    ]);
  });

  it("never comes for more than the budget, and none is told.", async () => {
    await test.mandate([budgetRule(10)]);
    const { reason, limits } = await pay(11);
    expect(reason).to.include({ remaining: 10, over: 1, wouldPass: "would allow at amount <= 10 EUR" });
    expect(reason?.resetsAt).to.equal(undefined);
    expect(limits[0]).not.to.have.property("resets_at");
  });

  it("is not told for a retry where an amount cannot be added, which never fits.", async () => {
    const sums = ["amount", "fee"].map((field) => ({ tool: "send_payment", field }));
    await test.mandate([budgetRule(10, { sums, otherCurrency: OtherCurrency.VIOLATE })]);
    const metadata = (fee: unknown) => ({ metadata: { arguments: { amount: 6, fee, currency: "EUR" } } });
    await pay(0, metadata(0));
    const { reasons } = await pay(0, metadata("much"));
    expect(reasons.map(({ code, resetsAt, over }) => [code, resetsAt !== undefined, over])).to.deep.equal([
      ["ARGUMENT_WRONG_TYPE", false, undefined],
      ["BUDGET_EXCEEDED", true, 2],
    ]);
    const timed = reasons.map(({ resetsAt }) => (resetsAt === undefined ? {} : { resetsAtMs: timestampMs(resetsAt) }));
    expect(retryAfterMs(timed)).to.equal(undefined);
  });

  it("is in the list of limits once nothing fits, and gone when an outcome makes room.", async () => {
    await test.mandate([budgetRule(10, { scope: Scope.DEPARTMENT })]);
    await test.department(agentId);
    const groupOf = async () => (await test.mandates.listLimits({})).limits[0]?.groups[0];
    const { decisionId, atMs } = await pay(6);
    expect((await groupOf())?.resetsAt).to.equal(undefined);
    test.clock.advance(1_000);
    await pay(4);
    const full = await groupOf();
    expect(full?.budget?.remaining).to.equal(0);
    expect(full?.resetsAt && timestampMs(full.resetsAt)).to.equal(atMs + WINDOW_MS);
    await test.enforcement.reportOutcome({ decisionId, status: OutcomeStatus.FAILED });
    const free = await groupOf();
    expect(free?.budget?.remaining).to.equal(6);
    expect(free?.resetsAt).to.equal(undefined);
  });
});
