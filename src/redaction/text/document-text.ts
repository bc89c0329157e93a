import type { Work } from "../../async/work.ts";
import { type JsonBounds, JsonFault, jsonReading } from "../../json/read-json.ts";

/** Bounds of a JSON document in a text. */
const DOCUMENT_BOUNDS: JsonBounds = { maxDepth: 128, maxValues: 250_000 };
const DOCUMENT = /^\s*[{["]/;
const TOKEN_START = /["\d-]/g;
const NUMBER = /-?\d[-+.0-9eE]*|-/y;
const BACKSLASH = 0x5c;
/** Tokens that are replaced between two looks at the clock. */
const PIECE = 256;

/**
 * Tests whether a text is a JSON document with members or items. Throws a `JsonFault` for one that is too large or nests too
 * deeply.
 */
export function* isJsonDocument(text: string): Work<boolean> {
  if (!DOCUMENT.test(text)) return false;
  try {
    yield* jsonReading(text, DOCUMENT_BOUNDS);
    return true;
  } catch (error) {
    if (error instanceof JsonFault && error.kind === "malformed") return false;
    throw error;
  }
}

/**
 * Hides the personal values of one text. In a JSON document, such as the arguments and results of tools, it hides them in the
 * decoded strings and numbers, so that escapes cannot conceal a value and the text stays JSON. Throws as `isJsonDocument` does.
 */
export function* hideInText(hide: (text: string) => string, text: string): Work<string> {
  if (!(yield* isJsonDocument(text))) return hide(text);
  const out: string[] = [];
  let from = 0;
  for (let start = nextToken(text, 0), count = 1; start !== -1; start = nextToken(text, from), count++) {
    const end = tokenEnd(text, start);
    const token = text.slice(start, end);
    const said = token.startsWith('"') ? (JSON.parse(token) as string) : token;
    const hidden = yield* hideInText(hide, said);
    out.push(text.slice(from, start), hidden === said ? token : JSON.stringify(hidden));
    from = end;
    if (count % PIECE === 0) yield;
  }
  out.push(text.slice(from));
  return out.join("");
}

/** Returns the index of the next string or number of a document; -1 if there is none. */
function nextToken(text: string, from: number): number {
  TOKEN_START.lastIndex = from;
  return TOKEN_START.exec(text)?.index ?? -1;
}

/** Returns the index behind the string or number that begins at `start`. */
function tokenEnd(text: string, start: number): number {
  if (text[start] !== '"') {
    NUMBER.lastIndex = start;
    NUMBER.test(text);
    return NUMBER.lastIndex;
  }
  for (let end = text.indexOf('"', start + 1); ; end = text.indexOf('"', end + 1)) {
    let backslash = end - 1;
    while (text.charCodeAt(backslash) === BACKSLASH) backslash--;
    if ((end - backslash) % 2 === 1) return end + 1;
  }
}
