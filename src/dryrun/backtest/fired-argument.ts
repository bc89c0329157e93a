import type { JsonObject, JsonValue } from "@bufbuild/protobuf";
import { type ArgumentStep, argumentSteps } from "../../notation/argument-path.ts";
import { isJsonObject, ownValue } from "../../policy/json-value.ts";
import { argumentsFrom } from "../../policy/names.ts";

/** Characters of a text that is told. */
const MAX_TEXT = 200;
/** Values at a path through arrays that are told. */
const MAX_VALUES = 20;

/** An argument that a reason names. */
export interface FiredArgument {
  /** Path of its members: `lines[].amount`. */
  readonly path: string;
  /** A number, boolean, null or text, which may be the beginning of a longer one; undefined if the action does not send it. */
  readonly value: JsonValue | undefined;
}

/** Returns the first argument that reasons name, with its value; undefined if they name none. */
export function firedArgument(
  reasons: readonly { readonly argument?: string }[],
  metadata: JsonObject | undefined,
): FiredArgument | undefined {
  const path = reasons.find(({ argument }) => argument !== undefined)?.argument;
  if (path === undefined) return undefined;
  const steps = argumentSteps(path) ?? [];
  // A rule without a schema reads the metadata too.
  const value = valueAt(argumentsFrom(metadata), steps) ?? valueAt(metadata, steps);
  return { path, value: value === undefined ? undefined : toldValue(value) };
}

/** Returns the value at a path; a list where the path reaches several. */
function valueAt(root: JsonObject | undefined, steps: readonly ArgumentStep[]): JsonValue | undefined {
  if (root === undefined || steps.length === 0) return undefined;
  let places: readonly JsonValue[] = [root];
  for (const step of steps) {
    places = places
      .flatMap((place): readonly (JsonValue | undefined)[] => {
        if (step === null) return Array.isArray(place) ? place.slice(0, MAX_VALUES) : [];
        return isJsonObject(place) ? [ownValue(place, step)] : [];
      })
      .filter((each) => each !== undefined)
      .slice(0, MAX_VALUES);
  }
  return places.length > 1 ? [...places] : places[0];
}

function toldValue(value: JsonValue): JsonValue {
  if (typeof value === "string") return value.slice(0, MAX_TEXT);
  return typeof value === "object" && value !== null ? JSON.stringify(value).slice(0, MAX_TEXT) : value;
}
