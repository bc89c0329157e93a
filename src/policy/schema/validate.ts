import { isIPv4, isIPv6 } from "node:net";
import type { JsonObject, JsonValue } from "@bufbuild/protobuf";
import { _, Ajv, type ErrorObject, type Options, type ValidateFunction } from "ajv";
import { Ajv2020 } from "ajv/dist/2020.js";
import { elementPath, memberPath } from "../../notation/argument-path.ts";
import { TOO_LONG } from "../checks.ts";
import { isJsonObject, ownValue, typeWord } from "../json-value.ts";
import { checkPattern, compilePattern } from "../patterns.ts";
import type { SchemaError, ToolSchema, Validation, ValidatorResult } from "../types.ts";
import { createRefResolver, type Dialect, dialectOf, pointerSteps, visitSchemas } from "./check.ts";

/** Characters of a text, or pattern instructions per character, that are read in about the time of one step. */
const CHARACTERS_PER_STEP = 64;
const INSTRUCTIONS_PER_STEP = 8;
/** A keyword of our own, under a name that no document uses with another meaning. */
const STEP_KEYWORD = "x-agent-control-step";
/** Keyword of our own beside a type of integers. */
const EXACT_KEYWORD = "x-agent-control-exact";
/** Characters of a path or message that are shown: names may be the caller's. */
const MAX_SHOWN = 200;
const MAX_CHOICES = 10;

/** Keywords of OpenAPI that ajv would act on and that mean nothing in JSON Schema. */
const OPENAPI_KEYWORDS = ["discriminator", "nullable"];

/** A member that ajv skips in every map by name. */
const PROTO = "__proto__";
const PROTO_PATTERN = "^__proto__$";
/** Keywords that say what a member brings with it, by dialect. */
const DEPENDENCIES = {
  "draft-07": ["dependencies"],
  "2020-12": ["dependencies", "dependentSchemas", "dependentRequired"],
} as const;
/** Statements of a compiled schema that make its map of evaluated members, each in a line of its own. */
const EVALUATED_MAP = /^(\s*(?:var )?props\d+ = (?:props\d+ \|\| )?)\{\};$/gm;

const UNCHECKABLE: SchemaError = { argument: undefined, message: "the arguments cannot be checked" };

/** A tool version to build. Default of `provenance`: nothing is declared. */
type ToolSchemaSource = Omit<ToolSchema, "validator" | "schemaSize" | "provenance"> &
  Partial<Pick<ToolSchema, "provenance">>;

/** Builds a tool version for rules. Its schema MUST be one that `flattenSchema` accepts. */
export function createToolSchema(source: ToolSchemaSource): ToolSchema {
  const { inputSchema, provenance } = source;
  let compiled: ValidatorResult | undefined;
  const validator = (): ValidatorResult => {
    compiled ??= compileValidator(inputSchema);
    return compiled;
  };
  let schemaSize = 0;
  visitSchemas(inputSchema, () => schemaSize++, createRefResolver(inputSchema));
  return { ...source, provenance, schemaSize, validator };
}

/**
 * Compiles a schema for checking arguments. `pattern` and `patternProperties` are RE2, so that time is linear in the text; a
 * pattern that RE2 does not accept makes the result invalid. Fetches nothing.
 */
export function compileValidator(schema: JsonObject): ValidatorResult {
  const problems: string[] = [];
  const work: Work = { steps: 0, maxSteps: 0 };
  const options: Options = {
    strict: false,
    logger: false,
    // The schema was checked against its dialect when it was registered.
    meta: false,
    validateSchema: false,
    ownProperties: true,
    formats: { ...STRING_FORMATS },
    code: { regExp: re2Engine(problems, work), lines: true, process: withPlainMaps },
  };
  const dialect = dialectOf(schema) ?? "2020-12";
  try {
    const ajv = dialect === "draft-07" ? new Ajv(options) : new Ajv2020(options);
    addOwnKeywords(ajv, work);
    const validate = ajv.compile(preparedSchema(schema, dialect));
    if (problems.length > 0) return { kind: "invalid", problems };
    return { kind: "compiled", validate: (args, maxSteps) => validation(validate, args, work, maxSteps) };
  } catch (error) {
    return { kind: "invalid", problems: [...problems, error instanceof Error ? error.message : String(error)] };
  }
}

/** Steps of the check that runs. */
interface Work {
  steps: number;
  maxSteps: number;
}

/** Ends a check that takes more steps than it may. */
class TooLong extends Error {}

function takeSteps(work: Work, count: number): void {
  work.steps += count;
  if (work.steps > work.maxSteps) throw new TooLong();
}

function validation(validate: ValidateFunction, args: JsonObject, work: Work, maxSteps: number): Validation {
  Object.assign(work, { steps: 0, maxSteps });
  const error = firstError(validate, args);
  return { error, steps: work.steps };
}

function firstError(validate: ValidateFunction, args: JsonObject): SchemaError | undefined | typeof TOO_LONG {
  try {
    const fits: unknown = validate(args);
    if (fits === true) return undefined;
    if (fits !== false) return uncheckable(fits);
    const errors = validate.errors ?? [];
    // Of nested errors the outermost comes last; that of `if` only repeats that `then` or `else` failed.
    return schemaErrorFrom(args, errors.findLast(({ keyword }) => keyword !== "if") ?? errors.at(-1));
  } catch (error) {
    // Other than too many steps: arguments nested deeper than the stack.
    return error instanceof TooLong ? TOO_LONG : UNCHECKABLE;
  } finally {
    validate.errors = null;
  }
}

/** Handles a validator that gives neither true nor false, such as the promise of an asynchronous one. */
function uncheckable(result: unknown): SchemaError {
  Promise.resolve(result).catch(() => undefined);
  return UNCHECKABLE;
}

function re2Engine(problems: string[], work: Work) {
  const engine = (pattern: string): { test: (text: string) => boolean; toString: () => string } => {
    const checked = checkPattern(pattern, { ignoreCase: false });
    if (checked.kind === "invalid") {
      problems.push(`the pattern \`${clipped(pattern)}\` ${checked.message}`);
      return { test: () => false, toString: () => pattern };
    }
    const { found } = compilePattern(pattern);
    const test = (text: string): boolean => {
      takeSteps(work, (checked.size * text.length) / INSTRUCTIONS_PER_STEP);
      return found(text);
    };
    // ajv takes two patterns with the same text for one.
    return { test, toString: () => pattern };
  };
  return Object.assign(engine, { code: "re2" });
}

/** Takes the prototype from maps by name in a compiled schema, which would find `constructor` and the like in them. */
function withPlainMaps(code: string): string {
  return code.replace(EVALUATED_MAP, "$1Object.create(null);");
}

/**
 * Copies a schema without the keywords of OpenAPI, says of the member `__proto__` in other words what it says, and marks every
 * subschema with the steps that a visit takes.
 */
function preparedSchema(schema: JsonObject, dialect: Dialect): JsonObject {
  const copy = structuredClone(schema);
  const visit = (each: JsonObject): void => {
    for (const keyword of OPENAPI_KEYWORDS) delete each[keyword];
    declareProto(each, dialect);
    if (takesIntegersOnly(ownValue(each, "type"))) each[EXACT_KEYWORD] = true;
    each[STEP_KEYWORD] = 1 + Object.values(each).reduce((sum: number, value) => sum + lengthOf(value) / 4, 0);
  };
  visitSchemas(copy, visit, createRefResolver(copy));
  return copy;
}

/** Says by a pattern and by conditions what a schema says of the member `__proto__` by its name. */
function declareProto(schema: JsonObject, dialect: Dialect): void {
  const declared = protoIn(schema, "properties");
  if (declared !== undefined) {
    const patterns = ownValue(schema, "patternProperties");
    const same = protoIn(schema, "patternProperties", PROTO_PATTERN);
    const both = same === undefined ? declared : { allOf: [same, declared] };
    schema.patternProperties = { ...(isJsonObject(patterns) && patterns), [PROTO_PATTERN]: both };
  }
  for (const keyword of DEPENDENCIES[dialect]) {
    const dependent = protoIn(schema, keyword);
    if (dependent === undefined) continue;
    const others = ownValue(schema, "allOf");
    const then = Array.isArray(dependent) ? { required: dependent } : dependent;
    schema.allOf = [...(Array.isArray(others) ? others : []), { if: { required: [PROTO] }, then }];
  }
}

/** Returns what a keyword's map says of the member `__proto__`. */
function protoIn(schema: JsonObject, keyword: string, name = PROTO): JsonValue | undefined {
  const map = ownValue(schema, keyword);
  return isJsonObject(map) ? ownValue(map, name) : undefined;
}

/** Counts the values that a keyword lists, such as the choices of `enum` and the names of `required`. */
function lengthOf(value: JsonValue | undefined): number {
  if (typeof value !== "object" || value === null) return 0;
  return Array.isArray(value) ? value.length : Object.keys(value).length;
}

const takesIntegersOnly = (type: JsonValue | undefined): boolean =>
  type === "integer" || (Array.isArray(type) && type.includes("integer") && !type.includes("number"));

function addOwnKeywords(ajv: Ajv, work: Work): void {
  const visit = (steps: number, value: JsonValue): void =>
    takeSteps(work, typeof value === "string" ? steps + value.length / CHARACTERS_PER_STEP : steps);
  ajv.addKeyword({
    keyword: STEP_KEYWORD,
    // Before the reference, so that a step counts before the schema it leads to.
    before: "$ref",
    schemaType: "number",
    // Generates the call alone: a function that can fail would make compiling twice as slow.
    code({ gen, schema, data }) {
      gen.code(_`${gen.scopeValue("func", { ref: visit })}(${schema as number}, ${data})`);
    },
  });
  ajv.addKeyword({
    keyword: EXACT_KEYWORD,
    type: "number",
    error: { message: "must be an integer within 2^53 - 1" },
    validate: (_: boolean, value: number) => Number.isSafeInteger(value),
  });
  // ajv's own keywords take members such as `constructor` for those that every object inherits.
  ajv.removeKeyword("enum");
  ajv.addKeyword({
    keyword: "enum",
    schemaType: "array",
    error: {
      message: "must be equal to one of the allowed values",
      params: ({ schemaCode }) => _`{allowedValues: ${schemaCode}}`,
    },
    compile: (allowed: readonly JsonValue[]) => isOneOf(allowed, work),
  });
  ajv.removeKeyword("const");
  ajv.addKeyword({
    keyword: "const",
    error: { message: "must be equal to constant" },
    compile: (wanted: JsonValue) => isOneOf([wanted], work),
  });
  // ajv's own keyword compares every two elements: quadratic in the caller's input.
  ajv.removeKeyword("uniqueItems");
  ajv.addKeyword({
    keyword: "uniqueItems",
    type: "array",
    schemaType: "boolean",
    error: { message: "must NOT have duplicate items" },
    validate: (isUnique: boolean, items: readonly JsonValue[]) =>
      !isUnique || new Set(items.map(sortedJson)).size === items.length,
  });
}

/** Returns the test of whether a value equals one of some values. */
function isOneOf(allowed: readonly JsonValue[], work: Work): (value: JsonValue) => boolean {
  const texts = new Set(allowed.filter(hasParts).map(sortedJson));
  const scalars = new Set(allowed.filter((each) => !hasParts(each)));
  return (value) => {
    if (!hasParts(value)) return scalars.has(value);
    if (texts.size === 0) return false;
    const text = sortedJson(value);
    takeSteps(work, text.length / CHARACTERS_PER_STEP);
    return texts.has(text);
  };
}

const hasParts = (value: JsonValue): boolean => typeof value === "object" && value !== null;

/** Writes a value as JSON with sorted members, so that equal values give equal texts. */
function sortedJson(value: JsonValue): string {
  return JSON.stringify(value, (_, part: JsonValue) =>
    isJsonObject(part) ? Object.fromEntries(Object.entries(part).sort(([a], [b]) => (a < b ? -1 : 1))) : part,
  );
}

function schemaErrorFrom(args: JsonObject, error: ErrorObject | undefined): SchemaError {
  if (error === undefined) return { argument: undefined, message: "the arguments do not fit" };
  const { argument, shown, value } = placeOf(args, pointerSteps(error.instancePath));
  if (error.keyword === "required") {
    const name = String(error.params.missingProperty);
    const message = `\`${clipped(memberPath(shown, name))}\` is missing`;
    return { argument: clipped(memberPath(argument, name)), message };
  }
  const subject = shown === "" ? "the arguments" : `\`${clipped(shown)}\``;
  return {
    argument: argument === "" ? undefined : clipped(argument),
    message: clipped(`${subject} ${requirementText(error, value)}`),
  };
}

/** Follows steps into the arguments. Returns the path as flattened and as shown, and the value there. */
function placeOf(args: JsonObject, steps: readonly string[]) {
  let [argument, shown] = ["", ""];
  let value: JsonValue | undefined = args;
  for (const step of steps) {
    if (Array.isArray(value)) {
      [argument, shown] = [elementPath(argument), `${shown}[${step}]`];
      value = value[Number(step)];
    } else {
      [argument, shown] = [memberPath(argument, step), memberPath(shown, step)];
      value = isJsonObject(value) ? ownValue(value, step) : undefined;
    }
  }
  return { argument, shown, value };
}

function requirementText(error: ErrorObject, value: JsonValue | undefined): string {
  const { keyword, params, message = "does not fit" } = error;
  if (keyword === "additionalProperties" || keyword === "unevaluatedProperties") {
    const name = String(params.additionalProperty ?? params.unevaluatedProperty);
    return `must not have \`${clipped(name)}\`, which the schema does not know`;
  }
  if (keyword === "enum") return `must be one of ${choicesText(params.allowedValues)}`;
  if (keyword === "type" && value !== undefined) return `${message}, not ${typeWord(value)}`;
  return message.replaceAll("NOT", "not").replaceAll('"', "`");
}

function choicesText(allowed: unknown): string {
  const values = Array.isArray(allowed) ? allowed : [];
  const named = values.slice(0, MAX_CHOICES).map((value) => `\`${JSON.stringify(value)}\``);
  return values.length > MAX_CHOICES ? `${named.join(", ")} and ${values.length - MAX_CHOICES} more` : named.join(", ");
}

function clipped(text: string): string {
  return text.length > MAX_SHOWN ? `${text.slice(0, MAX_SHOWN)}…`.toWellFormed() : text;
}

const DATE = /^(\d{4})-(\d\d)-(\d\d)$/;
const TIME = /^([01]\d|2[0-3]):[0-5]\d:([0-5]\d|60)(\.\d+)?(z|[+-]([01]\d|2[0-3]):[0-5]\d)$/i;
const UUID = /^[\da-f]{8}-[\da-f]{4}-[\da-f]{4}-[\da-f]{4}-[\da-f]{12}$/i;
const SCHEME = /^[a-z][a-z\d+.-]*:/i;
const LOCAL_PART = /^[^\s@<>()[\]\\,;:"]{1,64}$/;
const LABEL = /^[\p{L}\p{N}]([\p{L}\p{N}-]{0,61}[\p{L}\p{N}])?$/u;

/**
 * The string formats that are checked, each in time linear in the text: RFC 3339 dates and times, mail addresses, host
 * names, IP addresses, absolute URIs and UUIDs. As JSON Schema permits, every other format is ignored.
 */
const STRING_FORMATS: Readonly<Record<string, (text: string) => boolean>> = {
  date: isDate,
  time: (text) => TIME.test(text),
  "date-time": (text) => /^[t ]$/i.test(text.charAt(10)) && isDate(text.slice(0, 10)) && TIME.test(text.slice(11)),
  email: isEmail,
  hostname: isHostname,
  ipv4: isIPv4,
  ipv6: (text) => isIPv6(text) && !text.includes("%"),
  uri: (text) => SCHEME.test(text) && !/\s/.test(text) && URL.canParse(text),
  uuid: (text) => UUID.test(text),
};

function isDate(text: string): boolean {
  const [, year, month, day] = DATE.exec(text) ?? [];
  if (year === undefined) return false;
  const date = new Date(`${year}-${month}-${day}T00:00:00Z`);
  return !Number.isNaN(date.getTime()) && date.toISOString().startsWith(text);
}

function isEmail(text: string): boolean {
  const at = text.lastIndexOf("@");
  if (at < 1 || text.length > 254 || !LOCAL_PART.test(text.slice(0, at))) return false;
  return isHostname(text.slice(at + 1));
}

function isHostname(text: string): boolean {
  return text.length <= 253 && text.split(".").every((label) => LABEL.test(label));
}
