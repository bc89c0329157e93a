import { type DescMessage, fromBinary, fromJsonString, type Message } from "@bufbuild/protobuf";
import { ControlPlaneError, ErrorReason } from "../errors.ts";
import { tooDeep } from "./refusals.ts";
import { parseJson } from "./rest/json-text.ts";

/** Reads a message from bytes. Throws a `ControlPlaneError` for bytes that are none. */
export type MessageDecoder = (bytes: Uint8Array) => Message;

const TOO_DEEP = /recursion depth/;
const JSON_FAULTS: readonly (readonly [RegExp, ErrorReason])[] = [
  [/is unknown$/, ErrorReason.UNKNOWN_FIELD],
  [/duplicate object key|set multiple times/, ErrorReason.DUPLICATE_FIELD],
];

/**
 * Decodes the binary form. Nesting is bounded while decoding: one JSON bracket is two messages inside a
 * `google.protobuf.Struct`, so the exact limit of `maxDepth` brackets is left to the check of the request.
 */
export function createBinaryDecoder(schema: DescMessage, maxDepth: number): MessageDecoder {
  const options = { recursionLimit: 2 * maxDepth + 8 };
  return (bytes) => {
    try {
      return fromBinary(schema, bytes, options);
    } catch (cause) {
      throw TOO_DEEP.test(String(cause)) ? tooDeep(maxDepth) : malformed(schema, cause);
    }
  };
}

/** Decodes the standard JSON form, as Connect clients send it; unknown and repeated fields are refused as REST does. */
export function createJsonDecoder(schema: DescMessage, maxDepth: number): MessageDecoder {
  const options = { recursionLimit: 2 * maxDepth + 8, ignoreUnknownFields: false };
  return (bytes) => {
    const { text } = parseJson(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength), maxDepth);
    try {
      return fromJsonString(schema, text, options);
    } catch (cause) {
      throw TOO_DEEP.test(String(cause)) ? tooDeep(maxDepth) : jsonFault(cause);
    }
  };
}

function malformed({ typeName }: DescMessage, cause: unknown): ControlPlaneError {
  const text = `the request is no valid \`${typeName}\` message`;
  return new ControlPlaneError(ErrorReason.INVALID_FIELD, text, { message_type: typeName }, { cause });
}

const FIELD = /cannot decode field [\w.]*?(\w+) from JSON: (.+)$/;
const KEY = /key "([^"]*)"/;

// protobuf-es says what is wrong only in words; the field's name and the reason are read from them.
function jsonFault(cause: unknown): ControlPlaneError {
  const words = cause instanceof Error ? cause.message.replaceAll(/\s+/g, " ") : String(cause);
  const reason = JSON_FAULTS.find(([pattern]) => pattern.test(words))?.[1] ?? ErrorReason.INVALID_FIELD;
  const [, named, problem] = FIELD.exec(words) ?? [];
  const field = named ?? KEY.exec(words)?.[1] ?? "";
  const text =
    field === ""
      ? words
      : `\`${field}\` ${problem ?? (reason === ErrorReason.UNKNOWN_FIELD ? "is unknown" : "is given more than once")}`;
  const violations = [{ field, description: text, reason: ErrorReason[reason] }];
  return new ControlPlaneError(reason, text, { field }, { cause, violations });
}
