import {
  create,
  type DescField,
  type DescMessage,
  fromBinary,
  fromJson,
  type JsonReadOptions,
  type JsonValue,
  type Message,
  mergeFromBinary,
  ScalarType,
  toJson,
} from "@bufbuild/protobuf";
import { pathToString } from "@bufbuild/protobuf/reflect";
import { BinaryReader, WireType } from "@bufbuild/protobuf/wire";
import { createValidator, type Violation } from "@bufbuild/protovalidate";
import type { Work } from "../async/work.ts";
import { ControlPlaneError, ErrorReason, type FieldViolation, invalidField } from "../errors.ts";
import { describeViolation } from "./describe-violation.ts";
import { tooDeep, tooManyValues } from "./errors.ts";
import type { ValueBounds } from "./request-bounds.ts";
import { fieldPathText, type PathStep } from "./rest/field-path.ts";

/** Throws INVALID_FIELD or BODY_TOO_DEEP for an invalid request. */
export type RequestCheck = (request: Message) => void;

/** Compiles the rules of a message type at first use and keeps them: they are those of the protos, the same for all servers. */
const VALIDATOR = createValidator({ regexMatch: createRegexMatch() });

/** Creates the checks of request messages, one per message type. `maxDepth` is in JSON brackets. */
export function createRequestChecks(maxDepth: number): (schema: DescMessage) => RequestCheck {
  const fields = new TextFields();
  return (schema) => {
    warm(schema);
    return (request) => {
      assertStorable(new TextWalk(fields, maxDepth).message(schema, request, 1));
      const result = VALIDATOR.validate(schema, request);
      if (result.kind === "valid") return;
      throw result.kind === "invalid" ? violated(result.violations, schema, request) : result.error;
    };
  };
}

// `RegExp` is safe and much faster than RE2 here: the patterns are constants of our own protos.
function createRegexMatch(): (pattern: string, text: string) => boolean {
  const compiled = new Map<string, RegExp>();
  return (pattern, text) => {
    let regex = compiled.get(pattern);
    if (regex === undefined) {
      regex = new RegExp(pattern, "u");
      compiled.set(pattern, regex);
    }
    return regex.test(text);
  };
}

// Compiles the rules at start: a broken rule then fails the start, and the first caller does not wait.
function warm(schema: DescMessage): void {
  const result = VALIDATOR.validate(schema, create(schema));
  if (result.kind === "error") throw result.error;
}

function violated(found: readonly Violation[], schema: DescMessage, request: Message): ControlPlaneError {
  return invalidFields(distinct(found.map((violation) => violationFrom(violation, schema, request))));
}

function invalidFields(found: readonly FieldViolation[]): ControlPlaneError {
  const violations = [...found].sort((a, b) => (a.field < b.field ? -1 : Number(a.field > b.field)));
  const [first = { field: "", description: "is not valid" }] = violations;
  const more = violations.length > 1 ? ` (and ${violations.length - 1} more)` : "";
  const subject = first.field === "" ? "the request" : `\`${first.field}\``;
  const metadata = { field: first.field, violations: String(violations.length) };
  const text = `${subject} ${first.description}${more}`;
  return new ControlPlaneError(ErrorReason.INVALID_FIELD, text, metadata, { violations });
}

function violationFrom(violation: Violation, schema: DescMessage, request: Message): FieldViolation {
  const { field, ruleId } = violation;
  const description = describeViolation(violation, schema, request);
  return { field: pathToString(field), description, reason: ruleId.toUpperCase().replace(/[^A-Z0-9]+/g, "_") };
}

/** Keeps only the first of equal violations of a field, such as those of a missing one. */
function distinct(violations: readonly FieldViolation[]): FieldViolation[] {
  const seen = new Set<string>();
  return violations.filter(({ field, description }) => {
    const key = JSON.stringify([field, description]);
    return !seen.has(key) && seen.add(key);
  });
}

/** Maximum values of free JSON in a request: parsing, sorting and sealing more of them would delay all other calls. */
const MAX_FREE_VALUES = 25_000;

/** Maximum texts and numbers of a request that an error names. */
const MAX_FAULTS = 100;

const FREE_JSON = ["google.protobuf.Struct", "google.protobuf.Value", "google.protobuf.ListValue"];

/** Finds the fields of messages that hold text or free JSON, directly or in a message below them. */
class TextFields {
  readonly #fields = new Map<DescMessage, readonly DescField[]>();

  of(schema: DescMessage): readonly DescField[] {
    const known = this.#fields.get(schema);
    if (known !== undefined) return known;
    const fields = schema.fields.filter((field) => holdsText(field, new Set()));
    this.#fields.set(schema, fields);
    return fields;
  }
}

function holdsText({ message, scalar }: DescField, seen: Set<DescMessage>): boolean {
  if (message === undefined) return scalar === ScalarType.STRING;
  if (FREE_JSON.includes(message.typeName)) return true;
  if (seen.has(message)) return false;
  seen.add(message);
  return message.fields.some((field) => holdsText(field, seen));
}

/**
 * Throws INVALID_FIELD or BODY_TOO_DEEP for JSON that no request may hold: text that cannot be stored, too many values, or more than
 * `maxDepth` nested brackets. Any other JSON that is kept in the log MUST pass it too.
 */
export function assertStorableJson(json: unknown, maxDepth: number): void {
  assertStorable(new TextWalk(new TextFields(), maxDepth).json(json, 1));
}

function assertStorable({ faults }: TextWalk): void {
  if (faults.length > 0) throw invalidFields(distinct(faults));
}

/**
 * Walks the texts and the free JSON of a message once. Finds U+0000, which PostgreSQL cannot keep; half surrogate pairs from JSON
 * escapes; and values that binary protocols can hold but JSON text cannot (any depth, NaN, infinities). Counts depth in the JSON
 * brackets of the whole message, so that every protocol has the same limit.
 */
class TextWalk {
  readonly #fields: TextFields;
  readonly #maxDepth: number;
  readonly #path: PathStep[] = [];
  readonly #faults: FieldViolation[] = [];
  #values = 0;

  constructor(fields: TextFields, maxDepth: number) {
    this.#fields = fields;
    this.#maxDepth = maxDepth;
  }

  /** Texts and numbers that cannot be stored, at most `MAX_FAULTS`. */
  get faults(): readonly FieldViolation[] {
    return this.#faults;
  }

  message(schema: DescMessage, message: unknown, depth: number): this {
    for (const field of this.#fields.of(schema)) {
      const value = fieldValue(field, message as Record<string, unknown>);
      if (value === undefined) continue;
      this.#path.push(field.name);
      this.#field(field, value, depth + 1);
      this.#path.pop();
    }
    return this;
  }

  json(value: unknown, depth: number): this {
    if (++this.#values > MAX_FREE_VALUES) throw this.#tooMany();
    if (typeof value === "string") this.#text(value);
    else if (typeof value === "number" && !Number.isFinite(value)) this.#note("must be a finite number");
    else if (typeof value === "object" && value !== null) this.#brackets(value, depth);
    return this;
  }

  #field(field: DescField, value: unknown, depth: number): void {
    if (field.fieldKind === "list") {
      for (const [index, item] of (value as readonly unknown[]).entries()) this.#itemAt(index, field, item, depth + 1);
    } else if (field.fieldKind === "map") {
      for (const [key, item] of Object.entries(value as object)) this.#itemAt(key, field, item, depth + 1);
    } else this.#item(field, value, depth);
  }

  #itemAt(step: PathStep, field: DescField, item: unknown, depth: number): void {
    this.#path.push(step);
    this.#item(field, item, depth);
    this.#path.pop();
  }

  #item({ message: schema }: DescField, value: unknown, depth: number): void {
    if (schema === undefined) this.#text(value as string);
    else if (!FREE_JSON.includes(schema.typeName)) this.message(schema, value, depth);
    else if (schema.typeName === "google.protobuf.Struct") this.json(value, depth);
    else this.json(this.#jsonOf(schema, value as Message), depth);
  }

  // Decoding has bounded the nesting, so that conversion to JSON cannot exhaust the stack.
  #jsonOf(schema: DescMessage, value: Message): unknown {
    try {
      return toJson(schema, value);
    } catch {
      this.#note("must be a finite number");
      return null;
    }
  }

  #brackets(value: object, depth: number): void {
    if (depth > this.#maxDepth) throw tooDeep(this.#maxDepth);
    const path = this.#path;
    if (Array.isArray(value)) {
      for (let index = 0; index < value.length; index++) {
        path.push(index);
        this.json(value[index], depth + 1);
        path.pop();
      }
      return;
    }
    for (const key of Object.keys(value)) {
      path.push(key);
      this.#text(key);
      this.json((value as Record<string, unknown>)[key], depth + 1);
      path.pop();
    }
  }

  #text(text: string): void {
    if (!text.isWellFormed()) this.#note("must not hold half of a surrogate pair");
    if (text.includes("\u0000")) this.#note("must not hold the character U+0000");
  }

  #tooMany(): ControlPlaneError {
    const [field = "body"] = this.#path;
    return invalidField(String(field), `must not hold more than ${MAX_FREE_VALUES.toLocaleString("en")} values`);
  }

  #note(description: string): void {
    if (this.#faults.length === MAX_FAULTS) return;
    const field = fieldPathText(this.#path) || "body";
    this.#faults.push({ field, description, reason: ErrorReason[ErrorReason.INVALID_FIELD] });
  }
}

function fieldValue({ localName, oneof }: DescField, message: Record<string, unknown>): unknown {
  if (oneof === undefined) return message[localName];
  const choice = message[oneof.localName] as { case?: string; value?: unknown } | undefined;
  return choice?.case === localName ? choice.value : undefined;
}

/**
 * Returns options for decoding requests, with bounded nesting. One JSON bracket is two messages inside a
 * `google.protobuf.Struct`, so the check of the request applies the exact limit of `maxDepth` brackets.
 */
export function decodeOptions(maxDepth: number): { readonly recursionLimit: number } {
  return { recursionLimit: 2 * maxDepth + 8 };
}

/** Returns options for decoding requests in the JSON form of protobuf, which has no unknown fields. */
export function jsonOptions(maxDepth: number): Partial<JsonReadOptions> {
  return { ignoreUnknownFields: false, ...decodeOptions(maxDepth) };
}

/** Decodes the JSON form of a request. Throws a `ControlPlaneError` for what is not a message of this type. */
export function decodeJson(schema: DescMessage, value: JsonValue, maxDepth: number): Message {
  try {
    return fromJson(schema, value, jsonOptions(maxDepth));
  } catch (error) {
    throw undecodable(schema, maxDepth, error);
  }
}

/** Decodes the binary form of a request. Throws a `ControlPlaneError` for bytes that are not a message of this type. */
export function decodeBinary(schema: DescMessage, bytes: Uint8Array, maxDepth: number, bounds: ValueBounds): Message {
  const options = decodeOptions(maxDepth);
  assertFewValues(schema, bytes, options.recursionLimit, bounds);
  try {
    return fromBinary(schema, bytes, options);
  } catch (error) {
    throw undecodable(schema, maxDepth, error);
  }
}

/** Top-level fields that are decoded before other requests may have a turn. */
const FIELDS_AT_ONCE = 4_096;

/** Decodes a large message as `decodeBinary` does, as work that may pause between its fields. */
export function* binaryDecoding(
  schema: DescMessage,
  bytes: Uint8Array,
  maxDepth: number,
  bounds: ValueBounds,
): Work<Message> {
  const options = decodeOptions(maxDepth);
  const count = new ValueCount(bytes, options.recursionLimit, bounds);
  const message = create(schema);
  for (let start = 0; start < bytes.length; ) {
    const end = count.fieldsOf(schema, FIELDS_AT_ONCE);
    try {
      mergeFromBinary(schema, message, bytes.subarray(start, end), options);
    } catch (error) {
      throw undecodable(schema, maxDepth, error);
    }
    start = end;
    yield;
  }
  return message;
}

const TOO_DEEP = /recursion depth/;
const JSON_FIELD = /cannot decode field [\w.]*?(\w+) from JSON: (.+)$/;
const JSON_ONEOF = /oneof set multiple times by (\w+) and (\w+)$/;
const JSON_KEY = /key "([^"]*)"/;
const JSON_REASONS: readonly (readonly [RegExp, ErrorReason])[] = [
  [/is unknown$/, ErrorReason.UNKNOWN_FIELD],
  [/duplicate object key|set multiple times/, ErrorReason.DUPLICATE_FIELD],
];

/** Converts a decoding error of protobuf-es, which describes the fault only in its message. */
export function undecodable({ typeName }: DescMessage, maxDepth: number, cause: unknown): ControlPlaneError {
  const words = (cause instanceof Error ? cause.message : String(cause)).replaceAll(/\s+/g, " ");
  if (TOO_DEEP.test(words)) return tooDeep(maxDepth);
  const [, first, second] = JSON_ONEOF.exec(words) ?? [];
  if (second !== undefined) return invalidField(second, `cannot be given together with \`${first}\``, cause);
  const [, named, problem] = JSON_FIELD.exec(words) ?? [];
  const field = named ?? JSON_KEY.exec(words)?.[1];
  if (field !== undefined) return jsonFault(field, words, problem, cause);
  const text = `the request is not a valid \`${typeName}\` message`;
  return new ControlPlaneError(ErrorReason.INVALID_FIELD, text, { message_type: typeName }, { cause });
}

function jsonFault(field: string, words: string, problem: string | undefined, cause: unknown): ControlPlaneError {
  const reason = JSON_REASONS.find(([pattern]) => pattern.test(words))?.[1] ?? ErrorReason.INVALID_FIELD;
  const isUnknown = reason === ErrorReason.UNKNOWN_FIELD;
  const text = `\`${field}\` ${problem ?? (isUnknown ? "is unknown" : "is given more than once")}`;
  const violations = [{ field, description: text, reason: ErrorReason[reason] }];
  return new ControlPlaneError(reason, text, { field }, { cause, violations });
}

/** Maximum bytes of a message that is always quick to decode. */
const SMALL = 2_048;

/**
 * Throws BODY_TOO_LARGE for the binary form of a message with more fields and items than `bounds` allow, before anything is built
 * from it. The decoder merges a repeated record of a singular message field into the previous one and copies it, so such a record
 * counts as much as all records before it. Bytes that are not a message of this type, and more than `recursionLimit` nested
 * messages, are left to the decoder, which refuses them.
 */
export function assertFewValues(
  schema: DescMessage,
  bytes: Uint8Array,
  recursionLimit: number,
  bounds: ValueBounds,
): void {
  if (bytes.length <= SMALL) return;
  try {
    new ValueCount(bytes, recursionLimit, bounds).message(schema, bytes.length, 1);
  } catch (error) {
    if (error instanceof ControlPlaneError) throw error;
  }
}

/** Reads like the decoder, which goes by the field's type and uses the wire type only for lists and unknown fields. */
class ValueCount {
  readonly #reader: BinaryReader;
  readonly #bytes: Uint8Array;
  readonly #recursionLimit: number;
  readonly #seen = new Set<number>();
  readonly #bounds: ValueBounds;
  #count = 0;

  constructor(bytes: Uint8Array, recursionLimit: number, bounds: ValueBounds) {
    this.#reader = new BinaryReader(bytes);
    this.#bytes = bytes;
    this.#recursionLimit = recursionLimit;
    this.#bounds = bounds;
  }

  /**
   * Counts the next fields of the whole message, at most so many, and returns the index after them. Where the bytes are no message of
   * this type, that is the end of them all: the decoder refuses them.
   */
  fieldsOf(schema: DescMessage, most: number): number {
    const { length } = this.#bytes;
    try {
      for (let left = most; left > 0 && this.#reader.pos < length; left--) {
        if (!this.#field(schema, 1, this.#seen)) return length;
      }
      return this.#reader.pos;
    } catch (error) {
      if (error instanceof ControlPlaneError) throw error;
      return length;
    }
  }

  message(schema: DescMessage | undefined, end: number, depth: number): void {
    if (depth > this.#recursionLimit) throw new Error("too deep");
    const seen = new Set<number>();
    while (this.#reader.pos < end && this.#field(schema, depth, seen));
  }

  /** Reads one field; `seen` are the message fields before it. Returns false at the end of a group. */
  #field(schema: DescMessage | undefined, depth: number, seen: Set<number>): boolean {
    const [number, type] = this.#reader.tag();
    if (type === WireType.EndGroup) return false;
    const field = schema === undefined ? undefined : fieldsOf(schema).get(number);
    const isMessage = field?.fieldKind === "message";
    this.#add(isMessage && seen.has(number) ? this.#count : 1);
    if (isMessage) seen.add(number);
    this.#value(field, number, type, depth);
    return true;
  }

  #value(field: DescField | undefined, number: number, type: WireType, depth: number): void {
    const reader = this.#reader;
    if (field?.fieldKind === "map") this.#entry(field, reader.uint32() + reader.pos, depth);
    else if (field?.message !== undefined) this.message(field.message, reader.uint32() + reader.pos, depth + 1);
    else if (field !== undefined) this.#scalar(field, type);
    else if (type === WireType.StartGroup) this.message(undefined, Number.POSITIVE_INFINITY, depth + 1);
    else reader.skip(type, number);
  }

  #scalar(field: DescField, type: WireType): void {
    const ownType = wireTypeOf(field.scalar);
    const isPacked =
      field.fieldKind === "list" && type === WireType.LengthDelimited && ownType !== WireType.LengthDelimited;
    const bytes = this.#reader.skip(isPacked ? type : ownType);
    // Each packed item takes a byte or more.
    if (isPacked) this.#add(bytes.length);
  }

  /** Reads an entry of a map: its key is field 1, its value field 2. The first of each is already counted with the entry. */
  #entry(map: DescField & { readonly fieldKind: "map" }, end: number, depth: number): void {
    const reader = this.#reader;
    const seen = new Set<number>();
    while (reader.pos < end) {
      const [number, type] = reader.tag();
      const message = number === 2 ? map.message : undefined;
      if (seen.has(number)) this.#add(message === undefined ? 1 : this.#count);
      seen.add(number);
      if (message !== undefined) this.message(message, reader.uint32() + reader.pos, depth + 1);
      else if (number === 1) reader.skip(wireTypeOf(map.mapKey));
      else if (number === 2) reader.skip(wireTypeOf(map.scalar));
      else reader.skip(type, number);
    }
  }

  #add(count: number): void {
    this.#count += count;
    if (this.#count > this.#bounds.maxValues) throw tooManyValues(this.#bounds);
  }
}

/** Returns the wire type of a scalar, or of an enum if `scalar` is undefined. */
function wireTypeOf(scalar: ScalarType | undefined): WireType {
  switch (scalar) {
    case ScalarType.STRING:
    case ScalarType.BYTES:
      return WireType.LengthDelimited;
    case ScalarType.DOUBLE:
    case ScalarType.FIXED64:
    case ScalarType.SFIXED64:
      return WireType.Bit64;
    case ScalarType.FLOAT:
    case ScalarType.FIXED32:
    case ScalarType.SFIXED32:
      return WireType.Bit32;
    default:
      return WireType.Varint;
  }
}

const FIELDS = new WeakMap<DescMessage, ReadonlyMap<number, DescField>>();

function fieldsOf(schema: DescMessage): ReadonlyMap<number, DescField> {
  let fields = FIELDS.get(schema);
  if (fields === undefined) {
    fields = new Map(schema.fields.map((field) => [field.number, field]));
    FIELDS.set(schema, fields);
  }
  return fields;
}
