import type { JsonObject } from "@bufbuild/protobuf";
import { isToolName } from "../notation/tool-name.ts";
import { fold, invisibleIn } from "../text/fold.ts";
import { isJsonObject, ownValue } from "./json-value.ts";

/**
 * Names that people and models write: action types, tools and MCP servers; and the names that people give to
 * departments, agents, mandates and packs. Two spellings that look or act the same are one name; a spelling that can pass for
 * another name is refused.
 */

/** Maximum characters of a normalised name, and of a name as it is written, where letters may stand apart from their marks. */
const MAX_NAME = 256;
const MAX_WRITTEN = 1_024;

/** Rule for a tool's name, as the rest of a sentence about it. */
export const TOOL_NAME_RULE =
  "must begin with a letter, digit or `_`, and have at most 256 letters, digits, spaces and characters of `._:/@#$+-`, all of ASCII";

// UAX 31's recommended scripts, by the groups that UTS 39 ("highly restrictive") lets stand together. ASCII letters are Latin.
const LATIN = "\\p{scx=Latn}A-Za-z";
const OTHER_SCRIPTS = [
  "Arab",
  "Armn",
  "Beng",
  "Cyrl",
  "Deva",
  "Ethi",
  "Geor",
  "Grek",
  "Gujr",
  "Guru",
  "Hebr",
  "Khmr",
  "Knda",
  "Laoo",
  "Mlym",
  "Mymr",
  "Orya",
  "Sinh",
  "Taml",
  "Telu",
  "Thaa",
  "Thai",
  "Tibt",
];
/** Scripts of limited use (UAX 31), which only the names that people give may have. */
const LIMITED_SCRIPTS = [
  "Adlm",
  "Bali",
  "Bamu",
  "Batk",
  "Cakm",
  "Cans",
  "Cham",
  "Cher",
  "Hmnp",
  "Java",
  "Kali",
  "Lana",
  "Lepc",
  "Limb",
  "Lisu",
  "Mand",
  "Mong",
  "Mtei",
  "Newa",
  "Nkoo",
  "Olck",
  "Osge",
  "Plrd",
  "Rohg",
  "Saur",
  "Sund",
  "Sylo",
  "Syrc",
  "Tale",
  "Talu",
  "Tavt",
  "Tfng",
  "Vaii",
  "Wcho",
  "Yiii",
];
const GROUPS = [
  LATIN,
  `${LATIN}\\p{scx=Hani}\\p{scx=Hira}\\p{scx=Kana}`,
  `${LATIN}\\p{scx=Hani}\\p{scx=Bopo}`,
  `${LATIN}\\p{scx=Hani}\\p{scx=Hang}`,
  ...OTHER_SCRIPTS.map((script) => `\\p{scx=${script}}`),
];
const NEUTRAL = "\\u0020-\\u0040\\u005b-\\u0060\\u007b-\\u007e";
const ONE_SCRIPT = new RegExp(GROUPS.map((group) => `^[${group}${NEUTRAL}]*$`).join("|"), "u");
const PRINTABLE = /^[ -~]*$/;
const LETTER = /^[\p{L}\p{Nd}\p{M}]$/u;
const SIGN_WITHOUT_SCRIPT = "\\p{scx=Zyyy}";
const ONE_SCRIPT_WITH_SIGNS = new RegExp(
  [...GROUPS, ...LIMITED_SCRIPTS.map((script) => `\\p{scx=${script}}`)]
    .map((group) => `^[${group}${NEUTRAL}${SIGN_WITHOUT_SCRIPT}]*$`)
    .join("|"),
  "u",
);
/** Spaces, letters, marks, digits and signs, without the signs that show nothing or stand for a missing character. */
const SEEN = /^[ \p{L}\p{M}\p{N}\p{P}\p{S}]$/u;
const BLANK_SIGN = /^[\ufffc\ufffd\u{1d159}]$/u;

/** Normalises a name: names compare as values do. */
export const normaliseName = fold;

const named = (character: string): string =>
  `U+${(character.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, "0")}`;

/**
 * Explains why a text is not a name, as the rest of a sentence about it; undefined for a name. After normalisation, a name has
 * printable ASCII, and letters, digits and marks of one script (UTS 39; Latin may stand with Han, Kana or Hangul). A blank text
 * is a name here.
 */
export function nameFault(text: string): string | undefined {
  const written = text.trim();
  // Before it is folded, which may make it eighteen times as long.
  if (written.length > MAX_WRITTEN) return TOO_LONG;
  if (PRINTABLE.test(text)) return written.length <= MAX_NAME ? undefined : TOO_LONG;
  const invisible = invisibleIn(text);
  if (invisible !== undefined) return `must not hold ${named(invisible)}, which is invisible`;
  const name = normaliseName(text);
  if (name.length > MAX_NAME) return TOO_LONG;
  for (const character of name) {
    if (character >= " " && character <= "~") continue;
    if (!LETTER.test(character)) return `must not hold ${named(character)}; use letters, digits and signs of ASCII`;
  }
  return scriptFault(name, ONE_SCRIPT);
}

const TOO_LONG = `must have at most ${MAX_NAME} characters`;

function scriptFault(name: string, oneScript: RegExp): string | undefined {
  if (oneScript.test(name)) return undefined;
  // The first character that no group of scripts shares with the characters before it.
  const characters = [...name];
  const index = characters.findIndex((_, at) => !oneScript.test(characters.slice(0, at + 1).join("")));
  return `mixes scripts (${named(characters[index] ?? "")}); write it in one`;
}

/** Returns the form in which names that people give are compared: normalised, with single spaces. */
export const comparableName = (name: string): string => normaliseName(name).replace(/ +/g, " ");

/**
 * Explains why a text is not a name that people give to a department, an agent, a mandate or a pack, as the rest of a sentence
 * about it; undefined for a name. It has letters of one script (UTS 39; Latin may stand with Han, Kana or Hangul), and any
 * digits, spaces and signs that can be seen.
 */
export function givenNameFault(text: string): string | undefined {
  const invisible = invisibleIn(text);
  if (invisible !== undefined) return `must not hold ${named(invisible)}, which is invisible`;
  const name = comparableName(text);
  if (name === "") return "must not be blank";
  const unseen = [...name].find((character) => !SEEN.test(character) || BLANK_SIGN.test(character));
  if (unseen !== undefined)
    return `must not hold ${named(unseen)}; use letters, digits, spaces and signs that can be seen`;
  return scriptFault(name, ONE_SCRIPT_WITH_SIGNS);
}

const TOOL_CHARACTER = /^[A-Za-z0-9 ._:/@#$+-]$/;

/** Explains why a trimmed text is not a tool's name, as the rest of a sentence about it; undefined for a name. */
export function toolNameFault(text: string): string | undefined {
  if (isToolName(text)) return undefined;
  const foreign = [...text].find((character) => !TOOL_CHARACTER.test(character));
  return foreign === undefined ? TOOL_NAME_RULE : `must not hold ${named(foreign)}; it ${TOOL_NAME_RULE}`;
}

/** Returns the form in which the names of tools are compared: without case. */
export const toolKey = (name: string): string => name.trim().toLowerCase();

/** Returns the arguments that rules read: `metadata.arguments` if it is an object, else the metadata itself. */
export function argumentsFrom(metadata: JsonObject | undefined): JsonObject | undefined {
  if (metadata === undefined) return undefined;
  const nested = ownValue(metadata, "arguments");
  return isJsonObject(nested) ? nested : metadata;
}

/**
 * Returns the name of the tool that an action calls: the request's `tool`, else `metadata.tool`, else the action type if it
 * is a registered tool's name, as written or normalised. Blank names count as missing; undefined if all are missing.
 */
export function toolNameFrom(
  tool: string | undefined,
  metadata: JsonObject | undefined,
  actionType: string,
  isRegistered: (name: string) => boolean,
): string | undefined {
  if (tool !== undefined && tool.trim() !== "") return tool.trim();
  const named = metadata === undefined ? undefined : ownValue(metadata, "tool");
  if (typeof named === "string" && named.trim() !== "") return named.trim();
  const asWritten = actionType.trim();
  if (isRegistered(asWritten)) return asWritten;
  const normalised = normaliseName(actionType);
  return isRegistered(normalised) ? normalised : undefined;
}
