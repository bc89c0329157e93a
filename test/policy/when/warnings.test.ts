import { expect } from "chai";
import { whenWarnings } from "../../../src/policy/compile/when-warnings.ts";
import { type RuleJson, ruleFrom, velocity } from "../harness.ts";

const warningsOf = (rule: RuleJson, ignores: readonly string[] = []) => whenWarnings([ruleFrom(rule)], ignores);
const action = (when: string, decision = "block"): RuleJson => ({ type: "action", decision, when });

describe("warnings about `when`", () => {
  for (const [when, folded] of [
    ['args.country == "KP"', 'fold(args.country) == "kp"'],
    ['"KP" != metadata.country', '"kp" != fold(metadata.country)'],
    ['args.n > 5 && !(args.country in ["KP", "IR"])', 'args.n > 5 && !(fold(args.country) in ["kp", "ir"])'],
    ['args.to.exists(a, a.endsWith("@Evil.example"))', 'args.to.exists(a, fold(a).endsWith("@evil.example"))'],
    ['args.lines.all(l, l.kind == "A" || l.kind == "")', 'args.lines.all(l, fold(l.kind) == "a" || l.kind == "")'],
    ['action.content.contains("drop") ? true : false', 'fold(action.content).contains("drop") ? true : false'],
  ] as const) {
    it(`write ${when} as other rules compare texts.`, () => {
      const [warning, ...more] = warningsOf(action(when));
      expect(warning).to.include({ path: "rules[0].when", reason: "WHEN_EXACT_TEXT" });
      expect(warning?.message).to.contain(`write \`${folded}\``);
      expect(more).to.deep.equal([]);
      expect(
        warningsOf(
          action(folded.replaceAll("l.kind", "fold(l.kind)").replaceAll("fold(fold(l.kind))", "fold(l.kind)")),
        ),
      ).to.deep.equal([]);
      expect(warningsOf(action(when, "allow"))).to.deep.equal([]);
    });
  }

  it("leave out texts that the service writes, and other values.", () => {
    for (const when of [
      'action.type == "a.b"',
      'agent.framework == "x"',
      "args.n == 5",
      'args.a == ""',
      "args.a == args.b",
    ]) {
      expect(warningsOf(action(when)), when).to.deep.equal([]);
    }
  });

  it("say that the `when` of a sequence leaves no past action out.", () => {
    const found = warningsOf({ ...velocity(1), when: "args.n > 5" });
    expect(found.map(({ path, reason }) => [path, reason])).to.deep.equal([["rules[0].when", "WHEN_DOES_NOT_FILTER"]]);
  });

  it("name a member that approvals do not cover.", () => {
    const found = warningsOf(action("metadata.note == args.trace && metadata.other == 1"), ["note", "trace"]);
    expect(found.map(({ reason }) => reason)).to.deep.equal(["FIELD_NOT_APPROVED", "FIELD_NOT_APPROVED"]);
  });
});
