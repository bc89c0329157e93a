import type { JsonValue } from "@bufbuild/protobuf";
import { expect } from "chai";
import { compileRules } from "../../src/policy/compile/rules.ts";
import { OPERATOR_NAMES } from "../../src/policy/operators/index.ts";
import { evaluateRule, lookup, type RuleJson, ruleFrom, testdata, toolFrom } from "./harness.ts";

type Case = { value?: JsonValue; holds: JsonValue[]; fails: JsonValue[] } | { misfit: JsonValue };

const TYPES = ["string", "number", "integer", "boolean", "array", "object"];
const VALUES: Readonly<Record<string, JsonValue>> = {
  string: "7",
  number: 7.5,
  boolean: true,
  array: ["7"],
  object: {},
};
const cases = testdata<Record<string, Record<string, Case>>>("operators");

function schemaFor(type: string) {
  const field = type === "array" ? { type, items: { type: "string" } } : { type };
  return { type: "object", properties: { field } };
}

function ruleFor(operator: string, value: JsonValue | undefined, decision: string): RuleJson {
  const condition = { field: "field", operator, ...(value !== undefined && { value }) };
  return { type: "argument", tool: "pay", decision, conditions: { rules: [condition] } };
}

describe("operators", () => {
  it("has a case for every pair of operator and type.", () => {
    expect(Object.keys(cases)).to.have.members([...OPERATOR_NAMES]);
    for (const [name, byType] of Object.entries(cases)) expect(Object.keys(byType), name).to.have.members(TYPES);
  });

  for (const [operator, byType] of Object.entries(cases)) {
    for (const [type, given] of Object.entries(byType)) {
      const tool = toolFrom(schemaFor(type));
      if ("misfit" in given) {
        it(`refuses \`${operator}\` on ${type} when the rule is compiled.`, () => {
          const result = compileRules([ruleFrom(ruleFor(operator, given.misfit, "block"))], lookup(tool));
          expect(result.kind === "invalid" && result.violations.map((violation) => violation.reason)).to.deep.equal([
            "OPERATOR_NOT_FITTING",
          ]);
        });
        continue;
      }
      it(`compares ${type} by \`${operator}\`, alike for block, escalate and allow.`, () => {
        for (const decision of ["block", "escalate", "allow"]) {
          const rule = ruleFor(operator, given.value, decision);
          const decide = (field: JsonValue) => evaluateRule(rule, tool, { field }).decision;
          for (const value of given.holds) expect(decide(value), JSON.stringify(value)).to.equal(decision);
          for (const value of given.fails) expect(decide(value), JSON.stringify(value)).to.equal(undefined);
        }
      });

      it(`takes a value that is not ${type} for wrong-typed under \`${operator}\`.`, () => {
        for (const [other, value] of Object.entries(VALUES)) {
          if (other === type) continue;
          const blocked = evaluateRule(ruleFor(operator, given.value, "block"), tool, { field: value });
          expect(blocked.reasons[0]?.code, other).to.equal("ARGUMENT_WRONG_TYPE");
          expect(evaluateRule(ruleFor(operator, given.value, "allow"), tool, { field: value }).decision).to.equal(
            undefined,
          );
        }
      });
    }
  }
});
