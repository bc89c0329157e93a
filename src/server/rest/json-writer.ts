import { type DescEnum, type DescField, type DescMessage, type Message, ScalarType, toJson } from "@bufbuild/protobuf";
import {
  type ListValue,
  ListValueSchema,
  type Timestamp,
  TimestampSchema,
  type Value,
  ValueSchema,
} from "@bufbuild/protobuf/wkt";
import { enumWordsFromDesc } from "./enum-words.ts";
import type { LocalMessage } from "./json-reader.ts";

/** Writes a value of a generated message as JSON text. */
export type JsonWriter<T = unknown> = (value: T) => string;

/**
 * Compiles writers of JSON responses, one per message type: snake_case names, lower-case enum words, every field present,
 * `null` if unset. Throws an `Error` for an unsupported field.
 */
export class JsonWriters {
  readonly #writers = new Map<DescMessage, JsonWriter<Message>>();

  /** Returns the writer of a message type, compiled on first use. */
  message(desc: DescMessage): JsonWriter<Message> {
    const known = this.#writers.get(desc);
    if (known !== undefined) return known;
    const fields: JsonWriter<LocalMessage>[] = [];
    const write = objectWriter(fields);
    // Registered before its fields are compiled, so that a recursive type finds itself.
    this.#writers.set(desc, write);
    for (const field of desc.fields) fields.push(this.#member(field, fields.length === 0 ? "{" : ","));
    return write;
  }

  #member(field: DescField, separator: string): JsonWriter<LocalMessage> {
    if (field.oneof !== undefined || field.fieldKind === "map") throw unsupported(field);
    const { localName } = field;
    const key = `${separator}${JSON.stringify(field.name)}:`;
    const write = this.#value(field);
    if (field.fieldKind === "list") return (message) => key + listText(message[localName] as unknown[], write);
    return (message) => {
      const value = message[localName];
      return key + (value === undefined ? "null" : write(value));
    };
  }

  #value(field: DescField): JsonWriter {
    if (field.enum !== undefined) return enumWriter(field.enum);
    if (field.message === undefined) return scalarWriter(field);
    switch (field.message.typeName) {
      case "google.protobuf.Struct":
        if (field.fieldKind !== "message") throw unsupported(field);
        // A field of this type is a plain object in the message.
        return (value) => JSON.stringify(value);
      case "google.protobuf.Value":
        return (value) => JSON.stringify(toJson(ValueSchema, value as Value));
      case "google.protobuf.ListValue":
        return (value) => JSON.stringify(toJson(ListValueSchema, value as ListValue));
      case "google.protobuf.Timestamp":
        return (value) => `"${toJson(TimestampSchema, value as Timestamp)}"`;
      default:
        if (field.message.typeName.startsWith("google.protobuf.")) throw unsupported(field);
        return this.message(field.message) as JsonWriter;
    }
  }
}

function unsupported(field: DescField): Error {
  return new Error(`${field}: no JSON writer is made for a field of this kind`);
}

function objectWriter(fields: readonly JsonWriter<LocalMessage>[]): JsonWriter<Message> {
  return (message) => {
    let text = "";
    for (let index = 0; index < fields.length; index++) {
      text += (fields[index] as JsonWriter<LocalMessage>)(message as LocalMessage);
    }
    return text === "" ? "{}" : `${text}}`;
  };
}

function listText(items: readonly unknown[], write: JsonWriter): string {
  let text = "[";
  for (let index = 0; index < items.length; index++) text += (index === 0 ? "" : ",") + write(items[index]);
  return `${text}]`;
}

function scalarWriter(field: DescField & { readonly scalar: ScalarType | undefined }): JsonWriter {
  switch (field.scalar) {
    case ScalarType.STRING:
    // JSON has neither NaN nor infinities; `stringify` writes null.
    case ScalarType.DOUBLE:
      return (value) => JSON.stringify(value);
    case ScalarType.BOOL:
    case ScalarType.INT32:
      return (value) => `${value as number | boolean}`;
    case ScalarType.INT64:
      return (value) => int64Text(value as bigint);
    case ScalarType.BYTES:
      return (value) => `"${Buffer.from(value as Uint8Array).toString("base64")}"`;
    default:
      throw unsupported(field);
  }
}

// A JSON number up to 2^53−1; beyond, where most parsers round, a string of digits.
function int64Text(value: bigint): string {
  return Number.isSafeInteger(Number(value)) ? `${value}` : `"${value}"`;
}

function enumWriter(desc: DescEnum): JsonWriter {
  const texts = new Map<number, string>();
  for (const [number, word] of enumWordsFromDesc(desc).wordByNumber) texts.set(number, JSON.stringify(word));
  // An open enum may carry a number of a newer schema, which has no word here.
  return (value) => texts.get(value as number) ?? `${value}`;
}
