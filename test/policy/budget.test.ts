import type { JsonObject, JsonValue } from "@bufbuild/protobuf";
import { expect } from "chai";
import fc from "fast-check";
import { naivePayment } from "../../src/dryrun/naive/naive-budgets.ts";
import type { Json } from "../../src/dryrun/naive/naive-conditions.ts";
import { typesOf } from "../../src/dryrun/naive/naive-evaluator.ts";
import { paymentOf } from "../../src/policy/budget.ts";
import { amountFrom, amountText } from "../../src/policy/decimal.ts";
import { createPolicySet } from "../../src/policy/policy-set.ts";
import type { CompiledRule, EvaluationContext } from "../../src/policy/types.ts";
import { contextFrom, lookup, mandateFrom, type RuleJson, toolFrom } from "./harness.ts";

const LINE = { type: "object", properties: { amount: { type: "number" }, currency: { type: "string" } } };
const pay = toolFrom({
  type: "object",
  properties: {
    amount: { type: ["number", "null"] },
    whole: { type: "integer" },
    currency: { type: "string" },
    currency_code: { type: "string" },
    parts: { type: "array", items: { type: "number" } },
    lines: { type: "array", items: LINE },
    "a.b": { type: "number" },
    "a.b_currency": { type: "string" },
  },
});
const other = toolFrom({ type: "object", properties: LINE.properties }, "other");
const TOOLS = lookup(pay, other);

/** A budget of 10 EUR over `amount`, with what a test changes of it. */
const budget = (conditions: JsonObject = {}, over: JsonObject = {}): RuleJson => ({
  type: "sequence",
  decision: "block",
  conditions: {
    mode: "budget",
    sums: [{ tool: "pay", field: "amount" }],
    currency: "EUR",
    max_total: 10,
    window_seconds: "60",
    ...conditions,
  },
  ...over,
});

const compiled = (rule: RuleJson): CompiledRule => mandateFrom([rule], {}, TOOLS).rules[0] as CompiledRule;
const keyOf = (rule: RuleJson): string | undefined => compiled(rule).budget?.pot.key;

function evaluate(rules: readonly RuleJson[], args: JsonObject, over: Partial<EvaluationContext> = {}) {
  const set = createPolicySet([mandateFrom(rules, {}, TOOLS)]);
  return set.evaluate(contextFrom({ tool: pay, metadata: { arguments: args }, ...over }));
}

const euros = (amount: number): JsonObject => ({ amount, currency: "EUR" });

describe("budget rules", () => {
  it("share a pot if their sums, currency, scope and department are the same, and in no other case.", () => {
    const sums = [
      { tool: "pay", field: "amount" },
      { tool: "other", field: "amount" },
    ];
    const one = keyOf(budget({ sums }));
    const same = { sums: [...sums, { tool: "pay", field: " amount " }].reverse(), currency: " eur", max_total: 99 };
    expect(
      keyOf(budget({ ...same, window_seconds: "5", other_currency: "ignore" }, { decision: "escalate" })),
    ).to.equal(one);
    const changed = [
      { sums: sums.slice(1) },
      { sums, currency: "USD" },
      { sums, scope: "workspace" },
      { sums, scope: "department" },
      { sums, scope: "department", department_id: "dep_1" },
    ];
    expect(new Set([one, ...changed.map((conditions) => keyOf(budget(conditions)))]).size).to.equal(6);
  });

  it("fire when the total is above the limit, and report their state either way.", () => {
    const potValue = () => ({ group: "dep_1", members: 3, reserved: 4_000_000n, captured: 2_500_000n });
    const at = evaluate([budget({ scope: "department" })], euros(3.5), { potValue });
    expect(at.decision).to.equal(undefined);
    const where = { mandateId: "mnd_a", rule: "rules[0]", scope: "department", group: "dep_1", members: 3, window: 60 };
    const counts = { count: 0, limit: 0, remaining: 0, source: "decision_log" };
    const pot = keyOf(budget({ scope: "department" }));
    const state = { pot, currency: "EUR", limit: 10, total: 10, reserved: 7.5, captured: 2.5, remaining: 0 };
    expect(at.collectiveLimits).to.deep.equal([
      {
        ...where,
        ...counts,
        agentId: "agt_1",
        budget: state,
        counter: undefined,
        spending: at.collectiveLimits[0]?.spending,
      },
    ]);
    const { past, payment } = at.collectiveLimits[0]?.spending ?? {};
    expect([past, payment?.millionths]).to.deep.equal([6_500_000n, 3_500_000]);
    const above = evaluate([budget({ scope: "department" })], euros(3.500001), { potValue });
    expect(above.decision).to.equal("block");
    expect(above.collectiveLimits[0]?.budget).to.deep.include({ total: 10.000001, remaining: 0 });
    expect(above.reasons).to.deep.equal([
      {
        code: "BUDGET_EXCEEDED",
        message: "10.000001 EUR in 60 s are more than 10 EUR",
        rule: "rules[0]",
        mandateId: "mnd_a",
        mandateName: "Mandate",
        wouldPass: "would allow at amount <= 3.50 EUR",
      },
    ]);
  });

  it("give the amount that cannot be added and the total that is exceeded as reasons of their own.", () => {
    const sums = [
      { tool: "pay", field: "amount" },
      { tool: "pay", field: "whole" },
    ];
    const { reasons } = evaluate([budget({ sums }, { description: "a day" })], { ...euros(11), whole: "x" });
    expect(reasons.map(({ code, argument, message }) => [code, argument, message])).to.deep.equal([
      ["ARGUMENT_WRONG_TYPE", "whole", "a day: `whole` is not a number and cannot be added to the budget"],
      ["BUDGET_EXCEEDED", undefined, "a day: 11 EUR in 60 s are more than 10 EUR"],
    ]);
    expect(reasons[1]?.wouldPass).to.equal("10 EUR still fit");
  });

  it("name a whole number that would pass where the tool takes no other.", () => {
    const rule = budget({ sums: [{ tool: "pay", field: "whole" }], max_total: 7.5 });
    const { reasons } = evaluate([rule], { whole: 8, currency: "EUR" });
    expect(reasons[0]?.wouldPass).to.equal("would allow at whole <= 7 EUR");
  });

  it("take no total of more than six places.", () => {
    expect(() => compiled(budget({ max_total: 0.1234567 }))).to.throw("LIMIT_OUT_OF_RANGE");
    expect(compiled(budget({ max_total: 0.123456 })).budget?.maxTotal).to.equal(123_456);
  });

  it("cover calls of their tools alone, and of the one that they name.", () => {
    const sums = [
      { tool: "pay", field: "amount" },
      { tool: "other", field: "amount" },
    ];
    const of = (rule: RuleJson, tool = pay) => evaluate([rule], euros(11), { tool }).decision;
    expect(of(budget({ sums }))).to.equal("block");
    expect(of(budget({ sums }), other)).to.equal("block");
    expect(of(budget({ sums }), toolFrom({ type: "object" }, "third"))).to.equal(undefined);
    expect(of(budget({ sums }, { tool: "other" }))).to.equal(undefined);
    expect(of(budget({ sums }, { tool: "other" }), other)).to.equal("block");
    expect(of(budget({ sums }, { when: "args.amount > 20.0" }))).to.equal(undefined);
  });

  it("cover the tools of their sums once they no longer compile.", () => {
    const rule = budget({
      sums: [
        { tool: "pay", field: "amount" },
        { tool: "other", field: "amount" },
      ],
    });
    expect(compiled(rule).tools).to.deep.equal(["pay", "other"]);
    expect(compiled({ ...rule, tool: "other" }).tools).to.deep.equal(["other"]);
  });

  it("write amounts with two places, or as many as they have.", () => {
    const texts = [0n, 8_200_000n, 12_000_000n, 12_500_000n, 125_000n, 1n, 999_999_999_000_000_000_000n].map(
      amountText,
    );
    expect(texts).to.deep.equal(["0", "8.20", "12", "12.50", "0.125", "0.000001", "999999999000000"]);
    expect(amountFrom(10_000_001n)).to.equal(10.000001);
  });

  it("read amounts as the second evaluator does, whatever the arguments are.", () => {
    const fields = ["amount", "whole", "parts[]", "lines[].amount", '["a.b"]'];
    const amount: fc.Arbitrary<JsonValue> = fc.oneof(
      { weight: 6, arbitrary: fc.nat(1_000_000_000_000).map((millionths) => millionths / 1_000_000) },
      { weight: 2, arbitrary: fc.constantFrom(0, -0, 1, 0.1, 0.000001, 999_999_999, 123_456_789.123456) },
      { weight: 2, arbitrary: fc.constantFrom(-1, 1e-7, 0.1234567, 1e9, 1e21, 999_999_999.000001, 0.1 + 0.2) },
      { weight: 2, arbitrary: fc.constantFrom<JsonValue>(null, "1", true, [], [1], {}) },
      { weight: 1, arbitrary: fc.double({ noNaN: true, noDefaultInfinity: true }) },
    );
    const currency = fc.constantFrom<JsonValue>("EUR", "EUR", "EUR", " eur", "ＥＵＲ", "USD", "", null, 978);
    const lines = fc.array(fc.record({ amount, currency }, { requiredKeys: [] }), { maxLength: 3 });
    const args = fc.record(
      {
        amount,
        currency,
        whole: amount,
        currency_code: currency,
        parts: fc.oneof(fc.array(amount, { maxLength: 4 }), amount),
        lines: fc.oneof(lines, amount),
        "a.b": amount,
        "a.b_currency": currency,
      },
      { requiredKeys: [] },
    );
    let added = 0;
    fc.assert(
      fc.property(fc.subarray(fields, { minLength: 1 }), args, (chosen, given) => {
        const sums = chosen.map((field) => ({ tool: "pay", field }));
        const { pot } = compiled(budget({ sums })).budget ?? {};
        const own = pot && paymentOf(pot, "pay", given as JsonObject);
        const naive = naivePayment(sums, "EUR", "pay", typesOf(pay), given as Json);
        const isFaulty = own?.fault !== undefined;
        expect([isFaulty, own?.other !== undefined]).to.deep.equal([naive.isFaulty, naive.hasOther]);
        expect(own?.millionths).to.equal(naive.millionths === undefined ? undefined : Number(naive.millionths));
        if (own?.millionths !== undefined) added++;
      }),
      { numRuns: 5_000 },
    );
    expect(added).to.be.above(500);
  }).timeout(60_000);
});
