import type { Json, NaiveCondition } from "./naive/naive-conditions.ts";
import type { NaivePatterns } from "./naive/naive-patterns.ts";
import { disguisesOf, nearMisses, sampleText } from "./sample-text.ts";

/** A value to try in a condition. */
export interface TriedValue {
  /** End of a name: `just above 500`. */
  readonly label: string;
  /** Undefined removes the argument. */
  readonly value: Json | undefined;
}

/** Known facts of the argument of a condition. */
export interface ArgumentFacts {
  /** Empty without a schema. */
  readonly types: readonly string[];
  /** Types of the elements; undefined if the schema leaves them open. */
  readonly elementTypes: readonly string[] | undefined;
  readonly enum: readonly Json[];
}

/** Maximum number of elements of a list, members of an enum and so on that are tried one by one. */
const MAX_MEMBERS = 24;
/** Maximum characters or elements of a value. */
const MAX_LENGTH = 2_000;
/** Maximum characters of a value that a name shows. */
const MAX_SHOWN = 40;

/** Writes a value for a name. */
export function shown(value: Json | undefined): string {
  const text = value === undefined ? "missing" : JSON.stringify(value);
  return text.length > MAX_SHOWN ? `${text.slice(0, MAX_SHOWN)}…`.toWellFormed() : text;
}

const listOf = (value: Json | undefined): readonly Json[] =>
  Array.isArray(value) ? value : value === undefined ? [] : [value];
const tried = (label: string, value: Json): TriedValue => ({ label: `${label} (${shown(value)})`, value });

/** Returns the smallest step beside a number that is worth a test. */
function stepOf(number: number, types: readonly string[]): number {
  if (types.includes("integer") && !types.includes("number")) return 1;
  return Math.abs(number) < 1e9 ? 0.01 : Math.abs(number) * 1e-6;
}

/** Adds without the noise of binary fractions: 0.1 + 0.01 is 0.11. */
const plus = (number: number, step: number): number => Number((number + step).toPrecision(15));

function aroundNumber(number: number, types: readonly string[], name = `${number}`): TriedValue[] {
  const step = stepOf(number, types);
  return [
    tried(`just below ${name}`, plus(number, -step)),
    tried(`at ${name}`, number),
    tried(`just above ${name}`, plus(number, step)),
  ];
}

/** Lists texts close to a text: equal in another spelling, longer, shorter, and another one. */
function aroundText(text: string): TriedValue[] {
  const other = text === text.toUpperCase() ? text.toLowerCase() : text.toUpperCase();
  return [
    tried("equal", text),
    tried("in another case and with blanks", `  ${other} `),
    ...disguisesOf(text).map(([name, disguised]) => tried(name, disguised)),
    tried("with more at its end", `${text}x`),
    tried("with more before it", `x${text}`),
    tried("without its last character", [...text.trim()].slice(0, -1).join("")),
    tried("without its first character", [...text.trim()].slice(1).join("")),
    tried("another text", text.trim() === "other" ? "another" : "other"),
  ];
}

function aroundScalar(value: Json, types: readonly string[]): TriedValue[] {
  if (typeof value === "number") return aroundNumber(value, types);
  if (typeof value === "boolean") return [tried("equal", value), tried("the opposite", !value)];
  return aroundText(String(value));
}

/** Lists one value for each member, the first in other spellings too, and values outside. */
function ofMembers({ value }: NaiveCondition, { types, enum: allowed }: ArgumentFacts): TriedValue[] {
  const members = listOf(value).slice(0, MAX_MEMBERS);
  const [first = ""] = members;
  const others = allowed.filter((one) => !members.some((member) => member === one)).slice(0, MAX_MEMBERS);
  return [
    ...members.map((member) => tried("a member", member)),
    ...others.map((other) => tried("outside of the list", other)),
    ...aroundScalar(first, types),
    ...members
      .slice(1)
      .filter((member) => typeof member === "string")
      .map((member) => tried("outside", `${member}x`)),
  ];
}

/** Returns lists of the wanted elements: all, each alone, all but each, with another one; and the same as text. */
function ofParts({ value }: NaiveCondition, { types, elementTypes = [] }: ArgumentFacts): TriedValue[] {
  const wanted = listOf(value).slice(0, MAX_MEMBERS);
  const [first = ""] = wanted;
  const outside: Json =
    elementTypes.length > 0 && !elementTypes.includes("string")
      ? elementTypes.includes("boolean")
        ? !first
        : plus(Math.max(0, ...wanted.filter((each) => typeof each === "number")), 1)
      : "other";
  const spelled = wanted.map((each) => (typeof each === "string" ? ` ${each.toUpperCase()} ` : each));
  const lists = [
    tried("all of them", [...wanted]),
    tried("all of them and another", [...wanted, outside]),
    tried("all of them in another spelling", spelled),
    tried("another one alone", [outside]),
    ...wanted.flatMap((each, index) => [
      tried("one of them", [each]),
      tried("one of them and another", [each, outside]),
      tried("all but one", wanted.toSpliced(index, 1)),
    ]),
    tried("no elements", []),
    tried("an element of another type", [...wanted, { odd: true }]),
  ];
  const words = wanted.filter((each) => typeof each === "string");
  const texts = [
    tried("a text with all of them", `a ${words.join(" ")} z`),
    tried("a text with all of them in capitals", words.join(" ").toUpperCase()),
    ...words.map((word) => tried("a text with one of them", `a ${word} z`)),
    ...words.map((_, index) => tried("a text with all but one", `a ${words.toSpliced(index, 1).join(" ")} z`)),
    ...words.map((word) => tried("a text with one of them but for its end", [...word].slice(0, -1).join(""))),
    ...words.map((word) => tried("a text with one of them but for its beginning", [...word].slice(1).join(""))),
    tried("a text without them", "~"),
  ];
  const takes = (type: string): boolean => types.length === 0 || types.includes(type);
  return [...(takes("array") ? lists : []), ...(takes("string") && words.length > 0 ? texts : [])];
}

function ofLength({ value }: NaiveCondition, { types, elementTypes = ["string"] }: ArgumentFacts): TriedValue[] {
  const bound = Number(value);
  const lengths = [bound - 1, bound, bound + 1].filter((length) => length >= 0 && length <= MAX_LENGTH);
  const element: Json = elementTypes.includes("string") ? "x" : elementTypes.includes("boolean") ? true : 1;
  const takes = (type: string): boolean => types.length === 0 || types.includes(type);
  const texts = lengths.flatMap((length) => [
    { label: `a text of ${length} characters`, value: "x".repeat(length) },
    { label: `a text of ${length} characters of two code units`, value: "😀".repeat(length) },
  ]);
  const lists = lengths.map((length) => ({
    label: `${length} elements`,
    value: Array.from({ length }, () => element) as Json,
  }));
  return [...(takes("string") ? texts : []), ...(takes("array") ? lists : [])];
}

function ofPattern({ value }: NaiveCondition, _: ArgumentFacts, patterns: NaivePatterns): TriedValue[] {
  const pattern = String(value);
  const sample = sampleText(pattern, patterns);
  if (sample === undefined)
    return nearMisses(pattern, "", patterns).map((text) => tried("a text that does not match", text));
  return [
    tried("a text that matches", sample),
    tried("a text that matches within", `see ${sample} there`),
    tried("a text that matches, in capitals", sample.toUpperCase()),
    tried("a text that matches, with blanks", `  ${sample} `),
    ...disguisesOf(sample).map(([name, disguised]) => tried(`a text that matches, ${name}`, disguised)),
    ...nearMisses(pattern, sample, patterns).map((text) => tried("a text that does not match", text)),
  ];
}

/** Lists values around the ends of a range and in its middle, which tells it from its ends. */
function ofRange({ value }: NaiveCondition, { types }: ArgumentFacts): TriedValue[] {
  const [low = 0, high = low] = listOf(value);
  if (typeof low !== "number" || typeof high !== "number") return [...aroundText(`${low}`), ...aroundText(`${high}`)];
  const middle = types.includes("integer") ? Math.floor((low + high) / 2) : plus(low, (high - low) / 2);
  return [...aroundNumber(low, types), tried("in between", middle), ...aroundNumber(high, types)];
}

function byOperator(condition: NaiveCondition, facts: ArgumentFacts, patterns: NaivePatterns): TriedValue[] {
  switch (condition.operator) {
    case "between":
    case "not_between":
      return ofRange(condition, facts);
    case "in":
    case "not_in":
      return ofMembers(condition, facts);
    case "contains":
    case "not_contains":
    case "contains_any":
    case "contains_all":
    case "subset_of":
      return ofParts(condition, facts);
    case "length_gt":
    case "length_lt":
      return ofLength(condition, facts);
    case "matches":
      return ofPattern(condition, facts, patterns);
    case "in_list":
    case "not_in_list":
      return ofList(condition, facts, patterns);
    case "exists":
    case "not_exists":
      return [tried("present", presentValue(facts))];
    default:
      return aroundScalar(condition.value ?? "", facts.types);
  }
}

/** Lists values in a named list and outside of it, alone and in lists, as the list's kind reads them. */
function ofList({ value }: NaiveCondition, { types }: ArgumentFacts, patterns: NaivePatterns): TriedValue[] {
  const list = patterns.lists(String(value));
  const values = list?.values.slice(0, MAX_MEMBERS) ?? [];
  const asText = (entry: string): string => {
    const host = entry.replace(/^\*/, "sub");
    return list?.kind === "email_domain" ? `someone@${host}` : host;
  };
  const inside = values.map(asText);
  const [first = "other", second = first] = inside;
  const outside = asText(list?.kind === "text" ? "other text" : "other.invalid");
  const texts = [
    ...inside.map((text) => tried("in the list", text)),
    ...aroundText(first),
    tried("outside of the list", outside),
    tried("nothing that the list compares", "a b@c@d"),
  ];
  const lists = [
    tried("all in the list", [first, second]),
    tried("one in the list and one outside", [first, outside]),
    tried("one outside of the list and one in it", [outside, first]),
    tried("none in the list", [outside]),
    tried("no elements", []),
  ];
  const takes = (type: string): boolean => types.length === 0 || types.includes(type);
  return [...(takes("string") ? texts : []), ...(takes("array") ? lists : [])];
}

function presentValue({ types, enum: [first] }: ArgumentFacts): Json {
  if (first !== undefined) return first;
  if (types.length === 0 || types.includes("string")) return "present";
  if (types.includes("number") || types.includes("integer")) return 1;
  if (types.includes("boolean")) return true;
  return types.includes("array") ? ["present"] : { present: true };
}

/** One value of each JSON type, for the types that an argument does not take. */
const OF_EACH_TYPE: readonly Json[] = ["text", 7, 7.5, true, ["text"], { text: true }];

/** Lists values in another notation: without a schema numbers and texts are read as each other. */
function untypedValues({ value }: NaiveCondition): TriedValue[] {
  const numbers = listOf(value).filter((each) => typeof each === "number");
  const texts = numbers.flatMap((number) =>
    aroundNumber(number, []).map(({ label, value: near }) => tried(`as text, ${label}`, `${near}`)),
  );
  const forms = numbers.map((number) => tried("as text in another notation", `+${number.toExponential()}`));
  const words = numbers.length > 0 ? [tried("a text that is no number", "many")] : [];
  const numerals = listOf(value).filter(
    (each) => typeof each === "string" && each.trim() !== "" && Number.isFinite(Number(each)),
  );
  return [...texts, ...forms, ...words, ...numerals.map((text) => tried("as a number", Number(text)))];
}

/**
 * Lists the values to try in a condition, the most telling first: around each bound, each member and one outside, other
 * spellings, missing, null and every other type.
 */
export function valuesFor(
  condition: NaiveCondition,
  facts: ArgumentFacts,
  patterns: NaivePatterns,
): readonly TriedValue[] {
  const values: TriedValue[] = [
    ...byOperator(condition, facts, patterns),
    { label: "missing", value: undefined },
    { label: "null", value: null },
    ...(facts.types.length === 0 ? untypedValues(condition) : []),
    ...listOf(condition.value)
      .slice(0, 1)
      .flatMap((value) => [tried("in a list", [value]), tried("in an object", { value }), tried("deeper", [[value]])]),
    ...OF_EACH_TYPE.map((value) => tried("of some type", value)),
    tried("an empty text", ""),
  ];
  const seen = new Set<string>();
  return values.filter(({ value }) => {
    const key = value === undefined ? "missing" : JSON.stringify(value);
    const isNew = !seen.has(key);
    seen.add(key);
    return isNew;
  });
}
