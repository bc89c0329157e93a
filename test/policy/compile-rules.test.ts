import type { JsonObject, JsonValue } from "@bufbuild/protobuf";
import { expect } from "chai";
import { type Rule, RuleType } from "../../gen/agentcontrol/v1/mandate_service_pb.js";
import { compileMandate } from "../../src/policy/compile/mandate.ts";
import { createPolicySet } from "../../src/policy/policy-set.ts";
import { RULE_VIOLATION_REASONS } from "../../src/policy/violations.ts";
import {
  contextFrom,
  evaluateRule,
  lookup,
  mandateFrom,
  mandateSource,
  type RuleJson,
  ruleFrom,
  rulesCompiled,
  testdata,
  toolFrom,
} from "./harness.ts";

interface Case {
  readonly description: string;
  readonly rule: RuleJson;
  /** Path, reason and suggestion. */
  readonly want: readonly (readonly [string, string, string | null])[];
}

interface PassCase {
  readonly conditions: JsonObject;
  readonly arguments: JsonObject;
  /** For each reason, in order. */
  readonly want: readonly (string | null)[];
}

const { schema, cases } = testdata<{ schema: JsonObject; cases: Case[] }>("violations");
const passCases = testdata<{ cases: PassCase[] }>("would-pass").cases;
const tool = toolFrom(schema);
const condition = { field: "amount", operator: ">", value: 5 };

function violationsOf(rules: readonly Rule[]) {
  const result = rulesCompiled(rules, lookup(tool));
  return result.kind === "invalid" ? result.violations : [];
}

function compiledType(rule: RuleJson): RuleType | undefined {
  const result = rulesCompiled([ruleFrom(rule)], lookup(tool));
  return result.kind === "compiled" ? result.rules[0]?.type : undefined;
}

describe("compileRules", () => {
  for (const given of cases) {
    it(`refuses ${given.description}.`, () => {
      const found = violationsOf([ruleFrom(given.rule)]).map(({ path, reason, suggestion }) => [
        path,
        reason,
        suggestion ?? null,
      ]);
      expect(found).to.deep.equal(given.want);
    });
  }

  it("refuses a type and a number of conditions that the interface would not let through.", () => {
    const unknown = ruleFrom({ type: "action", decision: "block" });
    unknown.type = 99 as RuleType;
    expect(violationsOf([unknown]).map(({ reason }) => reason)).to.deep.equal(["TYPE_UNKNOWN"]);
    const rules = Array.from({ length: 101 }, () => condition);
    const many = ruleFrom({ tool: "pay", decision: "block", conditions: { rules } });
    expect(violationsOf([many]).map(({ reason }) => reason)).to.deep.equal(["LIMIT_OUT_OF_RANGE"]);
    const odd = ruleFrom({ tool: "pay", decision: "block", conditions: { rules: [condition] } });
    odd.decision = 9 as never;
    for (const each of odd.conditions?.rules ?? []) each.onMissing = -1 as never;
    const reasons = ["ON_MISSING_UNKNOWN", "DECISION_MISSING"];
    expect(violationsOf([odd]).map(({ reason }) => reason)).to.deep.equal(reasons);
    const sums = Array.from({ length: 51 }, () => ({ tool: "pay", field: "amount" }));
    const budget = ruleFrom({
      type: "sequence",
      decision: "block",
      conditions: { mode: "budget", sums, currency: "EUR", max_total: 1, window_seconds: "60" },
    });
    Object.assign(budget.conditions ?? {}, { otherCurrency: 9, release: 9, countOutcomes: [0, 9, -1, 1] });
    const outcomes = ["OUTCOME_UNKNOWN", "OUTCOME_UNKNOWN", "OUTCOME_UNKNOWN"];
    const found = [...outcomes, "OTHER_CURRENCY_UNKNOWN", "RELEASE_UNKNOWN", "LIMIT_OUT_OF_RANGE"];
    expect(violationsOf([budget]).map(({ reason }) => reason)).to.deep.equal(found);
  });

  it("refuses an integer beyond 2^53 where integers are compared.", () => {
    const compared = toolFrom({
      type: "object",
      properties: { count: { type: "integer" }, amount: { type: "number" } },
    });
    const reasonsOf = (field: string, operator: string, value: JsonValue) => {
      const rule = { tool: "pay", decision: "block", conditions: { rules: [{ field, operator, value }] } };
      const result = rulesCompiled([ruleFrom(rule)], lookup(compared));
      return result.kind === "invalid" ? result.violations.map(({ path, reason }) => `${path} ${reason}`) : [];
    };
    const at = "rules[0].conditions.rules[0].value";
    expect(reasonsOf("count", ">", 2 ** 53)).to.deep.equal([`${at} VALUE_TYPE`]);
    expect(reasonsOf("count", "between", [1, 2 ** 60])).to.deep.equal([`${at} VALUE_TYPE`]);
    expect(reasonsOf("count", "==", 2 ** 53)).to.deep.equal([`${at} VALUE_TYPE`]);
    expect(reasonsOf("count", "in", [1, -(2 ** 53)])).to.deep.equal([`${at}[1] VALUE_TYPE`]);
    expect(reasonsOf("count", ">", 2 ** 53 - 1)).to.deep.equal([]);
    expect(reasonsOf("amount", ">", 2 ** 60)).to.deep.equal([]);
  });

  it("has a case for every reason.", () => {
    const elsewhere = [
      "ON_MISSING_UNKNOWN",
      "OTHER_CURRENCY_UNKNOWN",
      "RELEASE_UNKNOWN",
      "OUTCOME_UNKNOWN",
      "SCHEMA_NOT_CHECKABLE",
      "SCOPE_TARGET_NOT_APPLICABLE",
      "TYPE_UNKNOWN",
      "VIOLATIONS_NOT_LISTED",
    ];
    const seen = new Set([...cases.flatMap((given) => given.want).map(([, reason]) => reason), ...elsewhere]);
    expect([...seen]).to.have.members(Object.keys(RULE_VIOLATION_REASONS));
  });

  it("gives all violations of all rules in the order of their paths.", () => {
    const bad = { tool: "pay", decision: "block", conditions: { rules: [{ field: "x", operator: "y" }] } };
    const paths = violationsOf(Array.from({ length: 12 }, () => ruleFrom(bad))).map(({ path }) => path);
    const wanted = Array.from({ length: 12 }, (_, index) => `rules[${index}].conditions.rules[0]`);
    expect(paths).to.deep.equal(wanted.flatMap((path) => [`${path}.field`, `${path}.operator`]));
  });

  it("lists a hundred violations, the first of each further rule, and how many more there are.", () => {
    const wrong = { field: "x", operator: "y" };
    const bad = { tool: "pay", decision: "block", conditions: { rules: Array.from({ length: 20 }, () => wrong) } };
    const rules = Array.from({ length: 10 }, () => bad);
    const found = violationsOf(rules.map(ruleFrom));
    const ruleOf = (path: string) => /^rules\[\d+\]/.exec(path)?.[0];
    const listed = found.slice(0, -1).map(({ path }) => ruleOf(path));
    expect(listed.slice(0, 100).filter((rule) => rule === "rules[0]")).to.have.lengthOf(40);
    expect(listed.slice(100)).to.deep.equal(Array.from({ length: 7 }, (_, index) => `rules[${index + 3}]`));
    expect(found.at(-1)).to.deep.equal({
      path: "rules",
      reason: "VIOLATIONS_NOT_LISTED",
      message: "293 more violations are not listed; correct the listed ones first",
    });
    const mandate = compileMandate(mandateSource(rules), lookup(tool), { allowStale: true });
    expect(mandate.violations).to.deep.equal(found);
    expect(mandate.rules.every(({ stale }) => stale)).to.equal(true);
  });

  it("says the suggestion in the message too.", () => {
    const rule = ruleFrom({
      tool: "pay",
      decision: "block",
      conditions: { rules: [{ ...condition, field: "amonut" }] },
    });
    expect(violationsOf([rule])[0]?.message).to.equal(
      "the tool's schema has no argument `amonut`; did you mean `amount`?",
    );
  });

  it("names the operators that would fit.", () => {
    const rule = ruleFrom({ tool: "pay", decision: "block", conditions: { rules: [{ ...condition, field: "tags" }] } });
    expect(violationsOf([rule])[0]?.message)
      .to.contain("takes `contains` `not_contains`")
      .and.not.to.contain("`matches`");
  });

  it("chooses `argument` for a tool with a schema and `metadata` for one without.", () => {
    const conditions = { rules: [condition] };
    expect(compiledType({ tool: "pay", decision: "block", conditions })).to.equal(RuleType.ARGUMENT);
    expect(compiledType({ tool: "other", decision: "block", conditions })).to.equal(RuleType.METADATA);
    expect(compiledType({ tool: "pay", type: "metadata", decision: "block", conditions })).to.equal(RuleType.METADATA);
  });

  it("leaves the rule it was given as it is.", () => {
    const rule = ruleFrom({ tool: "pay", decision: "block", conditions: { rules: [condition] } });
    const result = rulesCompiled([rule], lookup(tool));
    expect(rule.type).to.equal(RuleType.UNSPECIFIED);
    expect(result.kind === "compiled" && result.rules[0]?.source.type).to.equal(RuleType.ARGUMENT);
  });

  it("gives counters with equal matchers the same key and others another.", () => {
    const rule = (types: string[], decisions: string[], scope: string) => ({
      type: "sequence",
      decision: "block",
      conditions: {
        mode: "velocity",
        match_action_types: types,
        count_decisions: decisions,
        scope,
        max_count: "1",
        window_seconds: "60",
      },
    });
    const specOf = (json: RuleJson) => {
      const result = rulesCompiled([ruleFrom(json)], lookup());
      return result.kind === "compiled" ? result.rules[0]?.velocity?.counter : undefined;
    };
    const spec = specOf(rule(["b.*", " A "], ["block", "allow"], "workspace"));
    expect(spec).to.include({ windowMs: 60_000, scope: "workspace" });
    expect(spec?.patterns).to.deep.equal(["a", "b.*"]);
    expect(spec?.key).to.equal(specOf(rule(["a", "B.*", "a"], ["allow", "block"], "agent"))?.key);
    expect(spec?.key).not.to.equal(specOf(rule(["a", "b.*"], ["allow"], "workspace"))?.key);
    expect(spec?.key).not.to.equal(specOf(rule(["a", "b"], ["allow", "block"], "workspace"))?.key);
  });
});

describe("compileMandate", () => {
  it("refuses a scope without its target and a target without its scope.", () => {
    const action = { type: "action", decision: "block", conditions: { match_action_types: ["a"] } };
    const reasons = (over: object) =>
      compileMandate(mandateSource([action], over), lookup()).violations.map(({ path, reason }) => [path, reason]);
    expect(reasons({ scope: "agent" })).to.deep.equal([["agent_id", "SCOPE_TARGET_MISSING"]]);
    expect(reasons({ scope: "department", departmentId: " " })).to.deep.equal([
      ["department_id", "SCOPE_TARGET_MISSING"],
    ]);
    expect(reasons({ agentId: "agt_1" })).to.deep.equal([["agent_id", "SCOPE_TARGET_NOT_APPLICABLE"]]);
    expect(reasons({ scope: "agent", agentId: "agt_1" })).to.deep.equal([]);
  });

  it("has no rules when something does not compile and stale rules were not asked for.", () => {
    const rules = [
      { type: "action", decision: "block", conditions: { match_action_types: ["a"] } },
      { decision: "block" },
    ];
    expect(compileMandate(mandateSource(rules), lookup()).rules).to.deep.equal([]);
  });
});

describe("what would have passed", () => {
  const passTool = toolFrom(schema);
  for (const given of passCases) {
    it(`is said as ${JSON.stringify(given.want)} of ${JSON.stringify(given.conditions.rules)}.`, () => {
      for (const decision of ["block", "escalate"]) {
        const rule = { type: "argument", tool: "pay", decision, conditions: given.conditions };
        const { reasons } = evaluateRule(rule, passTool, given.arguments);
        expect(reasons.map(({ wouldPass = null }) => wouldPass)).to.deep.equal(given.want);
      }
    });
  }

  const over = (value: number, more: object = {}) => ({
    type: "argument",
    tool: "pay",
    decision: "block",
    conditions: { rules: [{ field: "amount", operator: ">", value }] },
    ...more,
  });
  const passesOf = (rules: readonly RuleJson[], args: JsonObject, more: object = {}) => {
    const set = createPolicySet([mandateFrom(rules, {}, lookup(passTool))]);
    const context = contextFrom({ tool: passTool, arguments: args, metadata: args, ...more });
    return set.evaluate(context).reasons.map(({ wouldPass = null }) => wouldPass);
  };

  it("is only what was tried: another rule, a default or a wrong type in the way leaves nothing to say.", () => {
    expect(passesOf([over(500), over(100)], { amount: 900 })).to.deep.equal([null, "would allow at amount <= 100"]);
    const narrow = { ...over(500), conditions: { rules: [{ field: "amount", operator: "==", value: 500 }] } };
    expect(passesOf([over(500), narrow], { amount: 900 })).to.deep.equal([null]);
    const schema = { type: "schema", tool: "pay", decision: "block" };
    expect(passesOf([over(500), schema], { amount: 900, status: "odd" })).to.deep.equal([null, null]);
    expect(passesOf([over(500)], { amount: 900 }, { defaultDecision: "block" })).to.deep.equal([null]);
    const price = { ...over(5), conditions: { rules: [{ field: "bare.price", operator: ">", value: 5 }] } };
    expect(passesOf([price], { bare: { price: 9 } })).to.deep.equal(["would allow at bare.price <= 5"]);
    expect(passesOf([price], {})).to.deep.equal(["would allow at bare.price <= 5"]);
    expect(passesOf([price], { bare: 7 })).to.deep.equal([null]);
  });

  it("stops trying where many rules fire.", () => {
    const rules = Array.from({ length: 40 }, (_, index) => over(index));
    const passes = passesOf(rules, { amount: 900 });
    expect(passes.length).to.equal(40);
    expect(passes[0]).to.equal("would allow at amount <= 0");
  });

  it("is not said of a rule that allows.", () => {
    const rule = { type: "argument", tool: "pay", decision: "allow", conditions: { rules: [condition] } };
    expect(evaluateRule(rule, passTool, { amount: 6 }).reasons[0]).not.to.have.property("wouldPass");
  });
});
