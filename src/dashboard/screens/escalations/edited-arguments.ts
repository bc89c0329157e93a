import { type JsonObject, type JsonValue, toJson } from "@bufbuild/protobuf";
import { ValueSchema } from "@bufbuild/protobuf/wkt";
import type { ToolArgument } from "../../../../gen/agentcontrol/v1/resources_pb.js";
import { argumentRows, isWithin } from "./argument-rows.ts";

/** One argument in the edit form. */
export interface EditedArgument {
  /** Path as in the tool's flattened schema: `bank.iban`. */
  readonly path: string;
  /** Name as it is sent, below its parents' names. */
  readonly name: string;
  /** Names of the members that lead to it. */
  readonly steps: readonly string[];
  readonly text: string;
  /** Value of the action; undefined if it does not send it. */
  readonly before: JsonValue | undefined;
  /** False if the edited action leaves it out. */
  readonly isSent: boolean;
}

/** Writes a value as text: a string as it is, everything else as JSON. */
const textOf = (value: JsonValue): string => (typeof value === "string" ? value : JSON.stringify(value, null, 1));

/** A path of plain names, without lists. */
const PLAIN_PATH = /^[^.[\]"]+(?:\.[^.[\]"]+)*$/;

/** Returns the value that members lead to; undefined if it is not there. */
function valueAt(args: JsonObject, steps: readonly string[]): JsonValue | undefined {
  let value: JsonValue | undefined = args;
  for (const step of steps) {
    if (typeof value !== "object" || value === null || Array.isArray(value) || !Object.hasOwn(value, step))
      return undefined;
    value = value[step];
  }
  return value;
}

/** Arguments that a form begins with. */
export interface EditedFrom {
  /** Arguments that the form shows. */
  readonly args: JsonObject;
  /** Arguments of the action. */
  readonly before: JsonObject;
  readonly known: ReadonlyMap<string, ToolArgument>;
  /** Paths of the arguments that fired. */
  readonly fired: readonly string[];
}

/**
 * Lists the arguments to edit, the members of small objects each: those that fired, then those in the schema in its order, sent or
 * not, then the unknown ones.
 */
export function editedFrom({ args, before, known, fired }: EditedFrom): readonly EditedArgument[] {
  const rows = argumentRows(args);
  const sent = rows.map(({ path, name, steps, value }) => {
    return { path, name, steps, text: textOf(value), before: valueAt(before, steps), isSent: true };
  });
  // Members of an object that is edited as one value, or that is not sent, have no field of their own.
  const parents = new Set(["", ...rows.map(({ steps }) => steps.slice(0, -1).join("."))]);
  const unsent = [...known.keys()]
    .filter((path) => PLAIN_PATH.test(path) && parents.has(path.slice(0, Math.max(path.lastIndexOf("."), 0))))
    .filter((path) => !rows.some((row) => isWithin(row.path, path)))
    .map((path) => {
      const steps = path.split(".");
      return { path, name: path, steps, text: "", before: valueAt(before, steps), isSent: false };
    });
  const places = new Map([...known.keys()].map((path, place) => [path, place]));
  const placeOf = ({ path }: EditedArgument): number =>
    fired.some((each) => isWithin(each, path)) ? -1 : (places.get(path) ?? places.size);
  return [...sent, ...unsent].sort((a, b) => placeOf(a) - placeOf(b));
}

/** Tests whether an argument is edited as plain text, without quotes. */
function isText(schema: ToolArgument | undefined, before: JsonValue | undefined): boolean {
  if (before !== undefined) return typeof before === "string";
  return schema?.types.length === 1 && schema.types[0] === "string";
}

/** Lists the texts of the values that a schema allows; empty if it lists none, or some that are not edited as one line. */
export function choicesOf(schema: ToolArgument | undefined, before: JsonValue | undefined): readonly string[] {
  if (schema === undefined) return [];
  const listed = schema.enum.map((value) => toJson(ValueSchema, value));
  const values = listed.length === 0 && schema.types.join() === "boolean" ? [true, false] : listed;
  if (values.some((value) => typeof value === "object" && value !== null)) return [];
  const isPlain = isText(schema, before);
  // As plain text only a text can be written, and a number would become one.
  if (isPlain && values.some((value) => typeof value !== "string")) return [];
  return values.map((value) => (isPlain ? String(value) : JSON.stringify(value)));
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

/** Members that become an object. */
type Members = Map<string, Members | { readonly value: JsonValue }>;

const objectFrom = (members: Members): JsonObject =>
  Object.fromEntries([...members].map(([name, each]) => [name, each instanceof Map ? objectFrom(each) : each.value]));

/** Builds the arguments from the form's entries, which MUST have no fault. An object whose members are all left out stays empty. */
export function argumentsFrom(
  entries: readonly EditedArgument[],
  known: ReadonlyMap<string, ToolArgument>,
): JsonObject {
  const root: Members = new Map();
  for (const { path, steps, text, before, isSent } of entries) {
    let members = root;
    for (const step of steps.slice(0, -1)) {
      const below = members.get(step);
      const next: Members = below instanceof Map ? below : new Map();
      members.set(step, next);
      members = next;
    }
    if (!isSent) continue;
    const value = isText(known.get(path), before) ? text : (JSON.parse(text) as JsonValue);
    members.set(steps.at(-1) ?? "", { value });
  }
  return objectFrom(root);
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
