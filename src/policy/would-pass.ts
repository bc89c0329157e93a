import type { JsonObject, JsonValue } from "@bufbuild/protobuf";
import { isJsonObject, ownValue } from "./json-value.ts";
import type { Plan } from "./rule-index.ts";
import type { ArgumentChange, Decision, EvaluationContext } from "./types.ts";

/** Maximum number of values that are tried for all reasons of one action, to say what would have passed. */
const MAX_TRIES = 12;
/** Maximum number of conditions that are compared in all of these tries. */
const MAX_TRIED_CONDITIONS = 6_000;
/** Tests whether an action is allowed once one argument is changed. */
export type PassTest = (change: ArgumentChange) => boolean;

/**
 * Creates the test for one action: it decides the action with each of the values, by `decideWith`. All reasons of the action
 * share a number of tries, and past it nothing passes.
 */
export function createPassTest(
  plan: Plan,
  context: EvaluationContext,
  decideWith: (changed: EvaluationContext) => Decision,
): PassTest {
  const conditions = plan.mandates.flatMap(({ rules }) =>
    rules.map(({ source }) => source.conditions?.rules.length ?? 0),
  );
  const all = conditions.reduce((sum, count) => sum + count, 1);
  const maxTries = Math.min(MAX_TRIES, Math.floor(MAX_TRIED_CONDITIONS / all));
  let tries = 0;
  const isAllowed = (path: readonly string[], value: JsonValue): boolean => {
    const changed = withArgument(context, path, value);
    if (changed === undefined || ++tries > maxTries) return false;
    return decideWith({ ...context, ...changed }) === "allow";
  };
  return ({ path, values }) => values.every((value) => isAllowed(path, value));
}

/** The parts of an action that hold its arguments. */
interface CallArguments {
  /** As `argumentsFrom` gives them: a member of the metadata, or the metadata itself. */
  readonly arguments: JsonObject | undefined;
  readonly metadata: JsonObject | undefined;
}

/**
 * Returns an action's arguments with another value of one of them; undefined if a member on the path to it is not an object.
 */
export function withArgument(
  { arguments: args, metadata }: CallArguments,
  path: readonly string[],
  value: JsonValue,
): { readonly arguments: JsonObject; readonly metadata: JsonObject } | undefined {
  const changed = withMember(args ?? {}, path, value);
  if (changed === undefined) return undefined;
  return { arguments: changed, metadata: args === metadata ? changed : { ...metadata, arguments: changed } };
}

function withMember(
  object: JsonObject,
  [name = "", ...rest]: readonly string[],
  value: JsonValue,
): JsonObject | undefined {
  if (rest.length === 0) return { ...object, [name]: value };
  const inner = ownValue(object, name) ?? {};
  const changed = isJsonObject(inner) ? withMember(inner, rest, value) : undefined;
  return changed && { ...object, [name]: changed };
}
