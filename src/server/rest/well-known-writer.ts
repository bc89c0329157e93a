import type { DescMessage, JsonValue, Registry } from "@bufbuild/protobuf";
import { type Any, anyUnpack, type FieldMask, type ListValue, type Struct, type Value } from "@bufbuild/protobuf/wkt";
import { jsonBytes, jsonString } from "./json-values.ts";
import { type JsonWriter, scalarWriter } from "./scalar-writer.ts";
import { type SecondsAndNanos, textFromDuration, textFromTimestamp } from "./time-text.ts";
import { hasOwnJsonForm, type LocalMessage, wrappedField } from "./well-known.ts";

/** What a writer of well-known types needs of its encoder. */
export interface WellKnownContext {
  readonly registry: Registry | undefined;
  messageWriter(desc: DescMessage): JsonWriter;
}

/** The writer of a well-known type that has its own JSON form; `undefined` for every other type. */
export function wellKnownWriter(desc: DescMessage, context: WellKnownContext): JsonWriter | undefined {
  switch (desc.typeName) {
    case "google.protobuf.Timestamp":
      return (value) => `"${textFromTimestamp(value as SecondsAndNanos)}"`;
    case "google.protobuf.Duration":
      return (value) => `"${textFromDuration(value as SecondsAndNanos)}"`;
    case "google.protobuf.FieldMask":
      return (value) => jsonString((value as FieldMask).paths.join(","));
    case "google.protobuf.Struct":
      return (value) => JSON.stringify(plainStruct(value as Struct));
    case "google.protobuf.Value":
      return (value) => JSON.stringify(plainValue(value as Value));
    case "google.protobuf.ListValue":
      return (value) => JSON.stringify((value as ListValue).values.map(plainValue));
    case "google.protobuf.Any":
      return (value) => anyText(value as Any, context);
    default:
      return wrapperWriter(desc);
  }
}

function wrapperWriter(desc: DescMessage): JsonWriter | undefined {
  const field = wrappedField(desc);
  if (field === undefined) return undefined;
  const write = scalarWriter(field.scalar);
  return (message) => write((message as LocalMessage)[field.localName]);
}

function plainStruct(struct: Struct): JsonValue {
  return Object.fromEntries(Object.entries(struct.fields).map(([key, value]) => [key, plainValue(value)]));
}

function plainValue({ kind }: Value): JsonValue {
  switch (kind.case) {
    case "structValue":
      return plainStruct(kind.value);
    case "listValue":
      return kind.value.values.map(plainValue);
    case "numberValue":
    case "stringValue":
    case "boolValue":
      return kind.value;
    default:
      return null;
  }
}

function anyText(any: Any, { registry, messageWriter }: WellKnownContext): string {
  if (any.typeUrl === "") return "{}";
  const type = `{"@type":${jsonString(any.typeUrl)}`;
  const message = registry && anyUnpack(any, registry);
  const desc = message && registry.getMessage(message.$typeName);
  if (desc === undefined) return `${type},"value":${jsonBytes(any.value)}}`;
  const text = messageWriter(desc)(message);
  if (hasOwnJsonForm(desc)) return `${type},"value":${text}}`;
  return text === "{}" ? `${type}}` : `${type},${text.slice(1)}`;
}
