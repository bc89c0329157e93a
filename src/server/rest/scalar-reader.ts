import { type DescEnum, ScalarType } from "@bufbuild/protobuf";
import { enumWordsFromDesc } from "./enum-words.ts";
import { fieldFault, fieldPathText, type PathStep } from "./field-path.ts";
import { bytesFromBase64 } from "./json-values.ts";
import { is64Bit } from "./well-known.ts";

/** What travels along while one JSON value is decoded. */
export interface DecodeContext {
  /** The way from the root to the object or list that is being read. */
  readonly path: PathStep[];
  /** Members of objects seen so far; compared with the text's own count to find repeated keys. */
  members: number;
  /** Whether strings must be searched for half surrogate pairs. */
  readonly mayHoldLoneSurrogate: boolean;
}

/** Turns a parsed JSON value into the form that messages hold; `key` is its place under `context.path`. Throws INVALID_FIELD. */
export type JsonReader = (json: unknown, context: DecodeContext, key: PathStep) => unknown;

/** Refuses the value at `key`: `description` completes the sentence that starts with the path. */
export function refuse(context: DecodeContext, key: PathStep, description: string): never {
  throw fieldFault("INVALID_FIELD", fieldPathText([...context.path, key]), description);
}

/** Refuses a value for its JSON type. */
export function refuseType(json: unknown, context: DecodeContext, key: PathStep, wanted: string): never {
  return refuse(context, key, `must be ${wanted}, not ${jsonTypeName(json)}`);
}

function jsonTypeName(json: unknown): string {
  if (json === null) return "null";
  if (Array.isArray(json)) return "an array";
  return typeof json === "object" ? "an object" : `a ${typeof json}`;
}

/** Whether a JSON value is an object, which lists and `null` are not. */
export function isJsonObject(json: unknown): json is Record<string, unknown> {
  return typeof json === "object" && json !== null && !Array.isArray(json);
}

/** Reads a JSON string that holds no half of a surrogate pair. */
export function readString(json: unknown, context: DecodeContext, key: PathStep): string {
  if (typeof json !== "string") return refuseType(json, context, key, "a string");
  if (context.mayHoldLoneSurrogate && !json.isWellFormed()) refuse(context, key, "holds half of a surrogate pair");
  return json;
}

/** The reader of a scalar type. `longAsString` as in the field's descriptor. */
export function scalarReader(scalar: ScalarType, longAsString: boolean): JsonReader {
  if (is64Bit(scalar)) return int64Reader(isUnsigned(scalar), longAsString);
  switch (scalar) {
    case ScalarType.STRING:
      return readString;
    case ScalarType.BOOL:
      return readBool;
    case ScalarType.BYTES:
      return readBytes;
    case ScalarType.DOUBLE:
      return readDouble;
    case ScalarType.FLOAT:
      return readFloat;
    default:
      return int32Reader(isUnsigned(scalar));
  }
}

function isUnsigned(scalar: ScalarType): boolean {
  const unsigned = [ScalarType.UINT32, ScalarType.FIXED32, ScalarType.UINT64, ScalarType.FIXED64];
  return unsigned.includes(scalar);
}

const readBool: JsonReader = (json, context, key) =>
  typeof json === "boolean" ? json : refuseType(json, context, key, "true or false");

const readBytes: JsonReader = (json, context, key) => {
  if (typeof json !== "string") return refuseType(json, context, key, "a base64 string");
  return bytesFromBase64(json) ?? refuse(context, key, "must be base64");
};

function readDouble(json: unknown, context: DecodeContext, key: PathStep): number {
  if (typeof json !== "number") return refuseType(json, context, key, "a number");
  return Number.isFinite(json) ? json : refuse(context, key, "is too large for a 64-bit float");
}

const readFloat: JsonReader = (json, context, key) => {
  const float = Math.fround(readDouble(json, context, key));
  return Number.isFinite(float) ? float : refuse(context, key, "is too large for a 32-bit float");
};

function int32Reader(unsigned: boolean): JsonReader {
  const [least, most] = unsigned ? [0, 2 ** 32 - 1] : [-(2 ** 31), 2 ** 31 - 1];
  return (json, context, key) => {
    if (typeof json !== "number") return refuseType(json, context, key, "an integer");
    if (Number.isInteger(json) && json >= least && json <= most) return json;
    return refuse(context, key, `must be an integer from ${least} to ${most}`);
  };
}

const DECIMAL = /^-?\d{1,20}$/;

function int64Reader(unsigned: boolean, longAsString: boolean): JsonReader {
  const [least, most] = unsigned ? [0n, 2n ** 64n - 1n] : [-(2n ** 63n), 2n ** 63n - 1n];
  return (json, context, key) => {
    const value = bigintFromJson(json, context, key);
    if (value < least || value > most) refuse(context, key, `must be an integer from ${least} to ${most}`);
    return longAsString ? value.toString() : value;
  };
}

// Past 2^53−1 the parser has already rounded a number, so only the digits of a string are to be trusted.
function bigintFromJson(json: unknown, context: DecodeContext, key: PathStep): bigint {
  if (typeof json === "number" && Number.isSafeInteger(json)) return BigInt(json);
  if (typeof json === "string" && DECIMAL.test(json)) return BigInt(json);
  if (typeof json === "number" && Number.isInteger(json)) {
    return refuse(context, key, "must be written as a string of digits beyond 2^53-1");
  }
  if (typeof json === "number" || typeof json === "string") return refuse(context, key, "must be an integer");
  return refuseType(json, context, key, "an integer");
}

/** The reader of an enum type: takes a word or a full protobuf name. */
export function enumReader(desc: DescEnum): JsonReader {
  const { numberByWord, words } = enumWordsFromDesc(desc);
  if (desc.typeName === "google.protobuf.NullValue") return readNull;
  const wanted = `one of ${words.map((word) => `\`${word}\``).join(", ")}`;
  return (json, context, key) => {
    if (typeof json !== "string") return refuseType(json, context, key, wanted);
    return numberByWord.get(json) ?? refuse(context, key, `must be ${wanted}`);
  };
}

const readNull: JsonReader = (json, context, key) => (json === null ? 0 : refuseType(json, context, key, "null"));
