import { fold, trimmedText } from "../../text/fold.ts";
import type { Checks } from "../checks.ts";
import { STRING } from "../json-value.ts";
import { checkPattern, PatternSet } from "../patterns.ts";
import type { Literal, LiteralShape, Operator, Test } from "./operator.ts";

type BuildTest = (literal: string, isAllow: boolean) => (text: string, checks: Checks) => ReturnType<Test>;

function textual(name: string, build: BuildTest, shape: LiteralShape = "text"): Operator {
  const typed = (literal: Literal, isAllow: boolean): Test => {
    const test = build(String(literal), isAllow);
    return (value, checks) => typeof value === "string" && test(value, checks);
  };
  const untyped = (literal: Literal, isAllow: boolean): Test => {
    const test = build(String(literal), isAllow);
    return (value, checks) => test(checks.comparisons.textFrom(value), checks);
  };
  return { name, fits: STRING, shape, typed, untyped };
}

const startsWith: BuildTest = (literal) => {
  const wanted = fold(literal);
  return (text, { comparisons }) => comparisons.comparableTextFrom(text).startsWith(wanted);
};

const endsWith: BuildTest = (literal) => {
  const wanted = fold(literal);
  return (text, { comparisons }) => comparisons.comparableTextFrom(text).endsWith(wanted);
};

const matches: BuildTest = (literal, isAllow) => {
  const checked = checkPattern(literal);
  if (checked.kind === "invalid") return () => false;
  const set = new PatternSet([literal], checked.size);
  // Surrounding blanks are ignored as in every comparison of strings, so that `^rm` is not evaded by a leading blank.
  return (text, checks) => {
    const found = checks.search(set, trimmedText(text), isAllow);
    return typeof found === "string" ? found : found.length > 0;
  };
};

/** Operators on the text of a string. */
export const TEXT_OPERATORS: readonly Operator[] = [
  textual("matches", matches, "expression"),
  textual("starts_with", startsWith),
  textual("ends_with", endsWith),
];
