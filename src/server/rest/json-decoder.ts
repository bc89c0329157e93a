import { create, type DescField, type DescMessage, type Message, type Registry, ScalarType } from "@bufbuild/protobuf";
import { fieldFault, fieldPathText, ROOT_STEP } from "./field-path.ts";
import { assertNoDuplicateKey, type ParsedJson } from "./json-text.ts";
import {
  type DecodeContext,
  enumReader,
  isJsonObject,
  type JsonReader,
  refuse,
  refuseType,
  scalarReader,
} from "./scalar-reader.ts";
import { isStruct, type LocalMessage, wrappedField } from "./well-known.ts";
import { readFreeObject, wellKnownReader } from "./well-known-reader.ts";

/** Sets one field of a message from a parsed JSON value; `null` leaves the field unset. */
export type FieldSetter = (message: LocalMessage, json: unknown, context: DecodeContext) => void;

/** Reads messages from JSON, strictly: see `README.md` for what is refused. */
export interface JsonDecoder {
  /** Builds a message from a whole request body. Throws a `ControlPlaneError` that names the field at fault. */
  decode(desc: DescMessage, parsed: ParsedJson): Message;
  /** Sets one field of `message` from a whole request body. */
  decodeField(field: DescField, message: Message, parsed: ParsedJson): void;
  /** The setter of a field; compiled on first use, then kept. */
  fieldSetter(field: DescField): FieldSetter;
}

/** A context for values that did not come from a JSON text. */
export function emptyContext(): DecodeContext {
  return { path: [], members: 0, mayHoldLoneSurrogate: false };
}

/** Creates a decoder. `registry` resolves `google.protobuf.Any`; without it every Any is refused. */
export function createJsonDecoder(options: { readonly registry?: Registry | undefined } = {}): JsonDecoder {
  const readers = new Map<DescMessage, JsonReader>();
  const setters = new Map<DescField, FieldSetter>();

  function messageReader(desc: DescMessage): JsonReader {
    const known = readers.get(desc);
    if (known !== undefined) return known;
    const wellKnown = wellKnownReader(desc, { registry: options.registry, messageReader });
    const fields = new Map<string, FieldSetter>();
    const reader = wellKnown ?? objectReader(desc, fields);
    // Known before its fields are compiled, so that a recursive type finds itself.
    readers.set(desc, reader);
    if (wellKnown === undefined) for (const field of desc.fields) fields.set(field.name, fieldSetter(field));
    return reader;
  }

  function fieldSetter(field: DescField): FieldSetter {
    const known = setters.get(field);
    if (known !== undefined) return known;
    const made = compileSetter(field, messageReader);
    setters.set(field, made);
    return made;
  }

  return {
    decode: (desc, parsed) => decodeMessage(desc, messageReader(desc), parsed),
    decodeField(field, message, parsed) {
      const context: DecodeContext = { ...emptyContext(), mayHoldLoneSurrogate: parsed.mayHoldLoneSurrogate };
      fieldSetter(field)(message as LocalMessage, parsed.value, context);
      if (parsed.value !== null) assertNoDuplicateKey(parsed, context.members);
    },
    fieldSetter,
  };
}

function decodeMessage(desc: DescMessage, read: JsonReader, parsed: ParsedJson): Message {
  if (parsed.value === null) return create(desc);
  const context: DecodeContext = { ...emptyContext(), mayHoldLoneSurrogate: parsed.mayHoldLoneSurrogate };
  const message = read(parsed.value, context, ROOT_STEP) as Message;
  assertNoDuplicateKey(parsed, context.members);
  return message;
}

function objectReader(desc: DescMessage, fields: ReadonlyMap<string, FieldSetter>): JsonReader {
  return (json, context, key) => {
    if (!isJsonObject(json)) return refuseType(json, context, key, "an object");
    const message = create(desc) as LocalMessage;
    context.path.push(key);
    for (const name in json) {
      context.members++;
      const set = fields.get(name);
      if (set === undefined) refuseUnknown(desc, name, context);
      set(message, json[name], context);
    }
    context.path.pop();
    return message;
  };
}

function refuseUnknown(desc: DescMessage, name: string, context: DecodeContext): never {
  const field = fieldPathText([...context.path, name]);
  const near = desc.fields.find((each) => each.jsonName === name)?.name;
  if (near === undefined) throw fieldFault("UNKNOWN_FIELD", field, "is not a field of the request");
  throw fieldFault("UNKNOWN_FIELD", field, `is not a field of the request; did you mean \`${near}\``, {
    suggestion: near,
  });
}

type ReaderOf = (desc: DescMessage) => JsonReader;

function compileSetter(field: DescField, readerOf: ReaderOf): FieldSetter {
  const read = valueReader(field, readerOf);
  if (field.fieldKind === "list") return listSetter(field, read);
  if (field.fieldKind === "map") return mapSetter(field, read);
  if (field.oneof) return oneofSetter(field.oneof.localName, field, read);
  const { localName, name } = field;
  return (message, json, context) => {
    if (json !== null) message[localName] = read(json, context, name);
  };
}

function valueReader(field: DescField, readerOf: ReaderOf): JsonReader {
  if (field.enum) return enumReader(field.enum);
  if (field.scalar !== undefined) return scalarReader(field.scalar, "longAsString" in field && field.longAsString);
  const message = field.message as DescMessage;
  // A Struct is held as a plain object wherever it is a field, a wrapper as its scalar where it is a singular one.
  if (isStruct(message)) return readFreeObject;
  const wrapped = field.fieldKind === "message" && !field.oneof ? wrappedField(message) : undefined;
  return wrapped === undefined ? lazyReader(message, readerOf) : scalarReader(wrapped.scalar, wrapped.longAsString);
}

// Resolved on first use: a message type may be a part of itself.
function lazyReader(desc: DescMessage, readerOf: ReaderOf): JsonReader {
  let reader: JsonReader | undefined;
  return (json, context, key) => {
    reader ??= readerOf(desc);
    return reader(json, context, key);
  };
}

function oneofSetter(group: string, { localName, name }: DescField, read: JsonReader): FieldSetter {
  return (message, json, context) => {
    if (json === null) return;
    const selected = message[group] as { readonly case?: string };
    if (selected.case !== undefined)
      refuse(context, name, `cannot be set together with another member of \`${group}\``);
    message[group] = { case: localName, value: read(json, context, name) };
  };
}

function listSetter({ localName, name }: DescField, read: JsonReader): FieldSetter {
  return (message, json, context) => {
    if (json === null) return;
    if (!Array.isArray(json)) refuseType(json, context, name, "an array");
    const items = message[localName] as unknown[];
    context.path.push(name);
    for (let index = 0; index < json.length; index++) items.push(read(json[index], context, index));
    context.path.pop();
  };
}

function mapSetter(field: DescField & { fieldKind: "map" }, read: JsonReader): FieldSetter {
  const { localName, name } = field;
  const readKey = mapKeyReader(field.mapKey);
  return (message, json, context) => {
    if (json === null) return;
    if (!isJsonObject(json)) refuseType(json, context, name, "an object");
    const record = message[localName] as Record<string, unknown>;
    context.path.push(name);
    for (const key in json) {
      context.members++;
      setOwn(record, readKey(key, context), read(json[key], context, key));
    }
    context.path.pop();
  };
}

// Plain assignment to `__proto__` would change the object's prototype instead of adding a key.
function setOwn(record: Record<string, unknown>, key: string, value: unknown): void {
  if (key !== "__proto__") record[key] = value;
  else Object.defineProperty(record, key, { value, enumerable: true, configurable: true, writable: true });
}

function mapKeyReader(scalar: ScalarType): (key: string, context: DecodeContext) => string {
  const read = scalarReader(scalar, true);
  if (scalar === ScalarType.STRING) return (key, context) => read(key, context, key) as string;
  if (scalar === ScalarType.BOOL) {
    return (key, context) => (key === "true" || key === "false" ? key : refuse(context, key, "must be true or false"));
  }
  return (key, context) => {
    const isCanonical = /^(?:0|-?[1-9]\d*)$/.test(key);
    if (!isCanonical) refuse(context, key, "must be an integer in decimal digits");
    const value = Number(key);
    return String(read(Number.isSafeInteger(value) ? value : key, context, key));
  };
}
