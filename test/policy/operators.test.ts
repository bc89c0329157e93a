import type { JsonValue } from "@bufbuild/protobuf";
import { expect } from "chai";
import { OPERATOR_NAMES } from "../../src/policy/operators/index.ts";
import { evaluateRule, lookup, type RuleJson, ruleFrom, rulesCompiled, testdata, toolFrom } from "./harness.ts";

type Case =
  | {
      readonly value?: JsonValue;
      readonly holds: readonly JsonValue[];
      readonly fails: readonly JsonValue[];
      /** Values for which a rule that blocks or escalates holds, and one that allows does not. */
      readonly restricts?: readonly JsonValue[];
    }
  | { readonly misfit: JsonValue };

const TYPES = ["string", "number", "integer", "boolean", "array", "object"];
const VALUES: Readonly<Record<string, JsonValue>> = {
  string: "7",
  number: 7.5,
  boolean: true,
  array: ["7"],
  object: {},
};
const SHAPES: Readonly<Record<string, JsonValue>> = { array: ["Usd"], object: { c: "Usd" } };
const schemaless = toolFrom({ type: "object" });
const cases = testdata<Record<string, Record<string, Case>>>("operators");

function schemaFor(type: string) {
  const field = type === "array" ? { type, items: { type: "string" } } : { type };
  return { type: "object", properties: { field } };
}

function ruleFor(operator: string, value: JsonValue | undefined, decision: string, type = "argument"): RuleJson {
  const condition = { field: "field", operator, ...(value !== undefined && { value }) };
  return { type, tool: "pay", decision, conditions: { rules: [condition] } };
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
          const result = rulesCompiled([ruleFrom(ruleFor(operator, given.misfit, "block"))], lookup(tool));
          expect(result.kind === "invalid" && result.violations.map((violation) => violation.reason)).to.deep.equal([
            "OPERATOR_NOT_FITTING",
          ]);
        });
        continue;
      }
      for (const ruleType of ["argument", "metadata"]) {
        it(`compares ${type} by \`${operator}\` in ${ruleType} rules, for block, escalate and allow.`, () => {
          for (const decision of ["block", "escalate", "allow"]) {
            const rule = ruleFor(operator, given.value, decision, ruleType);
            const decide = (field: JsonValue) => evaluateRule(rule, tool, { field }).decision;
            const restricted = decision === "allow" ? undefined : decision;
            for (const value of given.holds) expect(decide(value), JSON.stringify(value)).to.equal(decision);
            for (const value of given.fails) expect(decide(value), JSON.stringify(value)).to.equal(undefined);
            for (const value of given.restricts ?? [])
              expect(decide(value), JSON.stringify(value)).to.equal(restricted);
          }
        });
      }

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

    const [first] = Object.values(byType).map((each) => ("misfit" in each ? each.misfit : each.value));
    for (const [shape, value] of Object.entries(SHAPES)) {
      if (!("misfit" in (byType[shape] as Case))) continue;
      it(`takes ${shape} for wrong-typed under \`${operator}\` also without a schema.`, () => {
        const decide = (decision: string) =>
          evaluateRule(ruleFor(operator, first, decision, "metadata"), schemaless, { field: value });
        for (const decision of ["block", "escalate"]) {
          const { decision: got, reasons } = decide(decision);
          expect([got, reasons[0]?.code]).to.deep.equal([decision, "ARGUMENT_WRONG_TYPE"]);
          expect(reasons[0]?.message).to.match(
            /^`field` is (a list|an object), not a single value( or a list of them)?$/,
          );
        }
        expect(decide("allow").decision).to.equal(undefined);
      });
    }
  }
});
