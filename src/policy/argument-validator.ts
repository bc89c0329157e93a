import type { JsonObject, JsonValue } from "@bufbuild/protobuf";
import { RE2JS } from "@bufbuild/re2";
import { Ajv, type ErrorObject, type Options, type ValidateFunction } from "ajv";
import { Ajv2020 } from "ajv/dist/2020.js";
import { countedSchema, STEP_KEYWORD } from "./counted-schema.ts";
import { isJsonObject } from "./json-type.ts";
import { dialectOf } from "./schema-check.ts";
import { type Misfit, misfitFrom } from "./schema-misfit.ts";
import { STRING_FORMATS } from "./string-formats.ts";

/** Says where arguments do not fit a schema; undefined when they do. MUST NOT throw on any JSON. */
export type ArgumentValidator = (args: JsonObject) => Misfit | undefined;

/** A compiled schema, or why arguments cannot be checked against it. */
export type ValidatorResult =
  | { readonly kind: "compiled"; readonly validate: ArgumentValidator }
  | { readonly kind: "invalid"; readonly problems: readonly string[] };

/** References followed in one check; a recursive schema may otherwise take time exponential in the depth. */
const MAX_STEPS = 20_000;

const UNCHECKABLE: Misfit = { argument: undefined, message: "the arguments take too long to check" };

const known = new WeakMap<JsonObject, ValidatorResult>();

/**
 * Compiles the schema of a tool version, once for each object. `pattern` and `patternProperties` are RE2, so that time is
 * linear in the text; a pattern that RE2 cannot take makes the result invalid. Nothing is ever fetched. `schema` MUST be
 * one that `flattenSchema` takes.
 */
export function argumentValidatorOf(schema: JsonObject): ValidatorResult {
  const remembered = known.get(schema);
  if (remembered !== undefined) return remembered;
  const result = compile(schema);
  known.set(schema, result);
  return result;
}

function compile(schema: JsonObject): ValidatorResult {
  const problems: string[] = [];
  const work = { steps: 0 };
  const options: Options = {
    strict: false,
    logger: false,
    // The schema was checked against its dialect when it was registered.
    ...{ meta: false, validateSchema: false },
    ownProperties: true,
    formats: { ...STRING_FORMATS },
    code: { regExp: regExpOf(problems) },
  };
  try {
    const ajv = dialectOf(schema) === "draft-07" ? new Ajv(options) : new Ajv2020(options);
    addOwnKeywords(ajv, work);
    const validate = ajv.compile(countedSchema(schema));
    if (problems.length > 0) return { kind: "invalid", problems };
    return { kind: "compiled", validate: validatorFrom(validate, work) };
  } catch (error) {
    return { kind: "invalid", problems: [...problems, error instanceof Error ? error.message : String(error)] };
  }
}

function validatorFrom(validate: ValidateFunction, work: { steps: number }): ArgumentValidator {
  return (args) => {
    work.steps = 0;
    try {
      if (validate(args)) return undefined;
      return misfitFrom(args, lastError(validate.errors ?? []));
    } catch {
      // Too many steps, or arguments nested deeper than the stack.
      return UNCHECKABLE;
    } finally {
      validate.errors = null;
    }
  };
}

// Of nested errors the outermost comes last; that of `if` only repeats that `then` or `else` failed.
function lastError(errors: readonly ErrorObject[]): ErrorObject | undefined {
  return errors.findLast(({ keyword }) => keyword !== "if") ?? errors.at(-1);
}

function regExpOf(problems: string[]) {
  const engine = (pattern: string): { test: (text: string) => boolean } => {
    try {
      const expression = new RE2JS(pattern);
      return { test: (text) => expression.test(text) };
    } catch (error) {
      const cause = error instanceof Error ? error.message.replace(/\s+/g, " ").trim() : "is refused";
      problems.push(`RE2 cannot take the pattern \`${pattern}\`: ${cause}`);
      return { test: () => false };
    }
  };
  return Object.assign(engine, { code: "re2" });
}

function addOwnKeywords(ajv: Ajv, work: { steps: number }): void {
  ajv.addKeyword({
    keyword: STEP_KEYWORD,
    // First of all, so that a step counts before what it leads to.
    before: "$ref",
    validate: () => {
      if (++work.steps > MAX_STEPS) throw new Error("too many steps");
      return true;
    },
  });
  // ajv's own compares every two elements: quadratic in what a caller sends.
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

/** Equal for equal values, whatever the order of their members. */
function sortedJson(value: JsonValue): string {
  return JSON.stringify(value, (_, part: JsonValue) =>
    isJsonObject(part) ? Object.fromEntries(Object.entries(part).sort(([a], [b]) => (a < b ? -1 : 1))) : part,
  );
}
