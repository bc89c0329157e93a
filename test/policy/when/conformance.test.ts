import { tests } from "@bufbuild/cel-spec/testdata/conformance.js";
import type { SerializedIncrementalTest, SerializedIncrementalTestSuite } from "@bufbuild/cel-spec/testdata/tests.js";
import type { JsonObject, JsonValue } from "@bufbuild/protobuf";
import { expect } from "chai";
import { checkPattern } from "../../../src/policy/patterns.ts";
import { checkWhen } from "../../../src/policy/when/check.ts";
import { closureOf, evaluateStep } from "../../../src/policy/when/closures.ts";
import { parseWhen } from "../../../src/policy/when/parse.ts";
import { Run } from "../../../src/policy/when/run.ts";
import { textOfDuration, textOfTime } from "../../../src/policy/when/time.ts";
import {
  Duration,
  Fault,
  isList,
  isMap,
  keysOf,
  memberOf,
  Timestamp,
  TypeName,
  type Value,
} from "../../../src/policy/when/values.ts";
import { contextFrom } from "../harness.ts";

/** Files of the suite whose expressions need nothing but the language. */
const FILES = [
  "basic",
  "comparisons",
  "conversions",
  "fp_math",
  "integer_math",
  "lists",
  "logic",
  "macros",
  "parse",
  "string",
  "string_ext",
  "timestamps",
];

/** Parts of the language that rules do not have: an expression with one of them is left out. */
const OUTSIDE =
  /\bu?int64|\d+u\b|0x[0-9a-f]+u|\bb['"]|rb['"]|\buint\b|\bbytes\b|TestAllTypes|google\.protobuf\.(?!Timestamp|Duration)|format\(|quote\(|reverse\(|strings\.|'\.\?|proto\./i;

/** Cases whose result is not finite, which is an error in a rule. */
const NOT_FINITE = new Set([
  "comparisons/eq_literal/not_eq_double_nan",
  "comparisons/eq_literal/not_eq_int_double_nan",
  "comparisons/ne_literal/not_ne_double_nan",
  "comparisons/ne_literal/not_ne_int_double_nan",
  "comparisons/ne_literal/ne_double_nan",
  "fp_math/fp_math/divide_zero",
  "fp_math/fp_math/fp_overflow_positive",
  "fp_math/fp_math/fp_overflow_negative",
]);
/** Cases of all files that are in the subset, at least. */
const LEAST_CASES = 670;

const tools = { checkPattern: (pattern: string) => checkPattern(pattern, { ignoreCase: false }) };

function* casesOf(
  suite: SerializedIncrementalTestSuite,
  path: string,
): Generator<readonly [string, SerializedIncrementalTest]> {
  for (const test of suite.tests ?? []) yield [`${path}/${test.original.name}`, test];
  for (const inner of suite.suites ?? []) yield* casesOf(inner, `${path}/${inner.name}`);
}

/** Writes a value as the suite does. */
function written(value: Value): JsonValue {
  if (value === null) return { nullValue: null };
  if (typeof value === "boolean") return { boolValue: value };
  if (typeof value === "bigint") return { int64Value: String(value) };
  if (typeof value === "number") return { doubleValue: value };
  if (typeof value === "string") return { stringValue: value };
  if (isList(value)) return { listValue: { values: value.map(written) } };
  if (value instanceof TypeName) return { typeValue: value.name };
  if (value instanceof Timestamp) return { objectValue: textOfTime(value) };
  if (value instanceof Duration) return { objectValue: textOfDuration(value) };
  if (isMap(value)) {
    const entries = keysOf(value).map((key) => ({ key: written(key), value: written(memberOf(value, key) ?? null) }));
    return { mapValue: { entries } };
  }
  return { error: value instanceof Fault ? value.message : "" };
}

const normal = (value: JsonValue | undefined): JsonValue => {
  if (value === undefined) return { boolValue: true };
  const text = JSON.stringify(value)
    .replaceAll('"listValue":{}', '"listValue":{"values":[]}')
    .replaceAll('"mapValue":{}', '"mapValue":{"entries":[]}');
  return JSON.parse(text, (key, inner: JsonValue) =>
    key === "nullValue" ? null : key === "doubleValue" ? Number(inner) : inner,
  ) as JsonValue;
};

/** Evaluates an expression; undefined if it lies outside the subset. */
function evaluate(expression: string): Value | undefined {
  const parsed = parseWhen(expression);
  if (parsed.kind === "invalid")
    return parsed.problem.reason === "WHEN_SYNTAX" ? new Fault(expression, parsed.problem.message) : undefined;
  if (checkWhen(parsed.tree, undefined, tools).some(({ message }) => !message.includes("must be true or false")))
    return undefined;
  const value = evaluateStep(closureOf(parsed.tree, tools), new Run(), contextFrom());
  return value instanceof Error ? new Fault(expression, value.message) : value;
}

describe("expressions and CEL's conformance suite", () => {
  let all = 0;
  for (const file of FILES) {
    it(`agree on ${file}.`, () => {
      const suite = tests.suites?.find(({ name }) => name === file);
      const failures: string[] = [];
      let passed = 0;
      for (const [path, { original }] of casesOf(suite as SerializedIncrementalTestSuite, file)) {
        const { expr, value: want, evalError, bindings, container } = original as JsonObject & { expr: string };
        if (
          OUTSIDE.test(expr) ||
          OUTSIDE.test(JSON.stringify(want ?? "")) ||
          bindings !== undefined ||
          container !== undefined
        )
          continue;
        const got = evaluate(expr);
        if (got === undefined) continue;
        if (NOT_FINITE.has(path)) {
          expect(got, path).to.be.instanceOf(Fault);
          continue;
        }
        const isError = got instanceof Fault;
        const isRight =
          evalError === undefined ? JSON.stringify(written(got)) === JSON.stringify(normal(want)) : isError;
        if (isRight) passed++;
        else
          failures.push(
            `${path}: ${expr}\n  got ${JSON.stringify(written(got))}\n  want ${JSON.stringify(evalError ?? normal(want))}`,
          );
      }
      expect(failures, failures.join("\n")).to.deep.equal([]);
      all += passed;
    });
  }

  it("agree on most cases of these files.", () => {
    expect(all).to.be.at.least(LEAST_CASES);
  });
});
