import { expect } from "chai";
import { parseWhen } from "../../../src/policy/when/parse.ts";

/** Expressions that do not parse: the place, what does not fit there, and what to write. */
const SLIPS: readonly (readonly [expression: string, at: number, found: string, suggestion: string])[] = [
  ["a = b", 2, "=", "=="],
  ["a === b", 2, "===", "=="],
  ["a !== b", 2, "!==", "!="],
  ["a <> b", 2, "<>", "!="],
  ["a => b", 2, "=>", ">="],
  ["a =< b", 2, "=<", "<="],
  ["a & b", 2, "&", "&&"],
  ["a | b", 2, "|", "||"],
  ["a ≥ 5", 2, "≥", ">="],
  ["“a” == b", 0, "“", '"'],
  ["a == `b`", 5, "`", '"'],
  ["a and b", 2, "and", "&&"],
  ["a AND b", 2, "AND", "&&"],
  ["a > 5 or (b)", 6, "or", "||"],
  ["not a", 0, "not", "!"],
  ["a && not (b) and c", 5, "not", "!"],
  ["a not in b", 2, "not", "!"],
  ["args.a is null", 7, "is", "=="],
  ['args.a contains "x"', 7, "contains", ".contains(…)"],
  ["args.lines.all(l, l.price > 5 and l.pieces < 3)", 30, "and", "&&"],
  ['args.and == "a and b" and c', 22, "and", "&&"],
  ["a // and b\n or c", 12, "or", "||"],
];

const OTHERS: readonly (readonly [expression: string, at: number, message: string])[] = [
  ["f(a", 1, "the bracket `(` is not closed"],
  ["(a && [b", 0, "the bracket `(` is not closed"],
  ['a.contains("(" && b', 10, "the bracket `(` is not closed"],
  ["a ==", 4, "the expression ends too early, after `==`"],
  ["a && ", 4, "the expression ends too early, after `&&`"],
  ["a || b.", 7, "the expression ends too early, after `.`"],
  ["args.amount >", 13, "the expression ends too early, after `>`"],
  ["a in ", 4, "the expression ends too early, after `in`"],
  ["!", 1, "the expression ends too early, after `!`"],
  ["a b", 2, "`b` does not fit here"],
  ["a)", 1, "`)` does not fit here"],
  ["a; b", 1, "`;` does not fit here"],
];

const problemOf = (expression: string) => {
  const parsed = parseWhen(expression);
  return parsed.kind === "invalid" ? parsed.problem : undefined;
};

describe("expressions with the spellings of other languages", () => {
  for (const [expression, at, found, suggestion] of SLIPS) {
    it(`are told what to write: ${JSON.stringify(expression)}.`, () => {
      expect(problemOf(expression)).to.deep.equal({
        at,
        reason: "WHEN_SYNTAX",
        message: `\`${found}\` does not fit here`,
        suggestion,
      });
    });
  }

  for (const [expression, at, message] of OTHERS) {
    it(`are told what is missing: ${JSON.stringify(expression)}.`, () => {
      expect(problemOf(expression)).to.deep.equal({ at, reason: "WHEN_SYNTAX", message, suggestion: undefined });
    });
  }

  it("may have these words as names and texts.", () => {
    for (const expression of [
      "and && or",
      "args.not",
      "not(a)",
      "x.is == 'a = b'",
      'a["and"] == "not b"',
      "contains",
    ]) {
      expect(problemOf(expression), expression).to.equal(undefined);
    }
  });
});
