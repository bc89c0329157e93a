import { isUtf8 } from "node:buffer";
import { ControlPlaneError, ErrorReason } from "../../errors.ts";
import { fieldFault } from "./field-path.ts";
import { endOfJsonString, findDuplicateKey } from "./json-duplicate.ts";

/** A JSON text that was parsed, with what a decoder needs to know of the text itself. */
export interface ParsedJson {
  readonly text: string;
  readonly value: unknown;
  /** How many `key: value` pairs the text holds; the parsed value holds fewer when a key is repeated. */
  readonly members: number;
  /** False when no string of the text can hold half a surrogate pair. */
  readonly mayHoldLoneSurrogate: boolean;
}

const QUOTE = 0x22;
const COLON = 0x3a;
const OPEN_BRACKET = 0x5b;
const CLOSE_BRACKET = 0x5d;
const OPEN_BRACE = 0x7b;
const CLOSE_BRACE = 0x7d;

/**
 * Parses a request body. MUST refuse invalid UTF-8, invalid JSON (MALFORMED_JSON) and a text that nests
 * deeper than `maxDepth` brackets (BODY_TOO_DEEP) before anything is built from it.
 */
export function parseJson(bytes: Buffer, maxDepth: number): ParsedJson {
  if (!isUtf8(bytes)) throw malformed("is not valid utf-8");
  const text = bytes.toString("utf8");
  const members = countMembers(text, maxDepth);
  return { text, value: parsedValue(text), members, mayHoldLoneSurrogate: /\\u[dD]/.test(text) };
}

/**
 * Refuses a text in which an object repeats a key. `seen` is the number of members that the parsed value
 * turned out to have: counting is all the work a good text costs, and only a bad one is read again for its key.
 */
export function assertNoDuplicateKey(parsed: ParsedJson, seen: number): void {
  if (seen === parsed.members) return;
  throw fieldFault("DUPLICATE_FIELD", findDuplicateKey(parsed.text), "is given more than once");
}

function countMembers(text: string, maxDepth: number): number {
  let members = 0;
  let depth = 0;
  for (let index = 0; index < text.length; index++) {
    const char = text.charCodeAt(index);
    if (char === QUOTE) index = endOfJsonString(text, index);
    else if (char === COLON) members++;
    else if (char === OPEN_BRACE || char === OPEN_BRACKET) {
      if (++depth > maxDepth) throw tooDeep(maxDepth);
    } else if (char === CLOSE_BRACE || char === CLOSE_BRACKET) depth--;
  }
  return members;
}

function parsedValue(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (cause) {
    const position = /position (\d+)/.exec(String(cause))?.[1];
    throw malformed(position === undefined ? "is not valid json" : `is not valid json at position ${position}`, cause);
  }
}

function malformed(why: string, cause?: unknown): ControlPlaneError {
  return new ControlPlaneError(ErrorReason.MALFORMED_JSON, `the request body ${why}`, {}, { cause });
}

function tooDeep(maxDepth: number): ControlPlaneError {
  const text = `the request body nests deeper than ${maxDepth} levels`;
  return new ControlPlaneError(ErrorReason.BODY_TOO_DEEP, text, { max_depth: String(maxDepth) });
}
