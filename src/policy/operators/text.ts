import { comparableText, STRING, textFrom } from "../json-value.ts";
import { compileRe2 } from "../re2-pattern.ts";
import type { Literal, LiteralShape, Operator, Test } from "./operator.ts";

type BuildTest = (literal: string) => (text: string) => boolean;

function textual(name: string, build: BuildTest, passes: string, shape: LiteralShape = "text"): Operator {
  const typed = (literal: Literal): Test => {
    const test = build(String(literal));
    return (value) => typeof value === "string" && test(value);
  };
  const untyped = (literal: Literal): Test => {
    const test = build(String(literal));
    return (value) => test(textFrom(value));
  };
  return { name, fits: STRING, shape, typed, untyped, passes: (field, literal) => `${field} ${passes} ${literal}` };
}

const startsWith: BuildTest = (literal) => {
  const wanted = comparableText(literal);
  return (text) => comparableText(text).startsWith(wanted);
};

const endsWith: BuildTest = (literal) => {
  const wanted = comparableText(literal);
  return (text) => comparableText(text).endsWith(wanted);
};

const matches: BuildTest = (literal) => {
  const expression = compileRe2(literal);
  if (expression.kind === "invalid") return () => false;
  // Surrounding blanks are ignored as in every comparison of strings, so that `^rm` is not evaded by a leading blank.
  return (text) => expression.found(text.trim());
};

/** Operators on the text of a string. */
export const TEXT_OPERATORS: readonly Operator[] = [
  textual("matches", matches, "not matching", "expression"),
  textual("starts_with", startsWith, "not starting with"),
  textual("ends_with", endsWith, "not ending with"),
];
