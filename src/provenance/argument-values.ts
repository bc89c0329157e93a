import type { JsonValue } from "@bufbuild/protobuf";
import { argumentSteps } from "../notation/argument-path.ts";
import { isAscii } from "../text/fold.ts";
import { approvedForm } from "./digests.ts";
import { readArgument } from "./read-argument.ts";
import type { ValueKind } from "./sources.ts";

/** Maximum values, and characters of them, that are read of an action. */
export const MAX_VALUES = 1_000;
export const MAX_CHARACTERS = 131_072;
/** Characters of ASCII for which one of any other text counts, which takes longer to fold and may grow. */
const FOLDED = 4;

/** Counts the characters of a value for `MAX_CHARACTERS`. */
export const charactersOf = (value: JsonValue): number =>
  typeof value === "string" ? value.length * (isAscii(value) ? 1 : FOLDED) : 0;

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

/**
 * Lists the values of arguments on which provenance rules asked, each in the forms in which an approval names it. Values past
 * `MAX_CHARACTERS` are left out: the rules did not read them either.
 */
export function approvedFormsOf(reasons: readonly AskedReason[], args: JsonValue): readonly string[] {
  const asked = reasons.flatMap(({ argument, valueKind: kind }) =>
    argument === undefined || kind === undefined ? [] : [{ argument, kind }],
  );
  const distinct = new Map(asked.map((each) => [`${each.kind} ${each.argument}`, each]));
  let charactersLeft = MAX_CHARACTERS;
  return [...distinct.values()].flatMap(({ argument, kind }) =>
    valuesAt(args, argument).flatMap((value) => {
      const characters = charactersOf(value);
      if (characters > charactersLeft) return [];
      charactersLeft -= characters;
      const read = readArgument(kind, value);
      return read.kind === "value"
        ? [...read.value.whole, ...read.value.parts].map((form) => approvedForm(kind, form))
        : [];
    }),
  );
}
