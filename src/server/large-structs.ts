import type { DescField, DescMessage, JsonObject, JsonValue, Message } from "@bufbuild/protobuf";
import { BinaryReader, WireType } from "@bufbuild/protobuf/wire";
import { StructSchema } from "@bufbuild/protobuf/wkt";
import type { Work } from "../async/work.ts";
import { fieldsOf, wireTypeOf } from "./wire-fields.ts";

/**
 * Values of the `google.protobuf.Struct` fields that a large request holds directly, by local names. They are split off before the
 * library decodes the request: it builds such a field three times over, in one turn of the event loop.
 */
export type Structs = ReadonlyMap<string, JsonObject>;

/** An encoded request without such fields. */
export interface SplitBytes {
  readonly rest: Uint8Array;
  readonly structs: Structs;
}

/** Tests whether anything can be split off requests of a type. */
export const hasStructs = (schema: DescMessage): boolean => structFieldsOf(schema).length > 0;

/** Sets the fields that were split off a request. */
export function putStructs(request: Message, structs: Structs): void {
  for (const [name, value] of structs) (request as Message & Record<string, unknown>)[name] = value;
}

/** Splits a request that was read from JSON. Leaves to the library what it refuses. */
export function splitJson(
  schema: DescMessage,
  json: JsonValue,
): { readonly rest: JsonValue; readonly structs: Structs } {
  const structs = new Map<string, JsonObject>();
  if (!isObject(json)) return { rest: json, structs };
  const rest = { ...json };
  for (const { name, jsonName, localName } of structFieldsOf(schema)) {
    const given = [...new Set([jsonName, name])].filter((each) => Object.hasOwn(rest, each));
    const value = rest[given[0] ?? ""];
    // The library refuses a field that is given under both names.
    if (given.length !== 1 || !isObject(value)) continue;
    structs.set(localName, value);
    delete rest[given[0] ?? ""];
  }
  return { rest, structs };
}

/**
 * Splits an encoded request. Undefined if nothing can be split off, or the bytes have not exactly the form in which encoders write
 * a message: a repeated or an unknown record is read by the library, with all of the request.
 */
export function* splitBinary(schema: DescMessage, bytes: Uint8Array): Work<SplitBytes | undefined> {
  const wanted = new Map(structFieldsOf(schema).map((field) => [field.number, field]));
  if (wanted.size === 0) return undefined;
  try {
    return yield* new Splitting(schema, bytes, wanted).split();
  } catch {
    // Malformed, which the library reports.
    return undefined;
  }
}

function structFieldsOf(schema: DescMessage): readonly DescField[] {
  return schema.fields.filter(
    (field) =>
      field.fieldKind === "message" && field.message.typeName === StructSchema.typeName && field.oneof === undefined,
  );
}

const isObject = (value: JsonValue | undefined): value is JsonObject =>
  typeof value === "object" && value !== null && !Array.isArray(value);

/** Values that are read between two looks at the clock. */
const PIECE = 512;
/** Maximum nested messages: above the deepest that is accepted. */
const MAX_DEPTH = 256;
/** Fields of `google.protobuf.Value`. */
const NULL = 1;
const NUMBER = 2;
const TEXT = 3;
const BOOLEAN = 4;
const STRUCT = 5;
const LIST = 6;

class Splitting {
  readonly #schema: DescMessage;
  readonly #bytes: Uint8Array;
  readonly #wanted: ReadonlyMap<number, DescField>;
  readonly #reader: BinaryReader;
  #values = 0;

  constructor(schema: DescMessage, bytes: Uint8Array, wanted: ReadonlyMap<number, DescField>) {
    this.#schema = schema;
    this.#bytes = bytes;
    this.#wanted = wanted;
    this.#reader = new BinaryReader(bytes);
  }

  *split(): Work<SplitBytes | undefined> {
    const reader = this.#reader;
    const fields = fieldsOf(this.#schema);
    const kept: Uint8Array[] = [];
    const structs = new Map<string, JsonObject>();
    while (reader.pos < this.#bytes.length) {
      const start = reader.pos;
      const [number, type] = reader.tag();
      const wanted = this.#wanted.get(number);
      if (wanted === undefined) {
        // The library goes by the type of the field, and `skip` by that of the record.
        assertUsual(isUsual(fields.get(number), type));
        reader.skip(type, number);
        kept.push(this.#bytes.subarray(start, reader.pos));
      } else {
        assertUsual(type === WireType.LengthDelimited && !structs.has(wanted.localName));
        structs.set(wanted.localName, yield* this.#struct(this.#end(this.#bytes.length), 1));
      }
    }
    return structs.size === 0 ? undefined : { rest: new Uint8Array(Buffer.concat(kept)), structs };
  }

  *#struct(end: number, depth: number): Work<JsonObject> {
    const reader = this.#reader;
    const object: JsonObject = {};
    while (reader.pos < end) {
      this.#expect(1, WireType.LengthDelimited);
      const entryEnd = this.#end(end);
      this.#expect(1, WireType.LengthDelimited);
      const name = reader.string(true);
      this.#expect(2, WireType.LengthDelimited);
      const value = yield* this.#value(this.#end(entryEnd), depth + 1);
      assertUsual(reader.pos === entryEnd);
      // An assignment would set the prototype.
      if (name === "__proto__") Object.defineProperty(object, name, { value, ...PLAIN });
      else object[name] = value;
    }
    assertUsual(reader.pos === end);
    return object;
  }

  *#value(end: number, depth: number): Work<JsonValue> {
    assertUsual(depth <= MAX_DEPTH);
    if (++this.#values % PIECE === 0) yield;
    const [number, type] = this.#reader.tag();
    assertUsual(type === TYPES.get(number));
    const value = yield* this.#kind(number, end, depth);
    assertUsual(this.#reader.pos === end);
    return value;
  }

  *#kind(number: number, end: number, depth: number): Work<JsonValue> {
    const reader = this.#reader;
    switch (number) {
      case NULL:
        assertUsual(reader.uint32() === 0);
        return null;
      case NUMBER:
        return reader.double();
      case TEXT:
        return reader.string(true);
      case BOOLEAN:
        return reader.bool();
      case STRUCT:
        return yield* this.#struct(this.#end(end), depth + 1);
      default:
        return yield* this.#list(this.#end(end), depth + 1);
    }
  }

  *#list(end: number, depth: number): Work<JsonValue[]> {
    const items: JsonValue[] = [];
    while (this.#reader.pos < end) {
      this.#expect(1, WireType.LengthDelimited);
      items.push(yield* this.#value(this.#end(end), depth + 1));
    }
    assertUsual(this.#reader.pos === end);
    return items;
  }

  #expect(number: number, type: WireType): void {
    const [foundNumber, foundType] = this.#reader.tag();
    assertUsual(foundNumber === number && foundType === type);
  }

  /** Reads a length and returns the index at which it ends. */
  #end(outer: number): number {
    const end = this.#reader.uint32() + this.#reader.pos;
    assertUsual(end <= outer);
    return end;
  }
}

const PLAIN = { configurable: true, enumerable: true, writable: true };
const TYPES: ReadonlyMap<number, WireType> = new Map([
  [NULL, WireType.Varint],
  [NUMBER, WireType.Bit64],
  [TEXT, WireType.LengthDelimited],
  [BOOLEAN, WireType.Varint],
  [STRUCT, WireType.LengthDelimited],
  [LIST, WireType.LengthDelimited],
]);

/** Tests whether a record has the wire type of its field. A list of scalars may be packed. */
function isUsual(field: DescField | undefined, type: WireType): boolean {
  if (field === undefined) return type !== WireType.StartGroup && type !== WireType.EndGroup;
  if (field.fieldKind === "map" || field.message !== undefined) return type === WireType.LengthDelimited;
  return type === wireTypeOf(field.scalar) || (field.fieldKind === "list" && type === WireType.LengthDelimited);
}

function assertUsual(isSo: boolean): void {
  if (!isSo) throw new Error("the message is not in the form in which encoders write it");
}
