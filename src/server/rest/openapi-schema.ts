import { type DescEnum, type DescField, type DescMessage, ScalarType } from "@bufbuild/protobuf";
import { FeatureSet_FieldPresence } from "@bufbuild/protobuf/wkt";
import type { CommentReader } from "./comments.ts";
import { enumWordsFromDesc } from "./enum-words.ts";
import { isRequired, type JsonSchema, keywordsFromRules } from "./openapi-rules.ts";
import { is64Bit, wrappedField } from "./well-known.ts";

/** Which way a message travels: requests may leave fields out, responses hold every field, `null` when unset. */
export type Direction = "request" | "response";

/** Collects the schemas of messages under `components/schemas`. */
export interface SchemaCollector {
  /** A reference to a message's schema, which is added with all that it needs. */
  messageSchema(desc: DescMessage, direction: Direction): JsonSchema;
  /** The schema of one field's value, its comment included. */
  fieldSchema(field: DescField, direction: Direction): JsonSchema;
  /** An inline object schema of the given fields of a request. */
  objectSchema(fields: readonly DescField[], direction: Direction): JsonSchema;
  readonly schemas: Readonly<Record<string, JsonSchema>>;
}

const SECONDS = { type: "string", pattern: "^-?[0-9]+(\\.[0-9]{1,9})?s$", examples: ["1.5s"] };
const WELL_KNOWN: Readonly<Record<string, JsonSchema>> = {
  "google.protobuf.Timestamp": { type: "string", format: "date-time" },
  "google.protobuf.Duration": SECONDS,
  "google.protobuf.FieldMask": { type: "string", description: "Field paths separated by commas." },
  "google.protobuf.Struct": { type: "object", additionalProperties: true },
  "google.protobuf.Value": {},
  "google.protobuf.ListValue": { type: "array", items: {} },
  "google.protobuf.Any": { type: "object", properties: { "@type": { type: "string" } }, additionalProperties: true },
};
const SCALARS: ReadonlyMap<ScalarType, JsonSchema> = new Map<ScalarType, JsonSchema>([
  [ScalarType.STRING, { type: "string" }],
  [ScalarType.BYTES, { type: "string", contentEncoding: "base64" }],
  [ScalarType.BOOL, { type: "boolean" }],
  [ScalarType.DOUBLE, { type: "number", format: "double" }],
  [ScalarType.FLOAT, { type: "number", format: "float" }],
]);
const INT64: JsonSchema = { type: ["integer", "string"], format: "int64", description: "A string beyond 2^53-1." };
const INT32: JsonSchema = { type: "integer", format: "int32" };
const UINT32: JsonSchema = { type: "integer", minimum: 0, maximum: 2 ** 32 - 1 };

/** Creates an empty collector. */
export function createSchemaCollector(comments: CommentReader): SchemaCollector {
  const schemas: Record<string, JsonSchema> = {};

  function messageSchema(desc: DescMessage, direction: Direction): JsonSchema {
    const plain = WELL_KNOWN[desc.typeName] ?? wrapperSchema(desc);
    if (plain !== undefined) return plain;
    const name = direction === "request" ? `${desc.typeName}-request` : desc.typeName;
    if (schemas[name] === undefined) {
      // Held by name before its fields are looked at, so that a recursive type finds itself.
      schemas[name] = {};
      Object.assign(schemas[name], described(comments.commentOf(desc)), objectSchema(desc.fields, direction));
    }
    return { $ref: `#/components/schemas/${name}` };
  }

  function objectSchema(fields: readonly DescField[], direction: Direction): JsonSchema {
    const properties = Object.fromEntries(fields.map((field) => [field.name, fieldSchema(field, direction)]));
    const required = fields.filter((field) => direction === "response" || isRequired(field)).map(({ name }) => name);
    const closed = direction === "request" ? { additionalProperties: false } : {};
    return { type: "object", properties, ...(required.length > 0 ? { required } : {}), ...closed };
  }

  function fieldSchema(field: DescField, direction: Direction): JsonSchema {
    const rules = direction === "request" ? keywordsFromRules(field) : {};
    const schema = containerSchema(field, valueSchema(field, direction), rules);
    const nullable = direction === "response" && canBeNull(field) ? nullOr(schema) : schema;
    return { ...nullable, ...described(comments.commentOf(field)), ...(field.deprecated ? { deprecated: true } : {}) };
  }

  function valueSchema(field: DescField, direction: Direction): JsonSchema {
    if (field.enum) return enumSchema(field.enum);
    if (field.scalar !== undefined) return scalarSchema(field.scalar);
    return messageSchema(field.message as DescMessage, direction);
  }

  return { messageSchema, fieldSchema, objectSchema, schemas };
}

function containerSchema(field: DescField, value: JsonSchema, rules: JsonSchema): JsonSchema {
  if (field.fieldKind === "map") return { type: "object", additionalProperties: value, ...rules };
  if (field.fieldKind !== "list") return { ...value, ...rules };
  const { items, ...others } = rules;
  return { type: "array", items: { ...value, ...(items as JsonSchema | undefined) }, ...others };
}

function canBeNull(field: DescField): boolean {
  if (field.fieldKind === "list" || field.fieldKind === "map") return false;
  if (field.presence !== FeatureSet_FieldPresence.IMPLICIT) return true;
  return field.fieldKind === "enum" && enumWordsFromDesc(field.enum).wordByNumber.get(0) === null;
}

function nullOr(schema: JsonSchema): JsonSchema {
  const { type } = schema;
  if (type === undefined || schema.enum !== undefined) return { anyOf: [schema, { type: "null" }] };
  return { ...schema, type: [type, "null"].flat() };
}

function described(text: string): JsonSchema {
  return text === "" ? {} : { description: text };
}

function enumSchema(desc: DescEnum): JsonSchema {
  const { words } = enumWordsFromDesc(desc);
  return words.length === 0 ? { type: "null" } : { type: "string", enum: words };
}

function wrapperSchema(desc: DescMessage): JsonSchema | undefined {
  const field = wrappedField(desc);
  return field && scalarSchema(field.scalar);
}

function scalarSchema(scalar: ScalarType): JsonSchema {
  if (is64Bit(scalar)) return INT64;
  const isUnsigned = scalar === ScalarType.UINT32 || scalar === ScalarType.FIXED32;
  return SCALARS.get(scalar) ?? (isUnsigned ? UINT32 : INT32);
}
