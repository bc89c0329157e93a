import { isUtf8 } from "node:buffer";
import { ControlPlaneError, ErrorReason } from "../../errors.ts";
import { MAX_VALUES, tooDeep, tooManyValues } from "../errors.ts";
import { fieldFault, fieldPathText, type PathStep } from "./field-path.ts";

const QUOTE = 0x22;
const COMMA = 0x2c;
const OPEN_BRACKET = 0x5b;
const BACKSLASH = 0x5c;
const CLOSE_BRACKET = 0x5d;
const OPEN_BRACE = 0x7b;
const CLOSE_BRACE = 0x7d;

/** A JSON text and its value. */
export interface ParsedJson {
  readonly text: string;
  readonly value: unknown;
}

/**
 * Parses a JSON body. Refuses invalid UTF-8 and invalid JSON (MALFORMED_JSON), text that opens more than `maxDepth`
 * brackets at once (BODY_TOO_DEEP; before anything is built from it), and an object that repeats a key (DUPLICATE_FIELD).
 */
export function parseJson(bytes: Buffer, maxDepth: number): ParsedJson {
  if (!isUtf8(bytes)) throw malformed("is not valid utf-8");
  const text = bytes.toString("utf8");
  const repeated = findRepeatedKey(text, maxDepth);
  const value = parsed(text);
  // The scan assumes valid JSON, so its finding counts only after the parser has accepted the text.
  if (repeated !== undefined) throw fieldFault("DUPLICATE_FIELD", fieldPathText(repeated), "is given more than once");
  return { text, value };
}

/** An open bracket. */
interface Container {
  /** Keys seen so far: none, one, or a set of several, since most objects are small; undefined inside an array. */
  keys: Set<string> | string | null | undefined;
  /** The current key or index. */
  step: PathStep;
  expectsKey: boolean;
}

/** Finds the path of the first repeated key, and bounds depth and the number of commas and brackets, in one pass. */
function findRepeatedKey(text: string, maxDepth: number): readonly PathStep[] | undefined {
  const open: Container[] = [];
  let repeated: readonly PathStep[] | undefined;
  let items = 0;
  for (let index = 0; index < text.length; index++) {
    const char = text.charCodeAt(index);
    if (char === QUOTE) {
      const end = endOfString(text, index);
      const container = open.at(-1);
      if (container?.expectsKey && !addKey(container, text.slice(index, end + 1))) {
        repeated ??= open.map(({ step }) => step);
      }
      index = end;
    } else if (char === COMMA) {
      items++;
      nextItem(open.at(-1));
    } else if (char === OPEN_BRACE) {
      items++;
      open.push({ keys: null, step: "", expectsKey: true });
    } else if (char === OPEN_BRACKET) {
      items++;
      open.push({ keys: undefined, step: 0, expectsKey: false });
    } else if (char === CLOSE_BRACE || char === CLOSE_BRACKET) open.pop();
    if (open.length > maxDepth) throw tooDeep(maxDepth);
    if (items > MAX_VALUES) throw tooManyValues();
  }
  return repeated;
}

/** Returns the index of the quote that ends the string opened at `start`, or the text's length if none does. */
function endOfString(text: string, start: number): number {
  for (let end = text.indexOf('"', start + 1); end >= 0; end = text.indexOf('"', end + 1)) {
    let backslash = end - 1;
    while (text.charCodeAt(backslash) === BACKSLASH) backslash--;
    if ((end - backslash) % 2 === 1) return end;
  }
  return text.length;
}

function nextItem(container: Container | undefined): void {
  if (container === undefined) return;
  if (typeof container.step === "number") container.step += 1;
  else container.expectsKey = true;
}

/** Adds a key; returns false if the object has it already. */
function addKey(container: Container, quoted: string): boolean {
  const key = keyFromQuoted(quoted);
  container.step = key;
  container.expectsKey = false;
  const { keys } = container;
  if (keys === null) container.keys = key;
  else if (typeof keys === "string") container.keys = new Set([keys]);
  if (typeof container.keys !== "object") return true;
  if (container.keys?.has(key)) return false;
  container.keys?.add(key);
  return true;
}

// `"a"` and `"\u0061"` are the same key. The parser reports malformed escapes.
function keyFromQuoted(quoted: string): string {
  if (!quoted.includes("\\")) return quoted.slice(1, -1);
  try {
    return JSON.parse(quoted);
  } catch {
    return quoted;
  }
}

function parsed(text: string): unknown {
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
