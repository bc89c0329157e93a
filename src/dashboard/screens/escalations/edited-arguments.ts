import type { JsonObject, JsonValue } from "@bufbuild/protobuf";
import type { ToolArgument } from "../../../../gen/agentcontrol/v1/resources_pb.js";

/** One argument in the edit form. */
export interface EditedArgument {
  readonly name: string;
  readonly text: string;
  /** False if the edited action leaves it out. */
  readonly isSent: boolean;
}

/** Writes a value as text: a string as it is, everything else as JSON. */
const textOf = (value: JsonValue): string => (typeof value === "string" ? value : JSON.stringify(value, null, 1));

const isTopLevel = (path: string): boolean => !/[.[]/.test(path);

/** Lists the arguments to edit: those in the schema in its order, sent or not, then the unknown ones. */
export function editedFrom(args: JsonObject, known: ReadonlyMap<string, ToolArgument>): readonly EditedArgument[] {
  const ofSchema = [...known.keys()].filter(isTopLevel);
  const names = new Set([...ofSchema, ...Object.keys(args)]);
  return [...names].map((name) => {
    const value = Object.hasOwn(args, name) ? args[name] : undefined;
    return { name, text: value === undefined ? "" : textOf(value), isSent: value !== undefined };
  });
}

/** Tests whether an argument is edited as plain text, without quotes. */
function isText(schema: ToolArgument | undefined, before: JsonValue | undefined): boolean {
  if (before !== undefined) return typeof before === "string";
  return schema?.types.length === 1 && schema.types[0] === "string";
}

/** Returns the fault of a text before it is sent. */
export function faultOf(
  text: string,
  schema: ToolArgument | undefined,
  before: JsonValue | undefined,
): string | undefined {
  if (isText(schema, before)) return undefined;
  try {
    JSON.parse(text);
    return undefined;
  } catch {
    const isNumber =
      typeof before === "number" || schema?.types.every((type) => type === "number" || type === "integer");
    return isNumber ? "must be a number" : "must be JSON: texts in quotes";
  }
}

/** Builds the arguments from the form's entries, which MUST have no fault. */
export function argumentsFrom(
  entries: readonly EditedArgument[],
  known: ReadonlyMap<string, ToolArgument>,
  before: JsonObject,
): JsonObject {
  const sent = entries.filter(({ isSent }) => isSent);
  return Object.fromEntries(
    sent.map(({ name, text }) => [
      name,
      isText(known.get(name), before[name]) ? text : (JSON.parse(text) as JsonValue),
    ]),
  );
}

/** Parses arguments from JSON text; returns a fault as a string. */
export function argumentsOfJson(text: string): JsonObject | string {
  try {
    const value = JSON.parse(text) as JsonValue;
    return value !== null && typeof value === "object" && !Array.isArray(value)
      ? value
      : "must be a JSON object: { … }";
  } catch (error) {
    return error instanceof Error ? `must be JSON: ${error.message.slice(0, 200)}` : "must be JSON";
  }
}

/** Returns the names of arguments that differ or exist on one side only. */
export function changedNames(before: JsonObject, after: JsonObject): readonly string[] {
  const names = new Set([...Object.keys(before), ...Object.keys(after)]);
  return [...names].filter((name) => JSON.stringify(before[name]) !== JSON.stringify(after[name]));
}
