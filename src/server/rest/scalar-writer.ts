import { ScalarType } from "@bufbuild/protobuf";
import { jsonBytes, jsonDouble, jsonFloat, jsonInt64, jsonString } from "./json-values.ts";
import { is64Bit } from "./well-known.ts";

/** Writes one value, in the form that generated messages hold it, as JSON text. */
export type JsonWriter = (value: unknown) => string;

/** The writer of a scalar type. */
export function scalarWriter(scalar: ScalarType): JsonWriter {
  if (is64Bit(scalar)) return (value) => jsonInt64(value as bigint | string);
  switch (scalar) {
    case ScalarType.STRING:
      return (value) => jsonString(value as string);
    case ScalarType.BYTES:
      return (value) => jsonBytes(value as Uint8Array);
    case ScalarType.DOUBLE:
      return (value) => jsonDouble(value as number);
    case ScalarType.FLOAT:
      return (value) => jsonFloat(value as number);
    default:
      return (value) => `${value as number | boolean}`;
  }
}
