import { create, type JsonObject } from "@bufbuild/protobuf";
import { expect } from "chai";
import { ConditionsSchema, RuleSchema, RuleType } from "../../gen/agentcontrol/v1/mandate_service_pb.js";
import { Decision } from "../../gen/agentcontrol/v1/resources_pb.js";
import { generateTests, MAX_TESTS } from "../../src/dryrun/generate-tests.ts";
import { runTests } from "../../src/dryrun/run-tests.ts";
import { lookup, mandateFrom, mandateSource, type RuleJson, toolFrom, velocity } from "../policy/harness.ts";
import { mandatesFrom, passEverywhere, shareFound } from "./generated-tests.ts";

const NONE = new Set<number>();

const PAYMENT = toolFrom(
  {
    type: "object",
    properties: {
      amount: { type: "integer" },
      currency: { type: "string", enum: ["EUR", "USD"] },
      note: { type: "string" },
    },
    required: ["amount"],
  },
  "send_payment",
);

/** A rule over the amount of a payment. */
const amountRule = (value: number): RuleJson => ({
  type: "argument",
  tool: "send_payment",
  decision: "block",
  conditions: { rules: [{ field: "amount", operator: ">", value, currency: "EUR" }] },
});

async function suiteOf(rules: readonly RuleJson[]) {
  return generateTests(mandateSource(rules), lookup(PAYMENT), NONE);
}

describe("generated tests", () => {
  it("pass under the compiled rules, for random mandates.", async () => {
    expect(await passEverywhere(40, 1)).to.be.above(2_000);
  });

  it("fail for nearly every change of a rule.", async () => {
    const { share, missed, byKind } = await shareFound(200, 1);
    expect(share, JSON.stringify(missed, undefined, 1)).to.be.at.least(0.93);
    for (const kind of ["currency", "ending", "repeat"]) {
      expect(byKind[kind]?.all, kind).to.be.above(0);
      expect(byKind[kind]?.found, JSON.stringify(missed, undefined, 1)).to.equal(byKind[kind]?.all);
    }
  });

  it("are the same for the same mandate, with ids of their own.", async () => {
    const { tests } = await suiteOf([amountRule(500)]);
    const mandate = mandateFrom([amountRule(500)], {}, lookup(PAYMENT));
    const { runs, notRun } = await runTests(tests, mandate, lookup(PAYMENT), { maxMs: -1 });
    expect([runs.length, notRun]).to.deep.equal([0, tests.length]);
  });

  it("name the case, say why, and take the bounds of an amount.", async () => {
    const { tests, notes } = await suiteOf([amountRule(500)]);
    expect(notes).to.deep.equal([]);
    const shown = tests.map(({ name, expected, because }) => ({ name, expected, because }));
    expect(shown).to.deep.include.members([
      {
        name: "`amount` just above 500 (501)",
        expected: { decision: "block", fires: true },
        because: "`amount > 500 EUR` is true, so the rule fires",
      },
      {
        name: "`amount` at 500 (500)",
        expected: { decision: "allow", fires: false },
        because: "`amount > 500 EUR` is false, so the rule does not fire",
      },
      {
        name: "`amount` in another currency",
        expected: { decision: "block", fires: true },
        because: "`amount` is an amount in another currency, which counts as a violation, so the rule fires",
      },
    ]);
  });

  /** One change of a condition, or of a pattern, each of which makes a rule fire for more or for less. */
  const CHANGES: readonly (readonly [what: string, before: object, after: object])[] = [
    [
      "loses its currency",
      { field: "amount", operator: ">", value: 500, currency: "EUR" },
      { field: "amount", operator: ">", value: 500 },
    ],
    [
      "loses the currency of a lower bound",
      { field: "amount", operator: "<=", value: 0, currency: "EUR" },
      { field: "amount", operator: "<=", value: 0 },
    ],
    [
      "loses the currency of a range",
      { field: "amount", operator: "between", value: [5, 9], currency: "EUR" },
      { field: "amount", operator: "between", value: [5, 9] },
    ],
    [
      "has another currency",
      { field: "amount", operator: ">", value: 500, currency: "EUR" },
      { field: "amount", operator: ">", value: 500, currency: "USD" },
    ],
    [
      "loses the first character of an ending",
      { field: "note", operator: "ends_with", value: "yz" },
      { field: "note", operator: "ends_with", value: "z" },
    ],
    [
      "loses the last character of a beginning",
      { field: "note", operator: "starts_with", value: "yz" },
      { field: "note", operator: "starts_with", value: "y" },
    ],
    [
      "loses the first character of a part",
      { field: "note", operator: "contains", value: "yz" },
      { field: "note", operator: "contains", value: "z" },
    ],
    [
      "may repeat blanks no times",
      { field: "note", operator: "matches", value: "rm\\s+-rf" },
      { field: "note", operator: "matches", value: "rm\\s*-rf" },
    ],
    [
      "may repeat a letter no times",
      { field: "note", operator: "matches", value: "^a+$" },
      { field: "note", operator: "matches", value: "^a*$" },
    ],
  ];
  for (const decision of ["block", "allow"]) {
    for (const [what, before, after] of CHANGES) {
      it(`fail for a rule that decides \`${decision}\` and ${what}.`, async () => {
        const rule = (condition: object): RuleJson => ({
          type: "argument",
          tool: "send_payment",
          decision,
          conditions: { rules: [{ field: "note", operator: "exists" }, condition as JsonObject] },
        });
        const { tests } = await suiteOf([rule(before)]);
        const changed = mandateFrom([rule(after)], {}, lookup(PAYMENT));
        const { runs } = await runTests(tests, changed, lookup(PAYMENT));
        expect(runs.filter(({ passed }) => !passed).map(({ test }) => test.name)).not.to.deep.equal([]);
      });
    }
  }

  it("fail for a content rule whose pattern may repeat no times.", async () => {
    const rule = (pattern: string): RuleJson => ({
      type: "content",
      decision: "block",
      conditions: { patterns: [pattern] },
    });
    const { tests } = await suiteOf([rule("drop\\s+table")]);
    const { runs } = await runTests(tests, mandateFrom([rule("drop\\s*table")]), lookup());
    expect(runs.filter(({ passed }) => !passed).map(({ test }) => test.name)).not.to.deep.equal([]);
  });

  it("leave the decision on an amount in another currency to the currency.", async () => {
    const { tests } = await suiteOf([amountRule(500)]);
    const inOther = tests.find(({ name }) => name === "`amount` in another currency");
    expect(inOther?.action.metadata?.arguments).to.include({ amount: 499, currency: "XTS" });
    const inCurrency = tests.find(({ name }) => name === "`amount` in the currency in another case and with blanks");
    expect(inCurrency?.action.metadata?.arguments).to.include({ amount: 499, currency: " eur " });
    expect([inOther?.expected.fires, inCurrency?.expected.fires]).to.deep.equal([true, false]);
  });

  it("take the counts at a limit, one below and one above.", async () => {
    const { tests } = await suiteOf([velocity(3)]);
    const counts = tests.filter(({ name }) => name.startsWith("count "));
    expect(counts.map(({ name, expected }) => `${name}: ${expected.fires}`)).to.include.members([
      "count 2 of 3: false",
      "count 3 of 3: false",
      "count 4 of 3: true",
    ]);
  });

  it("fail with the compiled rules' reasons when a bound is moved.", async () => {
    const { tests } = await suiteOf([amountRule(500)]);
    const moved = mandateFrom([amountRule(501)], {}, lookup(PAYMENT));
    const { runs } = await runTests(tests, moved, lookup(PAYMENT));
    const failed = runs.filter(({ passed }) => !passed);
    expect(failed.map(({ test }) => test.name)).to.include("`amount` just above 500 (501)");
    for (const { actual } of failed) expect(actual).to.deep.equal({ decision: "allow", fires: false });
  });

  it("leave out what they cannot test, and say so.", async () => {
    const semantic = create(RuleSchema, {
      type: RuleType.SEMANTIC,
      decision: Decision.BLOCK,
      conditions: create(ConditionsSchema, { prompt: "leaks a secret" }),
    });
    const content: RuleJson = { type: "content", decision: "block", conditions: { patterns: ["\\p{Greek}+"] } };
    const source = mandateSource([content, velocity(1_000_000)]);
    const suite = await generateTests({ ...source, rules: [...source.rules, semantic] }, lookup(PAYMENT), NONE);
    expect(suite.tests.map(({ rule }) => rule)).not.to.include("rules[2]");
    expect(suite.notes).to.deep.equal([
      {
        rule: "rules[0]",
        message: "no text that matches can be derived from `patterns[0]`, so only mismatches are tested",
      },
      { rule: "rules[1]", message: "a limit above 10000 actions is not tested at its bound" },
      { rule: "rules[2]", message: "a semantic rule asks a model and has no tests" },
    ]);
  });

  it("are bounded for the largest mandate, and leave the event loop free.", async () => {
    const rules = Array.from({ length: 200 }, (_, index) => ({
      type: "argument",
      tool: "send_payment",
      decision: "block",
      conditions: {
        operator: "OR",
        rules: Array.from({ length: 100 }, (_each, at) => ({ field: "amount", operator: ">", value: index + at })),
      },
    }));
    // In time of this thread's processor: other processes do not lengthen a turn of the loop.
    const usedMs = (): number => {
      const { user, system } = process.threadCpuUsage();
      return (user + system) / 1000;
    };
    let longest = 0;
    let last = usedMs();
    const timer = setInterval(() => {
      longest = Math.max(longest, usedMs() - last);
      last = usedMs();
    }, 1);
    const { tests, notes } = await suiteOf(rules);
    clearInterval(timer);
    expect(tests.length).to.be.within(1, MAX_TESTS);
    expect(notes.at(-1)?.message).to.match(/further cases are left out/);
    expect(longest).to.be.below(250);
  });

  it("begin no further one when their time is over.", async () => {
    for (const { mandate } of mandatesFrom(7)) {
      const { tests } = await generateTests(mandate.source, mandate.tools, new Set());
      if (tests.length === 0) continue;
      const { runs, notRun } = await runTests(tests, mandate.compiled, mandate.tools, { maxMs: -1 });
      expect([runs.length, notRun]).to.deep.equal([0, tests.length]);
      break;
    }
  });
});
