import { type DescField, type DescMessage, ScalarType } from "@bufbuild/protobuf";
import { WireType } from "@bufbuild/protobuf/wire";

/** Returns the wire type of a scalar, or of an enum if `scalar` is undefined. */
export function wireTypeOf(scalar: ScalarType | undefined): WireType {
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

/** Returns the fields of a message by their numbers. */
export function fieldsOf(schema: DescMessage): ReadonlyMap<number, DescField> {
  let fields = FIELDS.get(schema);
  if (fields === undefined) {
    fields = new Map(schema.fields.map((field) => [field.number, field]));
    FIELDS.set(schema, fields);
  }
  return fields;
}
