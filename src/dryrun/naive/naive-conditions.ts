import { naiveListed } from "./naive-lists.ts";
import { foldNaively, NaivePatterns, trimmed } from "./naive-patterns.ts";

/*
 * A second evaluator of conditions, written from the text of the specification and made to be read, not to be fast. It
 * shares no code with the compiled one.
 */

/** Any JSON value. */
export type Json = null | boolean | number | string | Json[] | { [key: string]: Json };

/** The JSON types that the schema of a tool gives each argument path; a path that is missing may have any. */
export type ArgumentTypes = ReadonlyMap<string, readonly string[]>;

/** A condition as the interface writes it. */
export interface NaiveCondition {
  readonly field: string;
  readonly operator: string;
  readonly value?: Json;
  readonly currency?: string;
  readonly on_missing?: string;
}

/** The end of a path in one call: a value, nothing, or something that cannot have the member. */
type Spot =
  | { readonly at: "value"; readonly value: Json; readonly parent: { [key: string]: Json } }
  | { readonly at: "nothing" }
  | { readonly at: "wrong" };

/** Truth of a comparison, or the fault that kept it from being made. */
export type ConditionVerdict = "true" | "false" | "missing" | "wrong type" | "without currency" | "in another currency";

const ALL = ["string", "number", "integer", "boolean", "array", "object", "null"];

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

/** One step of a path: the path up to it, and the member's name; null stands for every element of an array. */
export interface PathStep {
  readonly upTo: string;
  readonly name: string | null;
}

/** Splits `lines[].amount` into `lines`, `lines[]`, `lines[].amount`. A quoted name, `["a.b"]`, is one step. */
export function splitPath(path: string): readonly PathStep[] {
  const parts = [...path.matchAll(/\[\]|\["(?:[^"\\]|\\.)*"\]|[^.[\]]+/g)];
  return parts.map(({ 0: part, index }) => {
    const end = index + part.length;
    const name = part === "[]" ? null : part.startsWith("[") ? (JSON.parse(part.slice(1, -1)) as string) : part;
    return { upTo: path.slice(0, end), name };
  });
}

function follow(
  [step, ...rest]: readonly PathStep[],
  value: Json | undefined,
  parent: { [key: string]: Json },
  typesHere: readonly string[],
  types: ArgumentTypes,
): Spot[] {
  if (step === undefined) {
    if (value === undefined || (value === null && !typesHere.includes("null"))) return [{ at: "nothing" }];
    return [{ at: "value", value, parent }];
  }
  if (value === undefined || value === null) return [{ at: "nothing" }];
  const { name, upTo } = step;
  const typesThere = types.get(upTo) ?? (rest.length > 0 ? ["object"] : ALL);
  if (name === null && Array.isArray(value)) {
    if (value.length === 0) return [{ at: "nothing" }];
    return value.flatMap((element) => follow(rest, element, parent, typesThere, types));
  }
  if (name !== null && isObject(value)) return follow(rest, member(value, name), value, typesThere, types);
  return [{ at: admits(typesHere, value) ? "nothing" : "wrong" }];
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
  in_list: ["string", "array"],
  not_in_list: ["string", "array"],
};

/** Types without a schema: every value may have any type. */
const UNTYPED: ArgumentTypes = new Map();

/** True for a list or an object, which no operator compares as one value. */
const holdsMany = (value: Json): boolean => typeof value === "object" && value !== null;

const ON_LISTS = ["in_list", "not_in_list"];
const LOOKS_INSIDE = ["contains", "not_contains", "contains_any", "contains_all", "subset_of", ...ON_LISTS];

function same(left: Json, right: Json): boolean {
  if (typeof left === "string" && typeof right === "string") return foldNaively(left) === foldNaively(right);
  return typeof left !== "object" && left === right;
}

function has(value: Json, wanted: Json): boolean {
  if (Array.isArray(value)) return value.some((element) => same(element, wanted));
  return (
    typeof value === "string" && typeof wanted === "string" && foldNaively(value).indexOf(foldNaively(wanted)) >= 0
  );
}

function size(value: Json): number {
  return Array.isArray(value) ? value.length : Array.from(value as string).length;
}

function list(value: Json | undefined): Json[] {
  return Array.isArray(value) ? value : [];
}

/** Compares a value of a type that the operator takes. */
function compare(operator: string, value: Json, wanted: Json, isAllow: boolean, patterns: NaivePatterns): boolean {
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
      return patterns.isFoundIn(wanted as string, trimmed(value as string), isAllow);
    case "starts_with":
      return foldNaively(value as string).indexOf(foldNaively(wanted as string)) === 0;
    case "ends_with":
      return (
        foldNaively(value as string).slice(-foldNaively(wanted as string).length) === foldNaively(wanted as string)
      );
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

/** Compares a text, or each element of an array, with a named list. One fault spoils all. */
function compareWithList(
  operator: string,
  value: Json,
  name: Json,
  isAllow: boolean,
  patterns: NaivePatterns,
): ConditionVerdict {
  const list = patterns.lists(String(name));
  const members = Array.isArray(value) ? value : [value];
  const found = members.map((member) => (list === undefined ? undefined : naiveListed(list, text(member))));
  if (found.includes(undefined)) return "wrong type";
  const held = found.map((isListed) => isListed === (operator === "in_list"));
  return held.length > 0 && (isAllow ? held.every(Boolean) : held.some(Boolean)) ? "true" : "false";
}

/** Compares the value at the end of a path with a list; undefined for no value, and for an operator on no list. */
function listVerdict(
  spot: Spot,
  { operator, value }: NaiveCondition,
  isAllow: boolean,
  patterns: NaivePatterns,
): ConditionVerdict | undefined {
  if (spot.at !== "value" || spot.value === null || !ON_LISTS.includes(operator)) return undefined;
  return compareWithList(operator, spot.value, value ?? null, isAllow, patterns);
}

function currencyFault(
  parent: { [key: string]: Json },
  currency: string,
  siblings: readonly string[],
): ConditionVerdict | undefined {
  const told = siblings.map((sibling) => member(parent, sibling)).filter((code) => code !== undefined && code !== null);
  if (told.length === 0) return "without currency";
  const agrees = told.every((code) => typeof code === "string" && foldNaively(code) === foldNaively(currency));
  return agrees ? undefined : "in another currency";
}

function judgeSpot(
  spot: Spot,
  condition: NaiveCondition,
  types: ArgumentTypes,
  siblings: readonly string[],
  isAllow: boolean,
  patterns: NaivePatterns,
): ConditionVerdict {
  const { operator, field } = condition;
  if (spot.at === "nothing") {
    if (operator === "exists") return "false";
    if (operator === "not_exists") return "true";
    return condition.on_missing === "ignore" ? "false" : "missing";
  }
  if (spot.at === "wrong") return "wrong type";
  if (!admits(types.get(field) ?? ALL, spot.value) || !admits(TAKES[operator] ?? [], spot.value)) return "wrong type";
  if (LOOKS_INSIDE.includes(operator) && Array.isArray(spot.value)) {
    const inside = types.get(`${field}[]`) ?? ALL;
    if (spot.value.some((element) => holdsMany(element) || !admits(inside, element))) return "wrong type";
  }
  const fault = condition.currency === undefined ? undefined : currencyFault(spot.parent, condition.currency, siblings);
  if (fault === undefined && ON_LISTS.includes(operator))
    return compareWithList(operator, spot.value, condition.value ?? null, isAllow, patterns);
  return fault ?? (compare(operator, spot.value, condition.value ?? null, isAllow, patterns) ? "true" : "false");
}

/** Finds the values at a path, each with the object that it is a member of; undefined where there is no value. */
export function valuesAt(
  field: string,
  args: Json | undefined,
  types: ArgumentTypes,
): readonly { readonly value: Json | undefined; readonly parent: { [key: string]: Json } }[] {
  const root = isObject(args) ? args : {};
  return follow(splitPath(field), root, root, ["object"], types).map((spot) =>
    spot.at === "value" ? spot : { value: undefined, parent: {} },
  );
}

/** Lists the arguments beside an argument that may hold its currency, if the schema has them. */
export function currencySiblings(field: string, types: ArgumentTypes): readonly string[] {
  const steps = splitPath(field);
  const last = steps.findLastIndex(({ name }) => name !== null);
  const name = steps[last]?.name ?? "";
  const parent = steps[last - 1]?.upTo ?? "";
  const names = [...new Set(["currency", "currency_code", `${name}_currency`])];
  const plain = parent === "" ? "" : `${parent}.`;
  return names.filter((each) => types.has(`${plain}${each}`) || types.has(`${parent}[${JSON.stringify(each)}]`));
}

/** Judges one condition on the arguments of a call. A fault of any element of an array comes before a true comparison. */
export function judgeArgument(
  condition: NaiveCondition,
  types: ArgumentTypes,
  decision: string,
  args: Json | undefined,
  patterns: NaivePatterns,
): ConditionVerdict {
  const isAllow = decision === "allow";
  const root = isObject(args) ? args : {};
  const siblings = condition.currency === undefined ? [] : currencySiblings(condition.field, types);
  const spots = follow(splitPath(condition.field), root, root, ["object"], types);
  const verdicts = spots.map((spot) => judgeSpot(spot, condition, types, siblings, isAllow, patterns));
  const fault = verdicts.find((verdict) => verdict !== "true" && verdict !== "false");
  return fault ?? (verdicts.includes("true") ? "true" : "false");
}

/** Tests whether a verdict makes its condition hold: a fault does unless the rule allows. */
export function isHeld(verdict: ConditionVerdict, decision: string): boolean {
  return verdict === "true" || (verdict !== "false" && decision !== "allow");
}

const joined = (held: readonly boolean[], joint: string): boolean =>
  joint === "OR" ? held.some(Boolean) : held.every(Boolean);

/** Tests whether an `argument` rule fires. */
export function naiveArgumentFires(
  conditions: readonly NaiveCondition[],
  joint: string,
  decision: string,
  types: ArgumentTypes,
  args: Json | undefined,
  patterns = new NaivePatterns(),
): boolean {
  const held = conditions.map((condition) =>
    isHeld(judgeArgument(condition, types, decision, args, patterns), decision),
  );
  return joined(held, joint);
}

function text(value: Json): string {
  return typeof value === "string" ? value : JSON.stringify(value);
}

/** Compares a value without a schema: itself if the operator takes its type and both types are alike, else its text. */
function compareUntyped(
  operator: string,
  value: Json,
  wanted: Json,
  isAllow: boolean,
  patterns: NaivePatterns,
): boolean {
  const test = (left: Json, right: Json): boolean => compare(operator, left, right, isAllow, patterns);
  const asText = (one: Json): Json => (Array.isArray(one) ? one.map(text) : text(one));
  if (operator.startsWith("length")) return test(Array.isArray(value) ? value : text(value), wanted);
  if (LOOKS_INSIDE.includes(operator)) {
    const alone = operator === "subset_of" ? [text(value)] : text(value);
    return test(Array.isArray(value) ? asText(value) : alone, asText(wanted));
  }
  if (["==", "!=", "in", "not_in"].includes(operator)) return equalUntyped(operator, value, wanted, isAllow);
  const isOrder = TAKES[operator]?.join() === "number";
  if (!isOrder) return test(text(value), asText(wanted));
  const isNumeric = [wanted].flat().every((one) => typeof one === "number");
  if (isNumeric && typeof value === "number") return test(value, wanted);
  const ends = [wanted].flat().map((one) => foldNaively(text(one)));
  const byText = test(foldNaively(text(value)), Array.isArray(wanted) ? ends : (ends[0] ?? null));
  if (!isNumeric) return byText;
  const number = numberOf(value);
  if (number === undefined) return !isAllow;
  const byNumber = test(number, wanted);
  return isAllow ? byNumber && byText : byNumber || byText;
}

/** Reads the number in a text, in any usual notation of ASCII digits. */
function numberOf(value: Json): number | undefined {
  const said = text(value).trim();
  const isNumber = said !== "" && !/[^0-9.eE+-]/.test(said) && Number.isFinite(Number(said));
  return isNumber ? Number(said) : undefined;
}

/** Equality also counts numbers that are written differently, unless that would let an action pass. */
function equalUntyped(operator: string, value: Json, wanted: Json, isAllow: boolean): boolean {
  const byText = [wanted].flat().some((one) => same(text(value), text(one)));
  const number = typeof value === "string" ? numberOf(foldNaively(value)) : undefined;
  const byNumber = [wanted].flat().some((one) => typeof one === "number" && one === number);
  const isPositive = operator === "==" || operator === "in";
  if (isPositive) return isAllow ? byText : byText || byNumber;
  return isAllow ? !byText && !byNumber : !byText;
}

/** Tests whether a value is a list or an object where the operator takes single values, or has such an element. */
function isWrongUntyped(operator: string, value: Json): boolean {
  if (Array.isArray(value) && LOOKS_INSIDE.includes(operator)) return value.some(holdsMany);
  return holdsMany(value) && !admits(TAKES[operator] ?? [], value);
}

/**
 * Tests whether one condition without a schema holds, in the arguments or else in the metadata. Of two places that have the value, a
 * rule that restricts needs one, a rule that allows both.
 */
export function metadataHolds(
  condition: NaiveCondition,
  decision: string,
  args: Json | undefined,
  metadata: Json | undefined,
  patterns: NaivePatterns,
): boolean {
  const isAllow = decision === "allow";
  const steps = splitPath(condition.field);
  const places = [args, metadata].filter((place) => {
    const own = isObject(place) ? member(place, steps[0]?.name ?? "") : undefined;
    return own !== undefined && own !== null;
  });
  const results = (places.length === 0 ? [metadata] : places).map((place) => {
    const spots = follow(steps, isObject(place) ? place : {}, {}, ["object"], UNTYPED);
    if (spots.some((spot) => spot.at === "value" && isWrongUntyped(condition.operator, spot.value))) return !isAllow;
    const byList = spots.map((spot) => listVerdict(spot, condition, isAllow, patterns));
    if (byList.includes("wrong type")) return !isAllow;
    return spots.some((spot, index) => {
      if (spot.at === "value" && spot.value !== null) {
        if (ON_LISTS.includes(condition.operator)) return byList[index] === "true";
        return compareUntyped(condition.operator, spot.value, condition.value ?? null, isAllow, patterns);
      }
      if (condition.operator === "not_exists") return true;
      if (condition.operator === "exists") return false;
      if (condition.on_missing === "violate") return !isAllow;
      return ["!=", "not_in"].includes(condition.operator) && condition.on_missing !== "ignore";
    });
  });
  return isAllow ? results.every((holds) => holds) : results.some((holds) => holds);
}

/** Tests whether a `metadata` rule fires. */
export function naiveMetadataFires(
  conditions: readonly NaiveCondition[],
  joint: string,
  decision: string,
  args: Json | undefined,
  metadata: Json | undefined,
  patterns = new NaivePatterns(),
): boolean {
  return joined(
    conditions.map((condition) => metadataHolds(condition, decision, args, metadata, patterns)),
    joint,
  );
}
