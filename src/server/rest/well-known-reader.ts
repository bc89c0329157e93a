import { create, type DescMessage, fromJson, type JsonValue, type Registry } from "@bufbuild/protobuf";
import { anyPack, ListValueSchema, StructSchema, ValueSchema } from "@bufbuild/protobuf/wkt";
import {
  type DecodeContext,
  isJsonObject,
  type JsonReader,
  readString,
  refuse,
  refuseType,
  scalarReader,
} from "./scalar-reader.ts";
import { durationFromText, type SecondsAndNanos, timestampFromText } from "./time-text.ts";
import { hasOwnJsonForm, wrappedField } from "./well-known.ts";

/** What a reader of well-known types needs of its decoder. */
export interface WellKnownContext {
  readonly registry: Registry | undefined;
  messageReader(desc: DescMessage): JsonReader;
}

const FREE_FORM = [StructSchema, ValueSchema, ListValueSchema];
// The depth of the text is limited before it is parsed, so the library's own limit has nothing to add.
const NO_LIMIT = { recursionLimit: Number.MAX_SAFE_INTEGER };

/** The reader of a well-known type that has its own JSON form; `undefined` for every other type. */
export function wellKnownReader(desc: DescMessage, context: WellKnownContext): JsonReader | undefined {
  const freeForm = FREE_FORM.find((schema) => schema.typeName === desc.typeName);
  if (freeForm !== undefined) return (json, at, key) => fromJson(freeForm, freeJson(json, at, key, desc), NO_LIMIT);
  switch (desc.typeName) {
    case "google.protobuf.Timestamp":
      return textReader(desc, timestampFromText, "an RFC 3339 time such as `2026-01-31T12:00:00Z`");
    case "google.protobuf.Duration":
      return textReader(desc, durationFromText, "a duration in seconds such as `1.5s`");
    case "google.protobuf.FieldMask":
      return fieldMaskReader(desc);
    case "google.protobuf.Any":
      return anyReader(context);
    default:
      return wrapperReader(desc);
  }
}

function freeJson(json: unknown, context: DecodeContext, key: string | number, desc: DescMessage): JsonValue {
  if (desc.typeName === StructSchema.typeName && !isJsonObject(json))
    return refuseType(json, context, key, "an object");
  if (desc.typeName === ListValueSchema.typeName && !Array.isArray(json)) {
    return refuseType(json, context, key, "an array");
  }
  return readFreeJson(json, context, key);
}

/** Reads a JSON object as it is, as the fields of type `google.protobuf.Struct` hold it. */
export const readFreeObject: JsonReader = (json, context, key) =>
  isJsonObject(json) ? readFreeJson(json, context, key) : refuseType(json, context, key, "an object");

/** Checks a JSON value of any shape (strings, numbers, members counted) and returns it unchanged. */
export function readFreeJson(json: unknown, context: DecodeContext, key: string | number): JsonValue {
  if (typeof json === "string") return readString(json, context, key);
  if (typeof json === "number" && !Number.isFinite(json)) refuse(context, key, "is too large for a 64-bit float");
  if (typeof json !== "object" || json === null) return json as JsonValue;
  context.path.push(key);
  if (Array.isArray(json)) {
    for (let index = 0; index < json.length; index++) readFreeJson(json[index], context, index);
  } else readFreeMembers(json as Record<string, unknown>, context);
  context.path.pop();
  return json as JsonValue;
}

function readFreeMembers(json: Readonly<Record<string, unknown>>, context: DecodeContext): void {
  const keys = Object.keys(json);
  context.members += keys.length;
  for (const key of keys) {
    if (context.mayHoldLoneSurrogate) readString(key, context, key);
    readFreeJson(json[key], context, key);
  }
}

function textReader(desc: DescMessage, parse: (text: string) => SecondsAndNanos | undefined, form: string): JsonReader {
  return (json, context, key) => {
    if (typeof json !== "string") return refuseType(json, context, key, form);
    const value = parse(json) ?? refuse(context, key, `must be ${form}`);
    return create(desc, { ...value });
  };
}

const MASK_PATH = /^[a-z_][a-z0-9_]*(?:\.[a-z_][a-z0-9_]*)*$/;

function fieldMaskReader(desc: DescMessage): JsonReader {
  return (json, context, key) => {
    if (typeof json !== "string") return refuseType(json, context, key, "field paths separated by commas");
    const paths = json === "" ? [] : json.split(",");
    if (!paths.every((path) => MASK_PATH.test(path)))
      refuse(context, key, "must be snake_case field paths separated by commas");
    return create(desc, { paths });
  };
}

function wrapperReader(desc: DescMessage): JsonReader | undefined {
  const field = wrappedField(desc);
  if (field === undefined) return undefined;
  const read = scalarReader(field.scalar, field.longAsString);
  return (json, context, key) => create(desc, { [field.localName]: read(json, context, key) });
}

function anyReader({ registry, messageReader }: WellKnownContext): JsonReader {
  return (json, context, key) => {
    if (!isJsonObject(json)) return refuseType(json, context, key, "an object");
    const { "@type": type, ...members } = json;
    if (type === undefined && Object.keys(members).length > 0) refuse(context, key, "must have `@type`");
    const desc = typeof type === "string" ? registry?.getMessage(type.slice(type.lastIndexOf("/") + 1)) : undefined;
    if (desc === undefined) return refuse(context, key, "must have a known `@type`");
    context.members += 1;
    const message = hasOwnJsonForm(desc)
      ? readPackedValue(messageReader(desc), members, context, key)
      : messageReader(desc)(members, context, key);
    return anyPack(desc, message as ReturnType<typeof create>);
  };
}

function readPackedValue(
  read: JsonReader,
  { value, ...others }: Readonly<Record<string, unknown>>,
  context: DecodeContext,
  key: string | number,
): unknown {
  const [unknown] = Object.keys(others);
  if (unknown !== undefined) refuse(context, key, "must have `@type` and `value` alone");
  context.members += 1;
  context.path.push(key);
  const message = read(value, context, "value");
  context.path.pop();
  return message;
}
