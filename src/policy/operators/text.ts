import { RE2JS } from "@bufbuild/re2";
import { comparableText, STRING, textFrom } from "../json-value.ts";
import type { Literal, LiteralShape, Operator, Test } from "./operator.ts";

type BuildTest = (literal: string) => (text: string) => boolean;

function textual(name: string, build: BuildTest, shape: LiteralShape = "text"): Operator {
  const typed = (literal: Literal): Test => {
    const test = build(String(literal));
    return (value) => typeof value === "string" && test(value);
  };
  const untyped = (literal: Literal): Test => {
    const test = build(String(literal));
    return (value) => test(textFrom(value));
  };
  return { name, fits: STRING, shape, typed, untyped };
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
  textual("matches", matches, "expression"),
  textual("starts_with", startsWith),
  textual("ends_with", endsWith),
];

/** A compiled RE2 expression, or the reason why the text is invalid. */
export type Re2Result =
  | { readonly kind: "compiled"; readonly found: (text: string) => boolean }
  | { readonly kind: "invalid"; readonly message: string };

/** Compiles an RE2 expression that is searched for ignoring case, in time linear in the text. */
export function compileRe2(pattern: string): Re2Result {
  try {
    const expression = new RE2JS(`(?i)${pattern}`);
    return { kind: "compiled", found: (text) => expression.test(text) };
  } catch (error) {
    const cause = error instanceof Error ? error.message : String(error);
    return { kind: "invalid", message: cause.replace(/\s+/g, " ").trim() };
  }
}

/** Says that a pattern does not compile, and why. */
export function patternMessage(pattern: string, cause: string): string {
  return `\`${pattern}\` is not an RE2 expression: ${cause}`;
}
