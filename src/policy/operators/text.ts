import { comparableText, textFrom } from "../comparable.ts";
import { STRING } from "../json-type.ts";
import { compileRe2 } from "../re2-pattern.ts";
import type { Operand, Operator, Test } from "./operator.ts";

type BuildTest = (operand: string) => (text: string) => boolean;

function textual(name: string, build: BuildTest, passes: string, shape: Operator["shape"] = "text"): Operator {
  const typed = (operand: Operand): Test => {
    const test = build(String(operand));
    return (value) => typeof value === "string" && test(value);
  };
  const untyped = (operand: Operand): Test => {
    const test = build(String(operand));
    return (value) => test(textFrom(value));
  };
  return { name, fits: STRING, shape, typed, untyped, passes: (field, operand) => `${field} ${passes} ${operand}` };
}

const startsWith: BuildTest = (operand) => {
  const wanted = comparableText(operand);
  return (text) => comparableText(text).startsWith(wanted);
};

const endsWith: BuildTest = (operand) => {
  const wanted = comparableText(operand);
  return (text) => comparableText(text).endsWith(wanted);
};

const matches: BuildTest = (operand) => {
  const expression = compileRe2(operand);
  if (expression.kind === "invalid") return () => false;
  // Surrounding blanks are ignored as in every comparison of strings, so that `^rm` is not evaded by a leading blank.
  return (text) => expression.found(text.trim());
};

/** `matches`, `starts_with` and `ends_with`. */
export const TEXT_OPERATORS: readonly Operator[] = [
  textual("matches", matches, "not matching", "expression"),
  textual("starts_with", startsWith, "not starting with"),
  textual("ends_with", endsWith, "not ending with"),
];
