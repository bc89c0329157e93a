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
    ];
    for (const change of changes) {
      const runs = await runsOf([budget({})], [budget(change)]);
      expect(
        runs.some(({ passed }) => !passed),
        JSON.stringify(change),
      ).to.equal(true);
    }
  });
});
