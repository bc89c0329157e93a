import { ANY_TYPE } from "../json-type.ts";
import type { Operator } from "./operator.ts";

/** `exists` and `not_exists`: absence is what they ask about, never a violation. */
export const PRESENCE_OPERATORS: readonly Operator[] = [
  {
    name: "exists",
    fits: ANY_TYPE,
    shape: "none",
    typed: () => () => true,
    untyped: () => () => true,
    passes: (field) => `${field} absent`,
    whenMissing: false,
  },
  {
    name: "not_exists",
    fits: ANY_TYPE,
    shape: "none",
    typed: () => () => false,
    untyped: () => () => false,
    passes: (field) => `${field} present`,
    whenMissing: true,
    untypedMatchesMissing: true,
  },
];
