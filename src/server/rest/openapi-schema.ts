import {
  type DescEnum,
  type DescField,
  type DescMessage,
  getOption,
  hasOption,
  type Message,
  ScalarType,
} from "@bufbuild/protobuf";
import { FeatureSet_FieldPresence } from "@bufbuild/protobuf/wkt";
import { field as fieldRules, message as messageRules } from "@bufbuild/protovalidate/gen/buf/validate/validate_pb.js";
import { comments } from "../../../gen/agentcontrol/v1/comments.js";
import { enumWordsFromDesc } from "./enum-words.ts";
import { isOutputOnly } from "./request.ts";

/** A JSON Schema object. */
export type JsonSchema = Record<string, unknown>;

/** Direction of a message: a request may omit fields; a response has every field, `null` if unset. */
export type Direction = "request" | "response";

const WELL_KNOWN: Readonly<Record<string, JsonSchema>> = {
  "google.protobuf.Timestamp": { type: "string", format: "date-time" },
  "google.protobuf.Struct": { type: "object", additionalProperties: true },
  "google.protobuf.Value": {},
  "google.protobuf.ListValue": { type: "array" },
};
const SCALARS: ReadonlyMap<ScalarType, JsonSchema> = new Map<ScalarType, JsonSchema>([
  [ScalarType.STRING, { type: "string" }],
  [ScalarType.BYTES, { type: "string", contentEncoding: "base64" }],
  [ScalarType.BOOL, { type: "boolean" }],
  [ScalarType.DOUBLE, { type: "number", format: "double" }],
  [ScalarType.INT32, { type: "integer", format: "int32" }],
  [ScalarType.INT64, { type: ["integer", "string"], format: "int64", description: "A string beyond 2^53-1." }],
]);

/** Collects the schemas of messages and enums for one place of a document, with the comments of the protos as descriptions. */
export class SchemaCollector {
  readonly #schemas: Record<string, JsonSchema> = {};
  readonly #place: string;

  /** `place` is the place of the schemas in the document. Default: the place in OpenAPI. */
  constructor(place = "#/components/schemas") {
    this.#place = place;
  }

  get schemas(): Readonly<Record<string, JsonSchema>> {
    return this.#schemas;
  }

  /** Adds a message's schema with its dependencies, and returns a reference to it. */
  messageSchema(desc: DescMessage, direction: Direction): JsonSchema {
    const known = WELL_KNOWN[desc.typeName];
    if (known !== undefined) return known;
    const name = schemaName(desc, direction);
    if (this.#schemas[name] === undefined) {
      // Registered before its fields are visited, so that a recursive type finds itself.
      const schema: JsonSchema = describe(desc.typeName);
      this.#schemas[name] = schema;
      Object.assign(schema, this.objectSchema(desc.fields, direction), direction === "request" ? choiceOf(desc) : {});
    }
    return { $ref: `${this.#place}/${name}` };
  }

  /** Returns an inline object schema of some fields of a message. */
  objectSchema(fields: readonly DescField[], direction: Direction): JsonSchema {
    const properties = Object.fromEntries(fields.map((field) => [field.name, this.fieldSchema(field, direction)]));
    const needed = fields.filter((field) => direction === "response" || isRequired(field));
    const required = needed.length > 0 ? { required: needed.map(({ name }) => name) } : {};
    const closed = direction === "request" ? { additionalProperties: false } : {};
    return { type: "object", properties, ...required, ...closed };
  }

  /** Returns the schema of a field's value. */
  fieldSchema(field: DescField, direction: Direction): JsonSchema {
    const rules = direction === "request" ? keywordsFromRules(field) : {};
    const schema = this.#withRules(field, direction, rules);
    const nullable = direction === "response" && canBeNull(field) ? nullOr(schema) : schema;
    const readOnly = direction === "response" && isOutputOnly(field) ? { readOnly: true } : {};
    const described = describe(`${field.parent.typeName}.${field.name}`);
    return { ...nullable, ...readOnly, ...described, ...(field.deprecated ? { deprecated: true } : {}) };
  }

  #withRules(field: DescField, direction: Direction, rules: JsonSchema): JsonSchema {
    const value = this.#valueSchema(field, direction);
    if (field.fieldKind !== "list") return { ...value, ...rules };
    const { items, ...others } = rules;
    return { type: "array", items: { ...value, ...(items as JsonSchema | undefined) }, ...others };
  }

  #valueSchema(field: DescField, direction: Direction): JsonSchema {
    if (field.enum !== undefined) return this.#enumSchema(field.enum);
    if (field.message !== undefined) return this.messageSchema(field.message, direction);
    return SCALARS.get(field.scalar as ScalarType) ?? {};
  }

  #enumSchema(desc: DescEnum): JsonSchema {
    this.#schemas[desc.name] ??= enumSchema(desc);
    return { $ref: `${this.#place}/${desc.name}` };
  }
}

/** Returns the keyword for a group of fields of which a request has exactly one. */
function choiceOf(desc: DescMessage): JsonSchema {
  const group = getOption(desc, messageRules).oneof.find(({ required }) => required);
  return group === undefined ? {} : { oneOf: group.fields.map((name) => ({ required: [name] })) };
}

/** Name of a message's schema: the message's name, with `Input` appended for a message inside a request. */
export function schemaName({ name }: DescMessage, direction: Direction): string {
  return direction === "response" || /Request$/.test(name) ? name : `${name}Input`;
}

/** Returns the comment of an element as its description. */
function describe(fullName: string): JsonSchema {
  const description = comments[fullName];
  return description === undefined ? {} : { description };
}

/** True if a response may have `null` for the field. */
export function canBeNull(field: DescField): boolean {
  if (field.fieldKind === "list") return false;
  if (field.presence !== FeatureSet_FieldPresence.IMPLICIT) return true;
  return field.fieldKind === "enum" && enumWordsFromDesc(field.enum).wordByNumber.get(0) === null;
}

function nullOr(schema: JsonSchema): JsonSchema {
  const { type } = schema;
  if (Object.keys(schema).length === 0) return schema;
  if (type === undefined) return { anyOf: [schema, { type: "null" }] };
  return { ...schema, type: [type, "null"].flat() };
}

function enumSchema(desc: DescEnum): JsonSchema {
  const { words, wordByNumber } = enumWordsFromDesc(desc);
  const lines = desc.values.flatMap(({ name, number }) => {
    const word = wordByNumber.get(number);
    return word === null ? [] : [`- \`${word}\`: ${comments[`${desc.typeName}.${name}`] ?? ""}`];
  });
  const description = [comments[desc.typeName] ?? [], lines.join("\n")].flat().join("\n\n");
  return { type: "string", enum: words, description };
}

type Rules = Message & Record<string, unknown>;

/** JSON Schema keywords by `buf.validate` rule. */
const KEYWORDS: Readonly<Record<string, string>> = {
  minLen: "minLength",
  maxLen: "maxLength",
  pattern: "pattern",
  minItems: "minItems",
  maxItems: "maxItems",
  unique: "uniqueItems",
};
const BOUNDS: Readonly<Record<string, string>> = { lte: "maximum", gte: "minimum" };

/** True if a request must have the field, because its `buf.validate` rules refuse the value of an absent field. */
export function isRequired(field: DescField): boolean {
  if (!hasOption(field, fieldRules)) return false;
  const { required, type } = getOption(field, fieldRules);
  if (required || (field.fieldKind === "enum" && type.case === "enum" && type.value.notIn.includes(0))) return true;
  if (field.oneof !== undefined || (field.message !== undefined && field.fieldKind !== "list")) return false;
  const isOptional = field.fieldKind !== "list" && field.presence !== FeatureSet_FieldPresence.IMPLICIT;
  return !isOptional && refusesNothing(keywordsFromRules(field));
}

function refusesNothing(keywords: JsonSchema): boolean {
  const { minLength = 0, minItems = 0, minimum = 0, format, pattern, enum: words } = keywords;
  if (Number(minLength) > 0 || Number(minItems) > 0 || Number(minimum) > 0) return true;
  const isListed = Array.isArray(words) && !words.includes("");
  return isListed || format === "uuid" || (typeof pattern === "string" && !new RegExp(pattern, "u").test(""));
}

/** Converts the `buf.validate` rules of a field to keywords of JSON Schema. */
export function keywordsFromRules(field: DescField): JsonSchema {
  if (!hasOption(field, fieldRules)) return {};
  const { type } = getOption(field, fieldRules);
  return type.case === undefined ? {} : keywordsFrom(type.case, type.value as unknown as Rules);
}

function keywordsFrom(kind: string, rules: Rules): JsonSchema {
  const keywords: JsonSchema = {};
  for (const [rule, keyword] of Object.entries(KEYWORDS)) {
    const value = Object.hasOwn(rules, rule) ? rules[rule] : undefined;
    if (value !== undefined) keywords[keyword] = typeof value === "bigint" ? Number(value) : value;
  }
  if (kind === "string") return { ...keywords, ...textKeywords(rules) };
  if (kind === "repeated") return { ...keywords, ...itemKeywords(rules) };
  return { ...keywords, ...bound(rules.lessThan), ...bound(rules.greaterThan) };
}

function textKeywords(rules: Rules): JsonSchema {
  const { wellKnown, in: words } = rules as unknown as { wellKnown: { case?: string }; in: readonly string[] };
  return { ...(wellKnown.case === "uuid" ? { format: "uuid" } : {}), ...(words.length > 0 ? { enum: words } : {}) };
}

function itemKeywords({ items }: Rules): JsonSchema {
  const type = (items as { type: { case?: string; value?: Rules } } | undefined)?.type;
  return type?.case === undefined || type.value === undefined ? {} : { items: keywordsFrom(type.case, type.value) };
}

function bound(rule: unknown): JsonSchema {
  const { case: name, value } = (rule ?? {}) as { readonly case?: string; readonly value?: number | bigint };
  const keyword = BOUNDS[name ?? ""];
  return keyword === undefined ? {} : { [keyword]: Number(value) };
}
