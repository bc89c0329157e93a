import type { JsonValue } from "@bufbuild/protobuf";
import { argumentSteps } from "../notation/argument-path.ts";
import { approvedForm } from "./digests.ts";
import { readArgument } from "./read-argument.ts";
import type { ValueKind } from "./sources.ts";

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

/** A reason for which a person was asked; that of a provenance rule has an argument, and the kind as which it read the values. */
export interface AskedReason {
  readonly argument?: string;
  readonly valueKind?: ValueKind;
}

/** Lists the values of arguments on which provenance rules asked, each in the forms in which an approval names it. */
export function approvedFormsOf(reasons: readonly AskedReason[], args: JsonValue): readonly string[] {
  const asked = reasons.flatMap(({ argument, valueKind: kind }) =>
    argument === undefined || kind === undefined ? [] : [{ argument, kind }],
  );
  const distinct = new Map(asked.map((each) => [`${each.kind} ${each.argument}`, each]));
  return [...distinct.values()].flatMap(({ argument, kind }) =>
    valuesAt(args, argument).flatMap((value) => {
      const read = readArgument(kind, value);
      return read.kind === "value"
        ? [...read.value.whole, ...read.value.parts].map((form) => approvedForm(kind, form))
        : [];
    }),
  );
}
