import type { JsonObject } from "@bufbuild/protobuf";
import { expect } from "chai";
import fc from "fast-check";
import { generateTests } from "../../src/dryrun/generate-tests.ts";
import { runTests } from "../../src/dryrun/run-tests.ts";
import { lookup, mandateFrom, mandateSource, type RuleJson, toolFrom } from "../policy/harness.ts";

const LINE = { type: "object", properties: { amount: { type: "number" }, currency: { type: "string" } } };
const schema: JsonObject = {
  type: "object",
  properties: { amount: { type: "number" }, currency_code: { type: "string" }, lines: { type: "array", items: LINE } },
};
const TOOLS = lookup(toolFrom(schema, "send_payment"), toolFrom(schema, "refund"));

const SUMS = fc.subarray(
  ["send_payment", "refund"].flatMap((tool) => ["amount", "lines[].amount"].map((field) => ({ tool, field }))),
  { minLength: 1 },
);
const OUTCOMES: fc.Arbitrary<string[]> = fc.oneof(
  fc.constant<string[]>([]),
  fc.subarray(["pending", "succeeded", "failed", "cancelled", "unknown"], { minLength: 1 }),
);
const COUNT: fc.Arbitrary<RuleJson> = fc
  .record({
    match_action_types: fc.constantFrom<string[]>(["pay.*"], ["pay.send", "mail.send"]),
    max_count: fc.constantFrom("0", "1", "3"),
    window_seconds: fc.constantFrom("1", "60"),
    scope: fc.constantFrom("agent", "department", "workspace"),
    count_outcomes: OUTCOMES,
  })
  .map((conditions) => ({
    type: "sequence",
    decision: "block",
    conditions: { mode: "velocity", count_decisions: ["allow"], ...conditions },
  }));
const RULE: fc.Arbitrary<RuleJson> = fc
  .record({
    sums: SUMS,
    max_total: fc.constantFrom(0, 0.5, 10, 1_000, 999_999_999),
    window_seconds: fc.constantFrom("1", "60", "86400"),
    scope: fc.constantFrom("agent", "department", "workspace"),
    other_currency: fc.constantFrom("violate", "ignore"),
    release: fc.constantFrom("reported", "confirmed"),
    decision: fc.constantFrom("block", "escalate"),
    isNarrow: fc.boolean(),
    count_outcomes: OUTCOMES,
  })
  .map(({ decision, isNarrow, ...conditions }) => ({
    type: "sequence",
    decision,
    ...(isNarrow && { tool: conditions.sums[0]?.tool ?? "" }),
    conditions: { mode: "budget", currency: "EUR", ...conditions },
  }));

async function runsOf(rules: readonly RuleJson[], against = rules) {
  const { tests } = await generateTests(mandateSource(rules), TOOLS, new Set());
  return (await runTests(tests, mandateFrom(against, {}, TOOLS), TOOLS)).runs;
}

describe("generated tests of budgets", () => {
  it("pass under the compiled rules, for random budgets.", async () => {
    let count = 0;
    await fc.assert(
      fc.asyncProperty(fc.array(RULE, { minLength: 1, maxLength: 2 }), async (rules) => {
        const runs = await runsOf(rules);
        const failed = runs.find(({ passed }) => !passed);
        expect(failed, JSON.stringify(failed)).to.equal(undefined);
        count += runs.length;
      }),
      { numRuns: 60 },
    );
    expect(count).to.be.above(1_000);
  });

  it("pass under the compiled rules, for random counts of outcomes.", async () => {
    let [count, timed] = [0, 0];
    await fc.assert(
      fc.asyncProperty(fc.array(COUNT, { minLength: 1, maxLength: 2 }), async (rules) => {
        const runs = await runsOf(rules);
        const failed = runs.find(({ passed }) => !passed);
        expect(failed, JSON.stringify(failed)).to.equal(undefined);
        count += runs.length;
        timed += runs.filter(({ test }) => test.expected.resetsAtMs !== undefined).length;
      }),
      { numRuns: 40 },
    );
    expect(count).to.be.above(500);
    expect(timed).to.be.above(50);
  });

  it("fail for a change of the limit, the window, the scope or the currency.", async () => {
    const budget = (change: JsonObject): RuleJson => ({
      type: "sequence",
      decision: "block",
      conditions: {
        mode: "budget",
        sums: [{ tool: "send_payment", field: "amount" }],
        currency: "EUR",
        max_total: 10,
        window_seconds: "60",
        scope: "department",
        ...change,
      },
    });
    const changes: readonly JsonObject[] = [
      { max_total: 10.000001 },
      { max_total: 9.999999 },
      { window_seconds: "61" },
      { scope: "agent" },
      { scope: "workspace" },
      { currency: "USD" },
      { other_currency: "ignore" },
      { count_outcomes: ["pending", "succeeded"] },
      { count_outcomes: ["pending", "succeeded", "unknown", "failed"] },
    ];
    for (const change of changes) {
      const isOfOutcomes = "count_outcomes" in change;
      const own = isOfOutcomes ? { count_outcomes: ["pending", "succeeded", "unknown"] } : {};
      const runs = await runsOf([budget(own)], [budget(change)]);
      expect(
        runs.some(({ passed }) => !passed),
        JSON.stringify(change),
      ).to.equal(true);
    }
  });
});
