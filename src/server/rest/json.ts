import {
  create,
  type DescEnum,
  type DescField,
  type DescMessage,
  type DescOneof,
  fromJson,
  type JsonValue,
  type Message,
  ScalarType,
  toJson,
} from "@bufbuild/protobuf";
import {
  type ListValue,
  ListValueSchema,
  type Timestamp,
  TimestampSchema,
  type Value,
  ValueSchema,
} from "@bufbuild/protobuf/wkt";
import { isOpenEnum, UNKNOWN_WORD } from "../open-enums.ts";
import { enumWordsFromDesc } from "./enum-words.ts";
import { fieldFault, fieldPathText, type PathStep } from "./field-path.ts";

/** Step for a whole body, which is not printed. */
const ROOT = "";

/** A message, accessed by the local names of its descriptor. */
export type LocalMessage = Message & Record<string, unknown>;

/** Value of a oneof: the local name of the member that is set, and its value. */
interface OneofValue {
  readonly case: string | undefined;
  readonly value?: unknown;
}

/** Sets one field of a message from a parsed JSON value; `null` leaves it unset. `path` leads to the message. */
export type FieldSetter = (message: LocalMessage, json: unknown, path: PathStep[]) => void;

/** Builds a message from a parsed JSON value; `null` gives an empty one. */
export type MessageReader = (json: unknown) => Message;

/** Converts a parsed JSON value to its form in a message; `key` is its step under `path`. */
type ValueReader = (json: unknown, path: PathStep[], key: PathStep) => unknown;

/**
 * Compiles readers of JSON requests, one per message type. Readers refuse unknown fields and values of a wrong type with a
 * `ControlPlaneError` that names the field. They pass free JSON (`google.protobuf.Struct`, `Value` and `ListValue`) unchanged:
 * the pipeline checks it for every protocol. Compiling throws an `Error` for an unsupported field.
 */
export class JsonReaders {
  readonly #objects = new Map<DescMessage, ValueReader>();

  /** Returns the reader of a whole body. */
  message(desc: DescMessage): MessageReader {
    const read = this.#object(desc);
    return (json) => (json === null ? create(desc) : (read(json, [], ROOT) as Message));
  }

  /** Returns the setter of one field. */
  field(field: DescField): FieldSetter {
    const { localName, name } = field;
    if (field.fieldKind === "map") throw unsupported(field);
    const read = this.#value(field);
    if (field.fieldKind === "list") return listSetter(field, read);
    if (field.oneof !== undefined) return oneofSetter(field, field.oneof, read);
    return (message, json, path) => {
      if (json !== null) message[localName] = read(json, path, name);
    };
  }

  #object(desc: DescMessage): ValueReader {
    const known = this.#objects.get(desc);
    if (known !== undefined) return known;
    const fields = new Map<string, FieldSetter>();
    const read = objectReader(desc, fields);
    // Registered before its fields are compiled, so that a recursive type finds itself.
    this.#objects.set(desc, read);
    for (const field of desc.fields) fields.set(field.name, this.field(field));
    return read;
  }

  #value(field: DescField): ValueReader {
    if (field.enum !== undefined) return enumReader(field.enum, isOpenEnum(field));
    if (field.message === undefined) return scalarReader(field);
    switch (field.message.typeName) {
      case "google.protobuf.Struct":
        // A field of this type is a plain object in the message.
        if (field.fieldKind !== "message") throw unsupported(field);
        return readObject;
      case "google.protobuf.Value":
        return readFreeValue;
      case "google.protobuf.ListValue":
        return readFreeList;
      case "google.protobuf.Timestamp":
        return readTimestamp;
      default:
        if (field.message.typeName.startsWith("google.protobuf.")) throw unsupported(field);
        return this.#object(field.message);
    }
  }
}

function unsupported(field: DescField): Error {
  return new Error(`${field}: fields of this kind have no known JSON form`);
}

function objectReader(desc: DescMessage, fields: ReadonlyMap<string, FieldSetter>): ValueReader {
  return (json, path, key) => {
    const object = readObject(json, path, key);
    const message = create(desc) as LocalMessage;
    if (key !== ROOT) path.push(key);
    for (const name in object) {
      const set = fields.get(name);
      if (set === undefined) throw unknownField(desc, name, path);
      set(message, object[name], path);
    }
    if (key !== ROOT) path.pop();
    return message;
  };
}

function unknownField(desc: DescMessage, name: string, path: readonly PathStep[]): Error {
  const field = fieldPathText([...path, name]);
  const near = desc.fields.find((each) => each.jsonName === name)?.name;
  if (near === undefined) return fieldFault("UNKNOWN_FIELD", field, "is not a field of the request");
  const text = `is not a field of the request; did you mean \`${near}\``;
  return fieldFault("UNKNOWN_FIELD", field, text, { suggestion: near });
}

function listSetter({ localName, name }: DescField, read: ValueReader): FieldSetter {
  return (message, json, path) => {
    if (json === null) return;
    if (!Array.isArray(json)) refuseType(json, path, name, "an array");
    const items = message[localName] as unknown[];
    path.push(name);
    for (let index = 0; index < json.length; index++) items.push(read(json[index], path, index));
    path.pop();
  };
}

function oneofSetter({ localName, name }: DescField, oneof: DescOneof, read: ValueReader): FieldSetter {
  return (message, json, path) => {
    if (json === null) return;
    const chosen = (message[oneof.localName] as OneofValue).case;
    if (chosen !== undefined) refuse(path, name, `cannot be given together with \`${memberName(oneof, chosen)}\``);
    message[oneof.localName] = { case: localName, value: read(json, path, name) };
  };
}

function memberName({ fields }: DescOneof, localName: string): string {
  return fields.find((field) => field.localName === localName)?.name ?? localName;
}

function scalarReader(field: DescField & { readonly scalar: ScalarType | undefined }): ValueReader {
  switch (field.scalar) {
    case ScalarType.STRING:
      return readString;
    case ScalarType.BOOL:
      return readBool;
    case ScalarType.DOUBLE:
      return readDouble;
    case ScalarType.INT32:
      return readInt32;
    case ScalarType.INT64:
      if ("longAsString" in field && field.longAsString) throw unsupported(field);
      return readInt64;
    default:
      throw unsupported(field);
  }
}

function readObject(json: unknown, path: PathStep[], key: PathStep): Record<string, unknown> {
  const isObject = typeof json === "object" && json !== null && !Array.isArray(json);
  return isObject ? (json as Record<string, unknown>) : refuseType(json, path, key, "an object");
}

const readString: ValueReader = (json, path, key) => {
  if (typeof json !== "string") return refuseType(json, path, key, "a string");
  return json.isWellFormed() ? json : refuse(path, key, "holds half of a surrogate pair");
};

const readBool: ValueReader = (json, path, key) =>
  typeof json === "boolean" ? json : refuseType(json, path, key, "true or false");

const readDouble: ValueReader = (json, path, key) => {
  if (typeof json !== "number") return refuseType(json, path, key, "a number");
  return Number.isFinite(json) ? json : refuse(path, key, "is too large for a 64-bit float");
};

const MIN_INT32 = -(2 ** 31);
const MAX_INT32 = 2 ** 31 - 1;

const readInt32: ValueReader = (json, path, key) => {
  if (typeof json !== "number") return refuseType(json, path, key, "an integer");
  if (Number.isInteger(json) && json >= MIN_INT32 && json <= MAX_INT32) return json;
  return refuse(path, key, `must be an integer from ${MIN_INT32} to ${MAX_INT32}`);
};

const MIN_INT64 = -(2n ** 63n);
const MAX_INT64 = 2n ** 63n - 1n;
const DECIMAL = /^-?\d{1,20}$/;

const readInt64: ValueReader = (json, path, key) => {
  const value = bigintFromJson(json, path, key);
  if (value >= MIN_INT64 && value <= MAX_INT64) return value;
  return refuse(path, key, `must be an integer from ${MIN_INT64} to ${MAX_INT64}`);
};

// Beyond 2^53−1 the parser has already rounded numbers: only strings of digits are exact.
function bigintFromJson(json: unknown, path: PathStep[], key: PathStep): bigint {
  if (typeof json === "number" && Number.isSafeInteger(json)) return BigInt(json);
  if (typeof json === "string" && DECIMAL.test(json)) return BigInt(json);
  if (Number.isInteger(json)) return refuse(path, key, "must be written as a string of digits beyond 2^53-1");
  if (typeof json === "number" || typeof json === "string") return refuse(path, key, "must be an integer");
  return refuseType(json, path, key, "an integer");
}

function enumReader(desc: DescEnum, isOpen: boolean): ValueReader {
  const { numberByWord, words } = enumWordsFromDesc(desc);
  const wanted = `one of ${words.map((word) => `\`${word}\``).join(", ")}`;
  return (json, path, key) => {
    if (typeof json !== "string") return refuseType(json, path, key, wanted);
    return numberByWord.get(json) ?? (isOpen ? UNKNOWN_WORD : refuse(path, key, `must be ${wanted}`));
  };
}

const TIME_FORM = "an RFC 3339 time such as `2026-01-31T12:00:00Z`";

const readTimestamp: ValueReader = (json, path, key) => {
  if (typeof json !== "string") return refuseType(json, path, key, TIME_FORM);
  return timestampFromText(json) ?? refuse(path, key, `must be ${TIME_FORM}`);
};

const RFC_3339 = /^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.\d{1,9})?(?:Z|[+-](?:[01]\d|2[0-3]):[0-5]\d)$/;

/** Parses an RFC 3339 time with any offset. Returns undefined for other texts and for dates that do not exist. */
function timestampFromText(text: string): Timestamp | undefined {
  const [, local] = RFC_3339.exec(text) ?? [];
  if (local === undefined || !isOnCalendar(local)) return undefined;
  try {
    return fromJson(TimestampSchema, text);
  } catch {
    // Outside the years 1 to 9999.
    return undefined;
  }
}

// `Date` silently rolls over: 30 February becomes 2 March.
function isOnCalendar(local: string): boolean {
  const ms = Date.parse(`${local}Z`);
  return !Number.isNaN(ms) && new Date(ms).toISOString().startsWith(local);
}

// The depth of the text is bounded before parsing, so the library's own limit is not needed.
const NO_LIMIT = { recursionLimit: Number.MAX_SAFE_INTEGER };

const readFreeValue: ValueReader = (json) => fromJson(ValueSchema, json as JsonValue, NO_LIMIT);

const readFreeList: ValueReader = (json, path, key) => {
  if (!Array.isArray(json)) refuseType(json, path, key, "an array");
  return fromJson(ListValueSchema, json as JsonValue, NO_LIMIT);
};

function refuseType(json: unknown, path: PathStep[], key: PathStep, wanted: string): never {
  return refuse(path, key, `must be ${wanted}, not ${jsonTypeName(json)}`);
}

function refuse(path: readonly PathStep[], key: PathStep, description: string): never {
  const field = key === ROOT ? "body" : fieldPathText([...path, key]);
  throw fieldFault("INVALID_FIELD", field, description);
}

function jsonTypeName(json: unknown): string {
  if (json === null) return "null";
  if (Array.isArray(json)) return "an array";
  return typeof json === "object" ? "an object" : `a ${typeof json}`;
}

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
    if (field.fieldKind === "map") throw unsupported(field);
    const { localName, oneof } = field;
    const key = `${separator}${JSON.stringify(field.name)}:`;
    const write = this.#value(field);
    if (field.fieldKind === "list") return (message) => key + listText(message[localName] as unknown[], write);
    return (message) => {
      const value = oneof === undefined ? message[localName] : oneofMember(message, oneof, localName);
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

function oneofMember(message: LocalMessage, oneof: DescOneof, localName: string): unknown {
  const chosen = message[oneof.localName] as OneofValue;
  return chosen.case === localName ? chosen.value : undefined;
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
    // JSON has no NaN or infinities; `stringify` writes null.
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

// A JSON number up to 2^53−1, and a string of digits beyond, where most parsers round.
function int64Text(value: bigint): string {
  return Number.isSafeInteger(Number(value)) ? `${value}` : `"${value}"`;
}

function enumWriter(desc: DescEnum): JsonWriter {
  const texts = new Map<number, string>();
  for (const [number, word] of enumWordsFromDesc(desc).wordByNumber) texts.set(number, JSON.stringify(word));
  // An open enum may carry a number of a newer schema, for which there is no word here.
  return (value) => texts.get(value as number) ?? `${value}`;
}
