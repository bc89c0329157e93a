import type { JsonObject, JsonValue } from "@bufbuild/protobuf";
import type { ErrorObject } from "ajv";
import { elementPath, memberPath } from "./argument-path.ts";
import { isJsonObject, ownValue } from "./json-type.ts";

/** Where arguments do not fit a schema. Holds names and what the schema says, never a value of the arguments. */
export interface Misfit {
  /** As a path of the flattened schema: `lines[].amount`; undefined for the arguments as a whole. */
  readonly argument: string | undefined;
  /** What is wrong: `lines[2].amount` must be >= 0. */
  readonly message: string;
}

/** Characters of a path or message that are shown: names may be the caller's. */
const MAX_SHOWN = 200;
const MAX_CHOICES = 10;

/** Says in words what a check found. */
export function misfitFrom(args: JsonObject, error: ErrorObject | undefined): Misfit {
  if (error === undefined) return { argument: undefined, message: "the arguments do not fit" };
  const { paths, value } = followed(args, error.instancePath.split("/").slice(1).map(unescaped));
  if (error.keyword === "required") return missing(paths, String(error.params.missingProperty));
  const subject = paths.shown === "" ? "the arguments" : `\`${clipped(paths.shown)}\``;
  return {
    argument: paths.argument === "" ? undefined : clipped(paths.argument),
    message: clipped(`${subject} ${requirement(error, value)}`),
  };
}

interface Paths {
  readonly argument: string;
  readonly shown: string;
}

function followed(args: JsonObject, steps: readonly string[]): { paths: Paths; value: JsonValue | undefined } {
  let paths: Paths = { argument: "", shown: "" };
  let value: JsonValue | undefined = args;
  for (const step of steps) {
    const isElement = Array.isArray(value);
    paths = isElement
      ? { argument: elementPath(paths.argument), shown: `${paths.shown}[${step}]` }
      : { argument: memberPath(paths.argument, step), shown: memberPath(paths.shown, step) };
    value = Array.isArray(value) ? value[Number(step)] : isJsonObject(value) ? ownValue(value, step) : undefined;
  }
  return { paths, value };
}

function missing({ argument, shown }: Paths, name: string): Misfit {
  return {
    argument: clipped(memberPath(argument, name)),
    message: `\`${clipped(memberPath(shown, name))}\` is missing`,
  };
}

function requirement({ keyword, params, message = "does not fit" }: ErrorObject, value: JsonValue | undefined): string {
  if (keyword === "additionalProperties" || keyword === "unevaluatedProperties") {
    const name = String(params.additionalProperty ?? params.unevaluatedProperty);
    return `must not have \`${clipped(name)}\`, which the schema does not know`;
  }
  if (keyword === "enum") return `must be one of ${choices(params.allowedValues)}`;
  if (keyword === "type" && value === null) return `${message}, not null`;
  return message.replaceAll("NOT", "not").replaceAll('"', "`");
}

function choices(allowed: unknown): string {
  const values = Array.isArray(allowed) ? allowed : [];
  const named = values.slice(0, MAX_CHOICES).map((value) => `\`${JSON.stringify(value)}\``);
  return values.length > MAX_CHOICES ? `${named.join(", ")} and ${values.length - MAX_CHOICES} more` : named.join(", ");
}

function unescaped(step: string): string {
  return step.replaceAll("~1", "/").replaceAll("~0", "~");
}

function clipped(text: string): string {
  return text.length > MAX_SHOWN ? `${text.slice(0, MAX_SHOWN)}…`.toWellFormed() : text;
}
