import { type DescField, getOption, hasOption, type Message } from "@bufbuild/protobuf";
import { field as fieldRules } from "@bufbuild/protovalidate/gen/buf/validate/validate_pb.js";

/** A JSON Schema object. */
export type JsonSchema = Record<string, unknown>;

type Rules = Message & Record<string, unknown>;

const SIZE_KEYWORDS: Readonly<Record<string, string>> = {
  minLen: "minLength",
  maxLen: "maxLength",
  minItems: "minItems",
  maxItems: "maxItems",
  minPairs: "minProperties",
  maxPairs: "maxProperties",
};
const BOUND_KEYWORDS: Readonly<Record<string, string>> = {
  lt: "exclusiveMaximum",
  lte: "maximum",
  gt: "exclusiveMinimum",
  gte: "minimum",
};
const FORMATS: Readonly<Record<string, string>> = {
  uuid: "uuid",
  email: "email",
  hostname: "hostname",
  uri: "uri",
  ipv4: "ipv4",
  ipv6: "ipv6",
};
const NUMBER_RULES = /^(?:double|float|[us]?int(?:32|64)|s?fixed(?:32|64))$/;

/** Whether `buf.validate` demands the field. */
export function isRequired(field: DescField): boolean {
  return hasOption(field, fieldRules) && getOption(field, fieldRules).required;
}

/** The JSON Schema keywords for those `buf.validate` rules of a field that JSON Schema can say. */
export function keywordsFromRules(field: DescField): JsonSchema {
  if (!hasOption(field, fieldRules)) return {};
  const { type } = getOption(field, fieldRules);
  return type.case === undefined ? {} : keywordsFrom(type.case, type.value as unknown as Rules);
}

function keywordsFrom(kind: string, rules: Rules): JsonSchema {
  if (kind === "string") return { ...sizes(rules), ...textKeywords(rules) };
  if (kind === "map") return sizes(rules);
  if (kind === "repeated") return { ...sizes(rules), ...listKeywords(rules) };
  return NUMBER_RULES.test(kind) ? { ...bound(rules.lessThan), ...bound(rules.greaterThan) } : {};
}

function sizes(rules: Rules): JsonSchema {
  const keywords: JsonSchema = {};
  for (const [rule, keyword] of Object.entries(SIZE_KEYWORDS)) {
    if (Object.hasOwn(rules, rule)) keywords[keyword] = Number(rules[rule]);
  }
  return keywords;
}

function textKeywords(rules: Rules): JsonSchema {
  const { wellKnown } = rules as unknown as { wellKnown: { readonly case?: string } };
  const format = FORMATS[wellKnown.case ?? ""];
  const words = rules.in as readonly string[];
  return {
    ...(Object.hasOwn(rules, "pattern") ? { pattern: rules.pattern } : {}),
    ...(format === undefined ? {} : { format }),
    ...(words.length === 0 ? {} : { enum: words }),
  };
}

function listKeywords(rules: Rules): JsonSchema {
  const unique = Object.hasOwn(rules, "unique") && rules.unique === true ? { uniqueItems: true } : {};
  const { items } = rules as unknown as {
    items?: { readonly type: { readonly case?: string; readonly value?: Rules } };
  };
  if (items?.type.case === undefined || items.type.value === undefined) return unique;
  return { ...unique, items: keywordsFrom(items.type.case, items.type.value) };
}

function bound(rule: unknown): JsonSchema {
  const { case: name, value } = rule as { readonly case?: string; readonly value?: number | bigint };
  const keyword = BOUND_KEYWORDS[name ?? ""];
  return keyword === undefined ? {} : { [keyword]: Number(value) };
}
