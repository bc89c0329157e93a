import type { JsonValue } from "@bufbuild/protobuf";
import type { Checks, TOO_LONG } from "../checks.ts";
import type { TypeMask } from "../json-value.ts";

/** A single value that a rule compares with. */
export type Scalar = string | number | boolean;

/** The value that a rule compares with, checked against its `LiteralShape`; undefined for operators without one. */
export type Literal = Scalar | readonly Scalar[] | undefined;

/**
 * Form that a rule's value MUST have: `scalar` string, number or boolean; `number`; `range` two ordered numbers; `scalars`
 * a list of scalars; `text` a string; `expression` an RE2 string; `count` a whole number from 0; `list` the name of a list; `none` no value.
 */
export type LiteralShape =
  | "scalar"
  | "number"
  | "range"
  | "scalars"
  | "text"
  | "expression"
  | "count"
  | "list"
  | "none";

/**
 * Tests whether a value makes the comparison true. A text that cannot be read as what the operator compares is of the wrong type. MUST
 * NOT throw on any value.
 */
export type Test = (value: JsonValue, checks: Checks) => boolean | typeof TOO_LONG | "ARGUMENT_WRONG_TYPE";

/** Known bounds of an argument that may be changed. */
export interface Alternatives {
  readonly isInteger: boolean;
  /** Values that the schema allows; empty for any. */
  readonly enum: readonly JsonValue[];
}

/** The opposite of a comparison: `<=` with 500 as the value to try. */
export interface Opposite {
  readonly relation: string;
  /** Values for which the comparison is false: all that the relation stands for, or its ends. */
  readonly values: readonly JsonValue[];
}

/** One operator of conditions. */
export interface Operator {
  readonly name: string;
  /** The types of values it compares. Any other type is a violation; without a schema, a list or object is. */
  readonly fits: TypeMask;
  readonly shape: LiteralShape;
  /**
   * Builds the test on values of fitting types. Where text can be read in two ways, a rule that allows needs both to hold, and any
   * other rule one.
   */
  readonly typed: (literal: Literal, isAllow: boolean) => Test;
  /** Builds the test on any single value, by text if the types differ, and on a list that fits. */
  readonly untyped: (literal: Literal, isAllow: boolean) => Test;
  /** Changes after which a typed comparison is false, for operators that can tell. */
  readonly opposite?: (literal: Literal, values: Alternatives) => Opposite | undefined;
  /** Result on a missing argument, for operators that ask about absence itself. */
  readonly whenMissing?: boolean;
  /** True if a rule without a schema matches a missing value. Default false. */
  readonly untypedMatchesMissing?: boolean;
  /** True if it compares the elements of an array, which MUST be single values, of the types that a schema gives them. */
  readonly readsElements?: boolean;
}

/** Builds the opposite test. */
export function negated<Rest extends unknown[]>(
  build: (literal: Literal, ...rest: Rest) => Test,
): (literal: Literal, ...rest: Rest) => Test {
  return (literal, ...rest) => {
    const test = build(literal, ...rest);
    return (value, checks) => {
      const result = test(value, checks);
      return typeof result === "boolean" ? !result : result;
    };
  };
}

/** Returns the literal as a list; a single one as a list of itself. */
export function literalList(literal: Literal): readonly Scalar[] {
  if (literal === undefined) return [];
  return typeof literal === "object" ? literal : [literal];
}
