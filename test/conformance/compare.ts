import type { JsonObject, JsonValue } from "@bufbuild/protobuf";
import { expect } from "chai";
import type { Answer } from "../support/wires.ts";
import type { WantedError } from "./cases.ts";
import type { Normalise } from "./normalise.ts";

const isObject = (value: unknown): value is JsonObject =>
  typeof value === "object" && value !== null && !Array.isArray(value);

/** What is left of `actual` when it is cut down to the members that `wanted` names. Lists keep their length. */
function cut(actual: JsonValue | undefined, wanted: JsonValue): JsonValue | undefined {
  if (Array.isArray(actual) && Array.isArray(wanted)) {
    return actual.map((item, index) =>
      index < wanted.length ? cut(item, wanted[index] as JsonValue) : item,
    ) as JsonValue;
  }
  if (!isObject(actual) || !isObject(wanted)) return actual;
  const names = Object.keys(wanted).filter((name) => name in actual);
  return Object.fromEntries(names.map((name) => [name, cut(actual[name], wanted[name] as JsonValue)])) as JsonObject;
}

/** Asserts that `actual` has everything that `wanted` names; lists item by item. */
export function expectPart(actual: JsonValue | undefined, wanted: JsonValue): void {
  expect(cut(actual, wanted)).to.deep.equal(wanted);
}

/** Asserts that a call failed as wanted. */
export function expectError(answer: Answer, { code, reason, violations = [] }: WantedError): void {
  expect({ code: answer.code, reason: answer.reason, message: answer.message }).to.deep.equal({
    code,
    message: answer.message,
    reason: reason ?? answer.reason,
  });
  for (const wanted of violations) {
    const found = answer.violations.find(({ field }) => field === wanted.field);
    expect(found, `a violation of ${wanted.field} among ${JSON.stringify(answer.violations)}`).to.include(wanted);
  }
}

/** The meaning of an answer: what every wire has to agree on. */
export function meaningOf(answer: Answer, normalise: Normalise, isLoose = false): JsonValue {
  const { code, reason = null, message, metadata, violations, body = null } = answer;
  if (isLoose) return { code, reason };
  return normalise({ code, reason, message, metadata, violations: violations as never, body });
}
