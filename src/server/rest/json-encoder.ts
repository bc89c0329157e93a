import type { DescEnum, DescField, DescMessage, Message, Registry } from "@bufbuild/protobuf";
import { Edition } from "@bufbuild/protobuf/wkt";
import { enumWordsFromDesc } from "./enum-words.ts";
import { jsonString } from "./json-values.ts";
import { type JsonWriter, scalarWriter } from "./scalar-writer.ts";
import { isStruct, type LocalMessage, wrappedField } from "./well-known.ts";
import { wellKnownWriter } from "./well-known-writer.ts";

/** Writes messages as JSON text: snake_case names, lower-case enum words, every field present. */
export interface JsonEncoder {
  /** The writer of a message type; compiled on first use, then kept. */
  messageWriter(desc: DescMessage): JsonWriter;
  /** The writer of one field: takes the whole message, gives the field's value, `null` when it is unset. */
  fieldWriter(field: DescField): (message: Message) => string;
}

type FieldWriter = (message: LocalMessage) => string;

/** Creates an encoder. `registry` resolves `google.protobuf.Any`; without it the packed bytes are written as base64. */
export function createJsonEncoder(options: { readonly registry?: Registry | undefined } = {}): JsonEncoder {
  const writers = new Map<DescMessage, JsonWriter>();

  function messageWriter(desc: DescMessage): JsonWriter {
    const known = writers.get(desc);
    if (known !== undefined) return known;
    const wellKnown = wellKnownWriter(desc, { registry: options.registry, messageWriter });
    return wellKnown === undefined ? compileMessage(desc) : remember(desc, wellKnown);
  }

  function remember(desc: DescMessage, writer: JsonWriter): JsonWriter {
    writers.set(desc, writer);
    return writer;
  }

  function compileMessage(desc: DescMessage): JsonWriter {
    const fields: FieldWriter[] = [];
    // Known before its fields are compiled, so that a recursive type finds itself.
    const writer = remember(desc, objectWriter(fields));
    desc.fields.forEach((field, index) => {
      const write = compileField(field, messageWriter);
      const key = `${index === 0 ? "{" : ","}${jsonString(field.name)}:`;
      fields.push((message) => key + write(message));
    });
    return writer;
  }

  return { messageWriter, fieldWriter: (field) => compileField(field, messageWriter) as (message: Message) => string };
}

function objectWriter(fields: readonly FieldWriter[]): JsonWriter {
  return (message) => {
    let text = "";
    for (let index = 0; index < fields.length; index++) text += (fields[index] as FieldWriter)(message as LocalMessage);
    return text === "" ? "{}" : `${text}}`;
  };
}

type WriterOf = (desc: DescMessage) => JsonWriter;

function compileField(field: DescField, writerOf: WriterOf): FieldWriter {
  const write = valueWriter(field, writerOf);
  const { localName } = field;
  if (field.fieldKind === "list") return (message) => listText(message[localName] as readonly unknown[], write);
  if (field.fieldKind === "map") return (message) => mapText(message[localName] as Record<string, unknown>, write);
  if (field.oneof) return oneofWriter(field.oneof.localName, localName, write);
  if (hasPrototypeDefault(field)) {
    return (message) => (Object.hasOwn(message, localName) ? write(message[localName]) : "null");
  }
  return (message) => {
    const value = message[localName];
    return value === undefined ? "null" : write(value);
  };
}

// Outside proto3 an unset scalar reads as its default from the prototype.
function hasPrototypeDefault(field: DescField): boolean {
  return field.parent.file.edition !== Edition.EDITION_PROTO3 && field.fieldKind !== "message";
}

function oneofWriter(group: string, member: string, write: JsonWriter): FieldWriter {
  return (message) => {
    const selected = message[group] as { readonly case?: string; readonly value?: unknown };
    return selected.case === member ? write(selected.value) : "null";
  };
}

function listText(items: readonly unknown[], write: JsonWriter): string {
  if (items.length === 0) return "[]";
  let text = `[${write(items[0])}`;
  for (let index = 1; index < items.length; index++) text += `,${write(items[index])}`;
  return `${text}]`;
}

function mapText(record: Readonly<Record<string, unknown>>, write: JsonWriter): string {
  let text = "";
  for (const key of Object.keys(record)) text += `${text === "" ? "{" : ","}${jsonString(key)}:${write(record[key])}`;
  return text === "" ? "{}" : `${text}}`;
}

function valueWriter(field: DescField, writerOf: WriterOf): JsonWriter {
  if (field.enum) return enumWriter(field.enum);
  if (field.scalar !== undefined) return scalarWriter(field.scalar);
  const message = field.message as DescMessage;
  // A Struct is held as a plain object wherever it is a field.
  if (isStruct(message)) return (value) => JSON.stringify(value);
  const wrapped = field.fieldKind === "message" && !field.oneof ? wrappedField(message) : undefined;
  return wrapped === undefined ? writerOf(message) : scalarWriter(wrapped.scalar);
}

function enumWriter(desc: DescEnum): JsonWriter {
  const texts = new Map<number, string>();
  for (const [number, word] of enumWordsFromDesc(desc).wordByNumber) texts.set(number, JSON.stringify(word));
  // An open enum may carry a number from a newer schema; the number is all there is to say about it.
  return (value) => texts.get(value as number) ?? `${value}`;
}
