import type { JsonValue } from "@bufbuild/protobuf";
import { argumentSteps } from "../notation/argument-path.ts";

/** Maximum values that a path leads to. */
const MAX_VALUES = 1_000;

/**
 * Lists the values to which the path of an argument leads, at most a thousand: one for each element where it passes an array, or ends in
 * one.
 */
export function valuesAt(value: JsonValue, path: string): readonly JsonValue[] {
  let found: readonly JsonValue[] = [value];
  for (const step of argumentSteps(path) ?? []) {
    found = found.flatMap((each) => next(each, step)).slice(0, MAX_VALUES);
  }
  return found.flatMap((each) => (Array.isArray(each) ? each : [each])).slice(0, MAX_VALUES);
}

/** Takes one step. An argument that may be a list or a single value has one path for both. */
function next(value: JsonValue, step: string | null): readonly JsonValue[] {
  if (step === null) return Array.isArray(value) ? value : [value];
  if (typeof value !== "object" || value === null || Array.isArray(value)) return [];
  const member = Object.hasOwn(value, step) ? value[step] : undefined;
  return member === undefined ? [] : [member];
}
