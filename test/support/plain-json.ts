import {
  type DescEnum,
  type DescField,
  type DescMessage,
  fromJson,
  type JsonObject,
  type JsonValue,
  type Message,
  ScalarType,
  toJson,
} from "@bufbuild/protobuf";

/**
 * The plain JSON form of a message: snake_case names, enum words in lower case, `null` for what is unset, whole numbers as
 * numbers. Written against the interface and not against the service's transcoder, so that each can convict the other.
 */
export type PlainJson = JsonValue;

/** Brackets that a test's request may open; far more than the service takes. */
const DEPTH = 5_000;

const isObject = (value: unknown): value is JsonObject =>
  typeof value === "object" && value !== null && !Array.isArray(value);
const isForeign = (desc: DescMessage): boolean => desc.typeName.startsWith("google.protobuf.");

/** Every word of an enum but that of its zero value: the names in lower case without the prefix. */
export function enumWords(desc: DescEnum): string[] {
  const prefix = desc.sharedPrefix?.length ?? 0;
  return desc.values.filter(({ number }) => number !== 0).map(({ name }) => name.slice(prefix).toLowerCase());
}

function nameOfWord(desc: DescEnum, word: JsonValue): JsonValue {
  if (typeof word !== "string" || !enumWords(desc).includes(word)) return word;
  return `${desc.sharedPrefix ?? ""}${word}`.toUpperCase();
}

function wordOfName(desc: DescEnum, name: JsonValue): JsonValue {
  const value = desc.values.find((each) => each.name === name);
  if (value === undefined) return name;
  return value.number === 0 ? null : value.name.slice(desc.sharedPrefix?.length ?? 0).toLowerCase();
}

type Convert = (field: DescField, value: JsonValue) => JsonValue;

/** Applies `convert` to the value of a field, or to each item of a list. */
function each(field: DescField, value: JsonValue | undefined, convert: Convert): JsonValue {
  if (value === undefined) return null;
  return field.fieldKind === "list" && Array.isArray(value)
    ? value.map((item) => convert(field, item))
    : convert(field, value);
}

const toStandard: Convert = (field, value) => {
  if (field.enum !== undefined) return nameOfWord(field.enum, value);
  return field.message === undefined ? value : standardFrom(field.message, value);
};

function standardFrom(desc: DescMessage, plain: JsonValue): JsonValue {
  if (isForeign(desc) || !isObject(plain)) return plain;
  const fields = new Map(desc.fields.map((field) => [field.name, field]));
  const entries = Object.entries(plain).map(([name, value]): [string, JsonValue] => {
    const field = fields.get(name);
    return [name, field === undefined || value === null ? value : each(field, value, toStandard)];
  });
  return Object.fromEntries(entries);
}

const LONG_TYPES = [ScalarType.INT64, ScalarType.UINT64, ScalarType.FIXED64, ScalarType.SFIXED64, ScalarType.SINT64];

const toPlain: Convert = (field, value) => {
  if (field.enum !== undefined) return wordOfName(field.enum, value);
  if (field.message !== undefined) return plainFromStandard(field.message, value);
  // The standard JSON form writes all 64-bit integers as strings.
  const isLong =
    typeof value === "string" &&
    LONG_TYPES.some((type) => type === field.scalar) &&
    Number.isSafeInteger(Number(value));
  return isLong ? Number(value) : value;
};

function plainFromStandard(desc: DescMessage, json: JsonValue): JsonValue {
  if (isForeign(desc) || !isObject(json)) return json;
  return Object.fromEntries(desc.fields.map((field) => [field.name, each(field, json[field.name], toPlain)]));
}

/** Builds a message from its plain JSON form. Throws for what no message can hold. */
export function messageFromPlain(desc: DescMessage, plain: PlainJson): Message {
  return fromJson(desc, standardFrom(desc, plain), { recursionLimit: DEPTH });
}

/** The plain JSON form of a message. */
export function plainFromMessage(desc: DescMessage, message: Message): PlainJson {
  return plainFromStandard(desc, toJson(desc, message, { useProtoFieldName: true, alwaysEmitImplicit: true }));
}
