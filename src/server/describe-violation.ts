import type { DescEnum, DescField, DescMessage, Message } from "@bufbuild/protobuf";
import {
  isReflectList,
  isReflectMap,
  isReflectMessage,
  type Path,
  type ReflectMessage,
  reflect,
} from "@bufbuild/protobuf/reflect";
import type { Violation } from "@bufbuild/protovalidate";
import { enumWordsFromDesc } from "./rest/enum-words.ts";

/**
 * Describes a violation of a rule as the continuation of the field's name: "is required", "must be one of `a`, `b`". A field that
 * must not be absent or empty but is, `is required` under every rule.
 */
export function describeViolation(
  { field, message, ruleId }: Violation,
  schema: DescMessage,
  request: Message,
): string {
  const choices = choicesOf(field, message);
  const isItem = field.at(-1)?.kind === "list_sub";
  if (!isItem && isMissing(ruleId, valueAt(field, reflect(schema, request)))) return required(ruleId, message, choices);
  if (choices !== undefined) return `must be ${choices}`;
  if (ruleId === "message.oneof") return `must have exactly ${oneOf(fieldsIn(message))}`;
  if (ruleId === "string.pattern") return patternText(message);
  if (ruleId === "string.min_len") return minLengthText(message);
  if (ruleId === "repeated.unique") return "must not hold the same item twice";
  return plain(message);
}

/** Rules that an empty value breaks. A violation of one of them by an empty value means that the field is missing. */
const NEEDS_VALUE = /^(required|enum\.(not_in|in)|string\.(min_len|pattern|uuid.*|in)|repeated\.min_items)$/;

function isMissing(ruleId: string, value: unknown): boolean {
  if (!NEEDS_VALUE.test(ruleId)) return false;
  return value === undefined || value === "" || value === 0;
}

function required(ruleId: string, message: string, choices: string | undefined): string {
  if (choices !== undefined) return `is required: ${choices}`;
  const [count] = ruleId === "repeated.min_items" ? (/\d+/.exec(message) ?? []) : [];
  return count === undefined ? "is required" : `is required: at least ${count} ${count === "1" ? "item" : "items"}`;
}

/** Returns "one of …" for an enum, in the words of JSON, and for a text with a list of values. */
function choicesOf(path: Path, message: string): string | undefined {
  const desc = enumAt(path);
  if (desc !== undefined) {
    const { words, wordByNumber } = enumWordsFromDesc(desc);
    const [, refused = ""] = /^must not be in list \[(.*)\]$/.exec(message) ?? [];
    const excluded = refused.split(", ").map((number) => wordByNumber.get(Number(number)));
    return oneOf(words.filter((word) => !excluded.includes(word)));
  }
  const [, list] = /^must be in list \[(.*)\]$/.exec(message) ?? [];
  return list === undefined ? undefined : oneOf(list.split(", "));
}

/** Returns the fields listed in a message about a group: "one of a, b must be set", "only one of a, b can be set". */
function fieldsIn(message: string): readonly string[] {
  const [, list = ""] = /one of (.*) (?:must|can) be set$/.exec(message) ?? [];
  return list.split(", ");
}

const oneOf = (words: readonly string[]): string => `one of ${words.map((word) => `\`${word}\``).join(", ")}`;

function enumAt(path: Path): DescEnum | undefined {
  const field = path.findLast((step): step is DescField => step.kind === "field");
  return field?.enum;
}

function patternText(message: string): string {
  const [, pattern] = /`(.*)`/s.exec(message) ?? [];
  return pattern === "^[^\\x00]*$" ? "must not hold the character U+0000" : `must match \`${pattern}\``;
}

function minLengthText(message: string): string {
  const [count] = /\d+/.exec(message) ?? [];
  return `must have at least ${count} characters`;
}

const PLAIN: readonly (readonly [RegExp, string])[] = [
  [/^value is /, "is "],
  [/greater than or equal to (\S+) and less than or equal to /, "from $1 to "],
  [/greater than or equal to /, "at least "],
  [/less than or equal to /, "at most "],
  [/^must contain no more than (\d+) item\(s\)/, "must hold at most $1 items"],
  [/^must contain at least (\d+) item\(s\)/, "must hold at least $1 items"],
  [/^must be (at most \d+ (characters|bytes))/, "must have $1"],
];

function plain(message: string): string {
  return PLAIN.reduce((text, [pattern, words]) => text.replace(pattern, words), message);
}

/** Returns the value at a path; undefined if it is absent or empty. */
function valueAt(path: Path, root: ReflectMessage): unknown {
  let value: unknown = root;
  for (const step of path) {
    if (step.kind === "field" && isReflectMessage(value)) value = value.isSet(step) ? value.get(step) : undefined;
    else if (step.kind === "list_sub" && isReflectList(value)) value = value.get(step.index);
    else if (step.kind === "map_sub" && isReflectMap(value)) value = value.get(step.key);
    else return undefined;
  }
  return value;
}
