import type { JsonValue } from "@bufbuild/protobuf";
import { type Checks, TOO_LONG } from "../checks.ts";
import { ARRAY, STRING } from "../json-value.ts";
import type { Literal, Operator, Test } from "./operator.ts";

type Result = ReturnType<Test>;

/** Looks one text up in a list. A list that does not exist is a fault, as is a text that the list's kind cannot read. */
function lookUp(name: string, wanted: boolean, value: JsonValue, { comparisons, lists }: Checks): Result {
  const list = lists.use(name);
  if (list === undefined) return "ARGUMENT_WRONG_TYPE";
  const text = comparisons.textFrom(value);
  if (!comparisons.looksUp(text, list.kind)) return TOO_LONG;
  const found = lists.lookUp(list, text, comparisons.comparableTextFrom(text));
  return found === "unreadable" ? "ARGUMENT_WRONG_TYPE" : (found === "listed") === wanted;
}

/**
 * Builds the test of a text, or of each element of an array: one that holds is enough, unless the rule allows; then all must. A
 * fault of any element comes before. No element holds for none.
 */
function membership(wanted: boolean): (literal: Literal, isAllow: boolean) => Test {
  return (literal, isAllow) => {
    const name = String(literal);
    return (value, checks) => {
      if (!Array.isArray(value)) return lookUp(name, wanted, value, checks);
      const results: Result[] = [];
      for (const each of value) {
        const result = lookUp(name, wanted, each, checks);
        if (typeof result === "string") return result;
        results.push(result);
      }
      return results.length > 0 && (isAllow ? !results.includes(false) : results.includes(true));
    };
  };
}

function inList(name: string, wanted: boolean): Operator {
  const test = membership(wanted);
  return { name, fits: STRING | ARRAY, shape: "list", typed: test, untyped: test, readsElements: true };
}

/** Operators on the named lists of the workspace. */
export const LIST_OPERATORS: readonly Operator[] = [inList("in_list", true), inList("not_in_list", false)];
