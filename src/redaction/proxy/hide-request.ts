import type { Placeholders } from "../text/types.ts";
import {
  isMap,
  isMedia,
  isMediaMember,
  isOpaque,
  isPlainName,
  type Json,
  type JsonMap,
  notScrubbable,
} from "./protocol.ts";

/** How the body of a request is hidden. */
export interface HideOptions {
  readonly placeholders: Placeholders;
  /** Whether images, audio and files pass as they are; else they are refused. */
  readonly allowMedia: boolean;
}

const MEDIA_REFUSED =
  "is an image, audio or a file, which cannot be scrubbed; the workspace may allow it by `allow_media`";
const TOKENS_REFUSED = "holds token numbers, which cannot be scrubbed; send text";
/** Members that may hold text as numbers of tokens. */
const TOKEN_MEMBERS = new Set(["input", "prompt"]);
/** The tokens of a JSON document that say something. */
const JSON_TOKENS = /"(?:[^"\\]|\\.)*"|-?\d[-+.0-9eE]*/g;

function isJsonDocument(text: string): boolean {
  if (!/^\s*[{["]/.test(text)) return false;
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

/**
 * Hides the personal values of one text. A text that is a JSON document, as arguments and results of tools are, is hidden by
 * what it says: escapes in it hide nothing, and it stays JSON.
 */
export function hideText(placeholders: Placeholders, text: string): string {
  if (!isJsonDocument(text)) return placeholders.hide(text);
  return text.replace(JSON_TOKENS, (token) => {
    const said = token.startsWith('"') ? (JSON.parse(token) as string) : token;
    const hidden = hideText(placeholders, said);
    return hidden === said ? token : JSON.stringify(hidden);
  });
}

function assertNoTokens(name: string, path: string, list: readonly Json[]): void {
  if (!TOKEN_MEMBERS.has(name)) return;
  const areNumbers = (items: readonly Json[]): boolean => items.some((item) => typeof item === "number");
  if (areNumbers(list) || list.some((item) => Array.isArray(item) && areNumbers(item))) {
    throw notScrubbable(path, TOKENS_REFUSED);
  }
}

/**
 * The body of a request with placeholders for every personal value: in every text of it, whatever its member is called, and
 * in names of members that are not the protocol's. Throws NOT_SCRUBBABLE for what has no text.
 */
export function hideRequest({ placeholders, allowMedia }: HideOptions, body: Json): Json {
  const hideMember = (path: string, name: string, value: Json): [string, Json] => {
    if (!allowMedia && isMediaMember(name, value)) throw notScrubbable(path, MEDIA_REFUSED);
    const shown = isPlainName(name) ? name : hideText(placeholders, name);
    return [shown, isMediaMember(name, value) ? value : hide(path, name, value)];
  };

  const hideMap = (path: string, value: JsonMap): Json => {
    if (isMedia(value)) {
      if (allowMedia) return value;
      throw notScrubbable(path, MEDIA_REFUSED);
    }
    const at = (name: string): string => (path === "" ? name : `${path}.${name}`);
    // Names of foreign members are not repeated in errors: they may be personal.
    const pathOf = (name: string): string => (isPlainName(name) ? at(name) : path);
    return Object.fromEntries(Object.entries(value).map(([name, member]) => hideMember(pathOf(name), name, member)));
  };

  const hide = (path: string, name: string, value: Json): Json => {
    if (typeof value === "string") return isOpaque(name, value) ? value : hideText(placeholders, value);
    if (isMap(value)) return hideMap(path, value);
    if (!Array.isArray(value)) return value;
    assertNoTokens(name, path, value);
    return value.map((item: Json, index) => hide(`${path}[${index}]`, name, item));
  };

  return hide("", "", body);
}
