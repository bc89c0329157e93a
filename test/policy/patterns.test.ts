import { expect } from "chai";
import { compileRules } from "../../src/policy/compile/rules.ts";
import { evaluateRule, lookup, ruleFrom, toolFrom } from "./harness.ts";

const tool = toolFrom({ type: "object", properties: { text: { type: "string" } } });

function ruleWith(pattern: string) {
  const rules = [{ field: "text", operator: "matches", value: pattern }];
  return { tool: "pay", decision: "block", conditions: { rules } };
}

describe("patterns", () => {
  for (const pattern of ["(?<=a)b", "(?=a)b", "(?!a)b", "(a)\\1", "[", "a{1001}", "((a{100}){100}){10}"]) {
    it(`refuse \`${pattern}\`, which RE2 does not know.`, () => {
      const result = compileRules([ruleFrom(ruleWith(pattern))], lookup(tool));
      expect(result.kind === "invalid" && result.violations[0]?.reason).to.equal("PATTERN_INVALID");
    });
  }

  // A search that tries alternatives one after the other would not come to an end on texts this long.
  for (const pattern of ["(a+)+$", "(a|aa)+$", "(a|a?)+c$", "(.*a){20}$", "(x+x+)+y"]) {
    it(`decide on a text of half a million characters for \`${pattern}\`.`, () => {
      const text = `${"a".repeat(500_000)}b`;
      expect(evaluateRule(ruleWith(pattern), tool, { text }).decision).to.equal(undefined);
    });
  }
});
