import { RE2JS } from "@bufbuild/re2";

/*
 * A second evaluator of conditions, written from the text of the specification and made to be read, not to be fast. It
 * shares no code with the compiled one and knows only schemas made of `type`, `properties` and `items`.
 */

type Json = null | boolean | number | string | Json[] | { [key: string]: Json };

/** A schema of the kind that the naive evaluator knows. */
export interface NaiveSchema {
  readonly type?: string | readonly string[];
  readonly properties?: { readonly [name: string]: NaiveSchema };
  readonly items?: NaiveSchema;
}

/** A condition as the interface writes it. */
export interface NaiveCondition {
  readonly field: string;
  readonly operator: string;
  readonly value?: Json;
  readonly currency?: string;
  readonly on_missing?: string;
}

/** Where a path leads in one call: to values, to nothing, or into something that cannot have the member. */
type Spot =
  | {
      readonly at: "value";
      readonly value: Json;
      readonly schema: NaiveSchema;
      readonly parent: { [key: string]: Json };
    }
  | { readonly at: "nothing" }
  | { readonly at: "wrong" };

const ALL = ["string", "number", "integer", "boolean", "array", "object", "null"];

function typesOf(schema: NaiveSchema): readonly string[] {
  if (schema.type !== undefined) return typeof schema.type === "string" ? [schema.type] : schema.type;
  if (schema.properties !== undefined) return ["object"];
  return schema.items === undefined ? ALL : ["array"];
}

function admits(types: readonly string[], value: Json | undefined): boolean {
  if (value === null) return types.includes("null");
  if (Array.isArray(value)) return types.includes("array");
  if (typeof value === "number")
    return types.includes("number") || (Number.isSafeInteger(value) && types.includes("integer"));
  return types.includes(typeof value);
}

function isObject(value: Json | undefined): value is { [key: string]: Json } {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function member(object: { [key: string]: Json }, name: string): Json | undefined {
  return Object.entries(object).find(([key]) => key === name)?.[1];
}

/** `lines[].amount` as `["lines", "[]", "amount"]`. */
function split(path: string): string[] {
  return path.replaceAll("[]", ".[]").split(".");
}

function follow(path: string[], value: Json | undefined, schema: NaiveSchema, parent: { [key: string]: Json }): Spot[] {
  const [step, ...rest] = path;
  if (step === undefined) {
    if (value === undefined || (value === null && !typesOf(schema).includes("null"))) return [{ at: "nothing" }];
    return [{ at: "value", value, schema, parent }];
  }
  if (value === undefined || value === null) return [{ at: "nothing" }];
  if (step === "[]" && Array.isArray(value)) {
    if (value.length === 0) return [{ at: "nothing" }];
    return value.flatMap((element) => follow(rest, element, schema.items ?? {}, parent));
  }
  if (step !== "[]" && isObject(value)) {
    return follow(rest, member(value, step), schema.properties?.[step] ?? {}, value);
  }
  return [{ at: admits(typesOf(schema), value) ? "nothing" : "wrong" }];
}

const TAKES: { readonly [operator: string]: readonly string[] } = {
  "==": ["string", "number", "boolean"],
  "!=": ["string", "number", "boolean"],
  in: ["string", "number", "boolean"],
  not_in: ["string", "number", "boolean"],
  ">": ["number"],
  ">=": ["number"],
  "<": ["number"],
  "<=": ["number"],
  between: ["number"],
  not_between: ["number"],
  contains: ["string", "array"],
  not_contains: ["string", "array"],
  contains_any: ["string", "array"],
  contains_all: ["string", "array"],
  subset_of: ["array"],
  matches: ["string"],
  starts_with: ["string"],
  ends_with: ["string"],
  length_gt: ["string", "array"],
  length_lt: ["string", "array"],
  exists: ALL,
  not_exists: ALL,
};

const LOOKS_INSIDE = ["contains", "not_contains", "contains_any", "contains_all", "subset_of"];

function clean(text: string): string {
  return text.trim().toLowerCase().normalize("NFC");
}

function same(left: Json, right: Json): boolean {
  if (typeof left === "string" && typeof right === "string") return clean(left) === clean(right);
  return typeof left !== "object" && left === right;
}

function has(value: Json, wanted: Json): boolean {
  if (Array.isArray(value)) return value.some((element) => same(element, wanted));
  return typeof value === "string" && typeof wanted === "string" && clean(value).indexOf(clean(wanted)) >= 0;
}

function size(value: Json): number {
  return Array.isArray(value) ? value.length : Array.from(value as string).length;
}

function list(value: Json | undefined): Json[] {
  return Array.isArray(value) ? value : [];
}

/** Compares a value of a type that the operator takes. */
function compare(operator: string, value: Json, wanted: Json): boolean {
  const [low, high] = [list(wanted)[0] as number, list(wanted)[1] as number];
  switch (operator) {
    case "==":
      return same(value, wanted);
    case "!=":
      return !same(value, wanted);
    case "in":
      return list(wanted).some((one) => same(value, one));
    case "not_in":
      return list(wanted).every((one) => !same(value, one));
    case ">":
      return (value as number) > (wanted as number);
    case ">=":
      return (value as number) >= (wanted as number);
    case "<":
      return (value as number) < (wanted as number);
    case "<=":
      return (value as number) <= (wanted as number);
    case "between":
      return low <= (value as number) && (value as number) <= high;
    case "not_between":
      return (value as number) < low || high < (value as number);
    case "contains":
      return has(value, wanted);
    case "not_contains":
      return !has(value, wanted);
    case "contains_any":
      return list(wanted).some((one) => has(value, one));
    case "contains_all":
      return list(wanted).every((one) => has(value, one));
    case "subset_of":
      return list(value).every((element) => list(wanted).some((one) => same(element, one)));
    case "matches":
      return new RE2JS(wanted as string, RE2JS.CASE_INSENSITIVE).test((value as string).trim());
    case "starts_with":
      return clean(value as string).indexOf(clean(wanted as string)) === 0;
    case "ends_with":
      return clean(value as string).slice(-clean(wanted as string).length) === clean(wanted as string);
    case "length_gt":
      return size(value) > (wanted as number);
    case "length_lt":
      return size(value) < (wanted as number);
    case "exists":
      return true;
    default:
      return false;
  }
}

type Verdict = "true" | "false" | "violated";

function judgeSpot(spot: Spot, condition: NaiveCondition, siblings: readonly string[]): Verdict {
  const { operator } = condition;
  if (spot.at === "nothing") {
    if (operator === "exists") return "false";
    if (operator === "not_exists") return "true";
    return condition.on_missing === "ignore" ? "false" : "violated";
  }
  if (spot.at === "wrong") return "violated";
  if (!admits(typesOf(spot.schema), spot.value) || !admits(TAKES[operator] ?? [], spot.value)) return "violated";
  if (LOOKS_INSIDE.includes(operator) && Array.isArray(spot.value)) {
    const inside = spot.schema.items === undefined ? ALL : typesOf(spot.schema.items);
    if (spot.value.some((element) => !admits(inside, element))) return "violated";
  }
  if (condition.currency !== undefined) {
    const told = siblings
      .map((sibling) => member(spot.parent, sibling))
      .filter((code) => code !== undefined && code !== null);
    const agrees = (code: Json | undefined) =>
      typeof code === "string" && clean(code) === clean(condition.currency ?? "");
    if (told.length === 0 || !told.every(agrees)) return "violated";
  }
  return compare(operator, spot.value, condition.value ?? null) ? "true" : "false";
}

/** Names beside a path that may tell its currency, if the schema has them. */
function siblingsOf(field: string, schema: NaiveSchema): readonly string[] {
  const steps = split(field);
  while (steps.at(-1) === "[]") steps.pop();
  const name = steps.pop() ?? "";
  let holder = schema;
  for (const step of steps) holder = (step === "[]" ? holder.items : holder.properties?.[step]) ?? {};
  const names = ["currency", "currency_code", `${name}_currency`];
  return names.filter((sibling) => Object.keys(holder.properties ?? {}).includes(sibling));
}

function conditionHolds(condition: NaiveCondition, schema: NaiveSchema, args: Json, isAllow: boolean): boolean {
  const root = isObject(args) ? args : {};
  const spots = follow(split(condition.field), root, { ...schema, type: "object" }, root);
  const verdicts = spots.map((spot) => judgeSpot(spot, condition, siblingsOf(condition.field, schema)));
  if (isAllow) return verdicts.includes("true") && !verdicts.includes("violated");
  return verdicts.includes("true") || verdicts.includes("violated");
}

/** Tells if an `argument` rule fires. */
export function naiveArgumentFires(
  conditions: readonly NaiveCondition[],
  joint: string,
  decision: string,
  schema: NaiveSchema,
  args: Json,
): boolean {
  const held = conditions.map((condition) => conditionHolds(condition, schema, args, decision === "allow"));
  return joint === "OR" ? held.some(Boolean) : held.every(Boolean);
}

function text(value: Json): string {
  return typeof value === "string" ? value : JSON.stringify(value);
}

/** Compares the value itself if the operator takes its type and both types are alike, else its text. */
function compareUntyped(operator: string, value: Json, wanted: Json, isAllow: boolean): boolean {
  const asText = (one: Json): Json => (Array.isArray(one) ? one.map(text) : text(one));
  if (operator.startsWith("length")) return compare(operator, Array.isArray(value) ? value : text(value), wanted);
  if (LOOKS_INSIDE.includes(operator)) {
    const alone = operator === "subset_of" ? [text(value)] : text(value);
    return compare(operator, Array.isArray(value) ? asText(value) : alone, asText(wanted));
  }
  if (["==", "!=", "in", "not_in"].includes(operator)) return equalUntyped(operator, value, wanted, isAllow);
  const isOrder = TAKES[operator]?.join() === "number";
  if (!isOrder) return compare(operator, text(value), asText(wanted));
  const isNumeric = [wanted].flat().every((one) => typeof one === "number");
  if (isNumeric && typeof value === "number") return compare(operator, value, wanted);
  const ends = [wanted].flat().map((one) => clean(text(one)));
  const byText = compare(operator, clean(text(value)), Array.isArray(wanted) ? ends : (ends[0] ?? null));
  if (!isNumeric) return byText;
  const number = numberOf(value);
  if (number === undefined) return !isAllow;
  const byNumber = compare(operator, number, wanted);
  return isAllow ? byNumber && byText : byNumber || byText;
}

/** The number that a text says, in any usual notation. */
function numberOf(value: Json): number | undefined {
  const said = clean(text(value));
  const isNumber = said !== "" && !/[^0-9.e+-]/.test(said) && Number.isFinite(Number(said));
  return isNumber ? Number(said) : undefined;
}

/** Equality also counts numbers that are written differently, unless that would let an action pass. */
function equalUntyped(operator: string, value: Json, wanted: Json, isAllow: boolean): boolean {
  const byText = [wanted].flat().some((one) => same(text(value), text(one)));
  const number = typeof value === "string" ? numberOf(value) : undefined;
  const byNumber = [wanted].flat().some((one) => typeof one === "number" && one === number);
  const isPositive = operator === "==" || operator === "in";
  if (isPositive) return isAllow ? byText : byText || byNumber;
  return isAllow ? !byText && !byNumber : !byText;
}

function metadataHolds(condition: NaiveCondition, args: Json, metadata: Json, isAllow: boolean): boolean {
  const steps = split(condition.field);
  const own = isObject(args) ? member(args, steps[0] ?? "") : undefined;
  const root = own === undefined || own === null ? metadata : args;
  const anything: NaiveSchema = { type: ALL.filter((type) => type !== "null") };
  const spots = follow(steps, isObject(root) ? root : {}, anything, {});
  return spots.some((spot) => {
    if (spot.at === "value" && spot.value !== null) {
      return compareUntyped(condition.operator, spot.value, condition.value ?? null, isAllow);
    }
    if (condition.operator === "not_exists") return true;
    if (condition.operator === "exists") return false;
    if (condition.on_missing === "violate") return !isAllow;
    return ["!=", "not_in"].includes(condition.operator) && condition.on_missing !== "ignore";
  });
}

/** Tells if a `metadata` rule fires. */
export function naiveMetadataFires(
  conditions: readonly NaiveCondition[],
  joint: string,
  decision: string,
  args: Json,
  metadata: Json,
): boolean {
  const held = conditions.map((condition) => metadataHolds(condition, args, metadata, decision === "allow"));
  return joint === "OR" ? held.some(Boolean) : held.every(Boolean);
}
