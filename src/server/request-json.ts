import { isUtf8 } from "node:buffer";
import { ControlPlaneError, ErrorReason } from "../errors.ts";
import { JsonFault, readCountedJson } from "../json/read-json.ts";
import { tooDeep, tooManyValues } from "./errors.ts";
import { weightOf } from "./large-requests.ts";
import { MAX_VALUES, type ValueBounds } from "./request-bounds.ts";
import { fieldFault, fieldPathText } from "./rest/field-path.ts";

/** A JSON text and its value. */
export interface ParsedJson {
  readonly text: string;
  readonly value: unknown;
  /** Size of the request by which it waits among the large ones. */
  readonly weight: number;
}

/**
 * Parses the JSON body of a request over several turns of the event loop. Rejects with MALFORMED_JSON for invalid UTF-8 and
 * invalid JSON, with DUPLICATE_FIELD for an object that repeats a key, and, before anything is built, with BODY_TOO_DEEP for more
 * than `maxDepth` nested brackets and with BODY_TOO_LARGE for more values than `bounds` allow. Default of these: `MAX_VALUES`.
 */
export async function readRequestJson(
  bytes: Buffer,
  maxDepth: number,
  bounds: ValueBounds = { maxValues: MAX_VALUES },
): Promise<ParsedJson> {
  if (!isUtf8(bytes)) throw malformed("is not valid utf-8");
  const text = bytes.toString("utf8");
  try {
    const { maxValues } = bounds;
    const { value, values } = await readCountedJson(text, { maxDepth, maxValues, hasUniqueMembers: true });
    return { text, value, weight: weightOf(bytes.length, values) };
  } catch (error) {
    throw error instanceof JsonFault ? refusalFrom(error, maxDepth, bounds) : error;
  }
}

function refusalFrom({ kind, path, position }: JsonFault, maxDepth: number, bounds: ValueBounds): ControlPlaneError {
  switch (kind) {
    case "too_deep":
      return tooDeep(maxDepth);
    case "too_many_values":
      return tooManyValues(bounds);
    case "repeated_member":
      return fieldFault("DUPLICATE_FIELD", fieldPathText(path), "is given more than once");
    case "malformed":
      return malformed(position === undefined ? "is not valid json" : `is not valid json at position ${position}`);
  }
}

function malformed(why: string): ControlPlaneError {
  return new ControlPlaneError(ErrorReason.MALFORMED_JSON, `the request body ${why}`);
}
