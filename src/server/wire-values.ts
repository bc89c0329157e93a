import { type DescField, type DescMessage, ScalarType } from "@bufbuild/protobuf";
import { BinaryReader, WireType } from "@bufbuild/protobuf/wire";
import { ControlPlaneError } from "../errors.ts";
import { MAX_VALUES, tooManyValues } from "./errors.ts";

/** Bytes up to which decoding a message is quick, whatever it holds. */
const SMALL = 2_048;

/**
 * Throws BODY_TOO_LARGE for the binary form of a message with more than `MAX_VALUES` fields and items, before anything is built
 * from it. The decoder merges a repeated record of a single message into the one before, at the price of copying it, so such a
 * record counts as all before it. Leaves to the decoder what it refuses: bytes that are no message of this type, and more than
 * `recursionLimit` messages inside each other.
 */
export function assertFewValues(schema: DescMessage, bytes: Uint8Array, recursionLimit: number): void {
  if (bytes.length <= SMALL) return;
  try {
    new ValueCount(bytes, recursionLimit).message(schema, bytes.length, 1);
  } catch (error) {
    if (error instanceof ControlPlaneError) throw error;
  }
}

/** Reads as the decoder does, which goes by the field's type and takes the wire type only for lists and unknown fields. */
class ValueCount {
  readonly #reader: BinaryReader;
  readonly #recursionLimit: number;
  #count = 0;

  constructor(bytes: Uint8Array, recursionLimit: number) {
    this.#reader = new BinaryReader(bytes);
    this.#recursionLimit = recursionLimit;
  }

  message(schema: DescMessage | undefined, end: number, depth: number): void {
    if (depth > this.#recursionLimit) throw new Error("too deep");
    let seen: Set<number> | undefined;
    while (this.#reader.pos < end) {
      const [number, type] = this.#reader.tag();
      if (type === WireType.EndGroup) return;
      const field = schema === undefined ? undefined : fieldsOf(schema).get(number);
      const isMerged = field?.fieldKind === "message" && seen?.has(number) === true;
      this.#add(isMerged ? this.#count : 1);
      if (field?.fieldKind === "message") seen = (seen ?? new Set()).add(number);
      this.#value(field, number, type, depth);
    }
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

  /** Reads an entry of a map: its key is field 1, its value field 2. The entry has been counted for the first of each. */
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
    if (this.#count > MAX_VALUES) throw tooManyValues();
  }
}

/** Returns the wire type of a scalar; of an enum for none. */
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
