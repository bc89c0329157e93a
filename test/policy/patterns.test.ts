import { expect } from "chai";
import { type LongCheck, MAX_PATTERN_STEPS, searchedLength } from "../../src/policy/checks.ts";
import { LongChecker } from "../../src/policy/long/checker.ts";
import { checkPattern, PatternSet } from "../../src/policy/patterns.ts";
import { createPolicySet } from "../../src/policy/policy-set.ts";
import {
  contextFrom,
  evaluateRule,
  evaluateWithLongChecks,
  lookup,
  mandateFrom,
  type RuleJson,
  ruleFrom,
  rulesCompiled,
  toolFrom,
} from "./harness.ts";

const tool = toolFrom({ type: "object", properties: { text: { type: "string" } } });

function ruleWith(pattern: string, decision = "block"): RuleJson {
  const rules = [{ field: "text", operator: "matches", value: pattern }];
  return { tool: "pay", decision, conditions: { rules } };
}

const contentRule = (patterns: string[]): RuleJson => ({
  type: "content",
  decision: "block",
  conditions: { patterns },
});

function violationsOf(...rules: readonly RuleJson[]): readonly string[] {
  const result = rulesCompiled(rules.map(ruleFrom), lookup(tool));
  return result.kind === "compiled" ? [] : result.violations.map(({ path, reason }) => `${path} ${reason}`);
}

describe("patterns", () => {
  for (const pattern of ["(?<=a)b", "(?=a)b", "(?!a)b", "(a)\\1", "[", "a{1001}", "((a{100}){100}){10}"]) {
    it(`refuse \`${pattern}\`, which RE2 does not know.`, () => {
      expect(violationsOf(ruleWith(pattern))).to.deep.equal(["rules[0].conditions.rules[0].value PATTERN_INVALID"]);
    });
  }

  for (const pattern of ["a[ab]{1,999}c", "(?:[ab]{1,30}c){1,30}", "(\\pL{500}|b){3}", `${"a{900}".repeat(80)}`]) {
    it(`refuse \`${pattern.slice(0, 30)}\`, which is too large, and say so.`, () => {
      expect(violationsOf(ruleWith(pattern))).to.deep.equal(["rules[0].conditions.rules[0].value PATTERN_INVALID"]);
      const checked = checkPattern(pattern);
      expect(checked.kind === "invalid" && checked.message).to.match(/^compiles to about \d+ instructions/);
    });
  }

  it("may be so large together and no larger, in one mandate.", () => {
    const large = contentRule(Array.from({ length: 7 }, (_, index) => `x${index}a{900}`));
    expect(violationsOf(large)).to.deep.equal([]);
    expect(violationsOf(large, large)).to.include("rules[1].conditions.patterns[6] PATTERN_INVALID");
  });

  it("are found together as each alone, whatever their case.", () => {
    const patterns = ["secret\\s+key", "^begin", "end$", "\\bpay\\b", "[0-9]{4}", "ÄÖ", "(?-i)Case", "a|b{2}"];
    const texts = ["SECRET  key", "Begin here", "the END", "to PAY, not to repay", "1234", "äö", "Case case", "BB", ""];
    for (const text of texts) {
      const alone = patterns.flatMap((each, index) =>
        new PatternSet([each], 1).search(text).length > 0 ? [index] : [],
      );
      expect(new PatternSet(patterns, 1).search(text), text).to.deep.equal(alone);
    }
  });

  // A search that tries alternatives one after the other would not come to an end on texts this long.
  for (const pattern of ["(a+)+$", "(a|aa)+$", "(a|a?)+c$", "(.*a){20}$", "(x+x+)+y"]) {
    it(`decide on a text of half a million characters for \`${pattern}\`.`, async () => {
      const text = `${"a".repeat(500_000)}b`;
      expect((await evaluateWithLongChecks(ruleWith(pattern), tool, { text })).decision).to.equal(undefined);
      expect((await evaluateWithLongChecks(ruleWith("ab$"), tool, { text })).decision).to.equal("block");
    });
  }

  /** Texts under the pattern `^drop kp$`, whether a rule that blocks holds, and one that allows. */
  const FORMS: readonly (readonly [text: string, blocks: boolean, allows: boolean])[] = [
    ["Drop KP", true, true],
    ["Ｄｒｏｐ ＫＰ", true, false],
    ["d\u200brop kp", true, false],
    ["drop\u00a0kp", true, false],
    ["drop \u212ap", true, true],
    ["dro\u0301p kp", false, false],
    ["drop кp", false, false],
    ["drop kp now", false, false],
  ];
  for (const [text, blocks, allows] of FORMS) {
    it(`search ${JSON.stringify(text)} as given and plain: ${blocks ? "one" : "none"} matches, ${allows ? "" : "not "}both.`, async () => {
      const content = (decision: string) => ({ ...contentRule(["zzz", "^drop kp$"]), decision });
      const filler = `${"f".repeat(MAX_PATTERN_STEPS)}\n`;
      for (const decision of ["block", "escalate", "allow"]) {
        const want = (decision === "allow" ? allows : blocks) ? decision : undefined;
        expect(evaluateRule(ruleWith("^drop kp$", decision), tool, { text }).decision).to.equal(want);
        const set = createPolicySet([mandateFrom([content(decision)])]);
        expect(set.evaluate(contextFrom({ actionContent: text })).decision).to.equal(want);
        const long = { text: filler + text };
        expect((await evaluateWithLongChecks(ruleWith("\\ndrop kp$", decision), tool, long)).decision).to.equal(want);
      }
    });
  }

  it("leave letter case alone in the plain form, so that a pattern that heeds case still does.", () => {
    const decide = (pattern: string, text: string) => evaluateRule(ruleWith(pattern), tool, { text }).decision;
    expect(decide("(?-i)^KP$", "ＫＰ")).to.equal("block");
    expect(decide("(?-i)^kp$", "ＫＰ")).to.equal(undefined);
  });

  it("count both forms of a text, so that one that grows takes no longer.", () => {
    const text = "\ufdfa".repeat(MAX_PATTERN_STEPS / 30);
    const { decision, reasons } = evaluateRule(ruleWith("x"), tool, { text });
    expect([decision, reasons[0]?.code]).to.deep.equal(["block", "CHECK_TOO_LONG"]);
    for (const [said, length] of [
      ["plain", 5],
      ["é", 1],
      ["½", 4],
      ["a\\u0001", 21],
      ["é".repeat(5_000), 15_000],
    ] as const) {
      expect(searchedLength(said), said.slice(0, 9)).to.equal(length);
    }
  });

  it("hold unsearched where they would take too long at the action's turn, unless they allow.", () => {
    const text = "a".repeat(MAX_PATTERN_STEPS);
    const { decision, reasons, missingChecks } = evaluateRule(ruleWith("x"), tool, { text });
    expect([decision, reasons[0]?.code]).to.deep.equal(["block", "CHECK_TOO_LONG"]);
    expect(missingChecks).to.deep.equal([{ kind: "patterns", patterns: ["x"], text }]);
    expect(evaluateRule(ruleWith("a", "allow"), tool, { text }).decision).to.equal(undefined);
    expect(evaluateRule(contentRule(["x"]), tool, { text: "short" }).decision).to.equal(undefined);
  });
});

function textWithoutPeriod(length: number): string {
  let state = 3;
  return Array.from({ length }, () => {
    state = (state * 1_103_515_245 + 12_345) % 2_147_483_648;
    return state > 1_073_741_824 ? "a" : "b";
  }).join("");
}

describe("long checks", () => {
  /** Short enough for texts that never end, and long enough for a small check on a busy machine. */
  const LIMITS = { checkMs: 1_000, prepareMs: 30_000 };
  let checker: LongChecker;
  before(() => {
    checker = new LongChecker(LIMITS);
  });
  after(() => checker.close());

  const { signal } = new AbortController();
  /** A text without a period, which makes an automaton grow without end. */
  const slow: LongCheck = { kind: "patterns", patterns: ["(a|b)*a(a|b){60}c"], text: textWithoutPeriod(3_000_000) };
  const quick: LongCheck = { kind: "patterns", patterns: ["b", "x"], text: "abc" };
  const found = async (check: LongCheck, workspaceId = "w", aborts = signal) => {
    const { patterns } = await checker.run({ workspaceId }, [check], aborts);
    return check.kind === "patterns" ? Object.fromEntries(patterns.get(check.text) ?? []) : {};
  };

  it("answer for each pattern of a text.", async () => {
    expect(await found(quick)).to.deep.equal({ b: 2, x: 0 });
  });

  it("end without an answer after their time, and the next is answered again.", async () => {
    expect(await found(slow)).to.deep.equal({});
    const unset = new LongChecker();
    const { patterns } = await unset.run({ workspaceId: "w" }, [slow], signal);
    expect(patterns.size, "with the limits of a service").to.equal(0);
    await unset.close();
    expect(await found(quick)).to.deep.equal({ b: 2, x: 0 });
  });

  it("of one workspace or agent get no answer beyond its share, and wait for no more than one of each other.", async () => {
    const order: string[] = [];
    const ask = (count: number, workspaceId: string, agentId?: string) =>
      Array.from({ length: count }, () =>
        checker.run({ workspaceId, agentId }, [slow], signal).then(() => void order.push(workspaceId)),
      );
    // One agent alone has a fifth of 84 places, its workspace half, and the next one half of the rest.
    const asked = [...ask(20, "noisy", "agt_1"), ...ask(30, "noisy"), ...ask(30, "busy")];
    expect(await found(quick, "calm")).to.deep.equal({ b: 2, x: 0 });
    const count = (name: string): number => order.filter((each) => each === name).length;
    // At once those beyond the shares, then one that ran already, and one of each workspace.
    expect(count("noisy")).to.be.within(4 + 4, 4 + 4 + 2);
    expect(count("busy")).to.be.within(30 - 21, 30 - 21 + 2);
    await checker.close();
    await Promise.all(asked);
    checker = new LongChecker(LIMITS);
  });

  it("that cannot be made get no answer, and the next is answered.", async () => {
    const tool = toolFrom({ type: "object", properties: { amount: { type: "number" } } });
    const unwritable: LongCheck = { kind: "schema", tool, args: { amount: 1n as never } };
    const { schemas } = await checker.run({ workspaceId: "w" }, [unwritable], signal);
    expect(schemas.size).to.equal(0);
    expect(await found(quick)).to.deep.equal({ b: 2, x: 0 });
  });

  it("are not made for a caller that has left.", async () => {
    expect(await found(quick, "w", AbortSignal.abort())).to.deep.equal({});
  });

  it("hold when a schema takes millions of steps, and find what an ordinary check finds.", async () => {
    const anyOf = Array.from({ length: 1_500 }, (_, index) => ({ type: "string", const: `word ${index}` }));
    const large = toolFrom({ type: "object", properties: { items: { type: "array", items: { anyOf } } } });
    const rule = { type: "schema", tool: "pay", decision: "block", conditions: {} };
    const few = await evaluateWithLongChecks(rule, large, { items: ["word 7", "word 1499"] });
    expect(few.decision).to.equal(undefined);
    const wrong = await evaluateWithLongChecks(rule, large, { items: ["word 7", "word 1500"] });
    expect([wrong.decision, wrong.reasons[0]?.code]).to.deep.equal(["block", "ARGUMENTS_INVALID"]);
    const tooLarge = toolFrom({ type: "object", properties: { a: { anyOf: [...anyOf, ...structuredClone(anyOf)] } } });
    const refused = rulesCompiled([ruleFrom(rule)], lookup(tooLarge));
    expect(refused.kind === "invalid" && refused.violations[0]?.message).to.contain("it has 3002 subschemas");
    const items = Array.from({ length: 20_000 }, () => "word 1499");
    const many = await evaluateWithLongChecks(rule, large, { items }, 250);
    expect([many.decision, many.reasons[0]?.code]).to.deep.equal(["block", "CHECK_TOO_LONG"]);
  });
});
