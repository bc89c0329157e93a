import type { JsonValue } from "@bufbuild/protobuf";
import type { TypeMask } from "../json-type.ts";

/** What an operator compares with, checked against its `ValueShape`; undefined for operators that take none. */
export type Operand = string | number | boolean | readonly (string | number | boolean)[] | undefined;

/**
 * What a rule's value MUST be: `scalar` string, number or boolean; `number`; `range` two ordered numbers; `scalars` a
 * list of scalars; `text` a string; `expression` an RE2 string; `count` a whole number from 0; `none` no value.
 */
export type ValueShape = "scalar" | "number" | "range" | "scalars" | "text" | "expression" | "count" | "none";

/** Whether a value makes the comparison true. MUST NOT throw on any value. */
export type Test = (value: JsonValue) => boolean;

/** One operator of conditions. */
export interface Operator {
  readonly name: string;
  /** The types of values it compares; any other type is wrong for it. */
  readonly fits: TypeMask;
  readonly shape: ValueShape;
  /** Builds the test on values of fitting types. */
  readonly typed: (operand: Operand) => Test;
  /** Builds the test on any value, by text where the types differ. */
  readonly untyped: (operand: Operand) => Test;
  /** What must be true instead for the comparison to be false: `amount <= 500`. */
  readonly passes: (field: string, operand: string) => string;
  /** What the comparison is on a missing argument, for operators that ask about absence itself. */
  readonly whenMissing?: boolean;
  /** True if a rule without a schema matches a missing value. Default false. */
  readonly untypedMatchesMissing?: boolean;
  /** True if it compares the elements of an array, which MUST have the types that the schema gives them. */
  readonly readsElements?: boolean;
}

/** A test that gives the opposite. */
export function negated(build: (operand: Operand) => Test): (operand: Operand) => Test {
  return (operand) => {
    const test = build(operand);
    return (value) => !test(value);
  };
}

/** The operand as a list; a single one as a list of itself. */
export function operandList(operand: Operand): readonly (string | number | boolean)[] {
  if (operand === undefined) return [];
  return Array.isArray(operand) ? operand : [operand as string | number | boolean];
}
