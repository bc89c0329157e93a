import type { JsonValue } from "@bufbuild/protobuf";
import { codePointLength, textFrom } from "../comparable.ts";
import { ARRAY, STRING } from "../json-type.ts";
import type { Operand, Operator, Test } from "./operator.ts";

function lengthOf(value: JsonValue): number {
  return Array.isArray(value) ? value.length : codePointLength(textFrom(value));
}

function length(name: string, opposite: string, accepts: (length: number, limit: number) => boolean): Operator {
  const build = (operand: Operand): Test => {
    const limit = Number(operand);
    return (value) => accepts(lengthOf(value), limit);
  };
  return {
    name,
    fits: STRING | ARRAY,
    shape: "count",
    typed: build,
    untyped: build,
    passes: (field, operand) => `length of ${field} ${opposite} ${operand}`,
  };
}

/** `length_gt` and `length_lt`: code points of a string as given, elements of an array. */
export const LENGTH_OPERATORS: readonly Operator[] = [
  length("length_gt", "<=", (own, limit) => own > limit),
  length("length_lt", ">=", (own, limit) => own < limit),
];
