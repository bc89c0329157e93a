import type { JsonValue } from "@bufbuild/protobuf";
import { fold } from "../text/fold.ts";
import { accountForm, hostOf, numberForm, pathForm, textForm, urlForm } from "./forms.ts";

/** Finds the values of a text or of JSON that can be compared with arguments, each in its forms. */

const ADDRESS = /[\p{L}\p{N}.!#$%&'*+/=?^_`{|}~-]{1,64}@[\p{L}\p{N}-]+(?:\.[\p{L}\p{N}-]+)+/gu;
const URL = /[a-z][a-z0-9+.-]{1,20}:\/\/[^\s"'`<>()[\]{}|\\^]{1,2048}/giu;
const HOST = /(?<![\p{L}\p{N}@._-])(?:[\p{L}\p{N}_-]{1,63}\.)+[\p{L}]{2,63}(?![\p{L}\p{N}_-])/gu;
/** Blanks and apostrophes that separate thousands. */
const THOUSANDS = "[ \\u00a0\\u2009\\u202f'’]";
/** A number that is no part of a longer one, of a date or of a time, in whatever way that is written. */
const NUMBER = new RegExp(
  [
    String.raw`(?<![\p{L}\p{N}_.]|\p{N}[,:/-])`,
    // Not the three digits after thousands.
    String.raw`(?!(?<=(?<!\p{N})\d{1,3}${THOUSANDS})\d{3}(?!\p{N}))`,
    String.raw`[-+]?(?:\d{1,3}(?:,\d{3})+|\d{1,40})(?:\.\d{1,20})?`,
    String.raw`(?![\p{L}\p{N}_]|[.,:/-]\p{N})`,
    // Not thousands before three digits.
    String.raw`(?!(?<=(?<!\p{N})\d{1,3})${THOUSANDS}\d{3}(?!\p{N}))`,
  ].join(""),
  "gu",
);
const IBAN =
  /(?<![\p{L}\p{N}_])[a-z]{2}\d{2}(?:(?: [a-z0-9]{4}){2,7}(?: [a-z0-9]{1,3})?|[a-z0-9]{8,30})(?![\p{L}\p{N}_])/giu;
const DIGIT_GROUPS = /(?<![\p{L}\p{N}_])\+?\(?\d[\d ()./-]{4,38}\d(?![\p{L}\p{N}_])/gu;
/** Signs between which a path stands alone. */
const AROUND_PATHS = /[\s"'`<>|*?,;()[\]{}“”‘’«»]+/u;
const FILE_NAME = /^[^\\/]*[^\\/.]\.[\p{L}\p{N}]{1,8}$/u;
const WORD = /[\p{L}][\p{L}\p{M}\p{N}'’_-]{2,}/gu;
const QUOTED =
  /"([^"\n]{1,256})"|'([^'\n]{1,256})'|`([^`\n]{1,256})`|“([^”\n]{1,256})”|‘([^’\n]{1,256})’|«([^»\n]{1,256})»/gu;
/** Signs that end a sentence and not the value before them. Matches begin with the first of them: of a row each is looked at once. */
const CLOSING = /(?<![.,;:!?)\]}'"*”’»…])[.,;:!?)\]}'"*”’»…]+$/u;

const withoutClosing = (text: string): string => text.replace(CLOSING, "");

/** Lists the addresses in a text, in their form. */
export function addressesIn(text: string): string[] {
  // Most texts have none, which is quickly seen. So it is below.
  if (!text.includes("@")) return [];
  return [...text.matchAll(ADDRESS)].flatMap(([found]) => textForm(withoutClosing(found)) ?? []);
}

/** Lists the hosts in a text: of its URLs, and those that stand alone. That of an address is not one of them. */
export function hostsIn(text: string): string[] {
  if (!text.includes(".") && !text.includes("://")) return [];
  const ofUrls = urlsIn(text).flatMap((url) => hostOf(url) ?? []);
  const rest = text.replaceAll(URL, " ").replaceAll(ADDRESS, " ");
  return [...ofUrls, ...[...rest.matchAll(HOST)].flatMap(([found]) => hostOf(found) ?? [])];
}

/** Lists the URLs in a text, in their form. */
export function urlsIn(text: string): string[] {
  if (!text.includes("://")) return [];
  return [...text.matchAll(URL)].flatMap(([found]) => urlForm(withoutClosing(found)) ?? []);
}

/** Lists the strings in quotes of a text, in their form. */
export function quotedIn(text: string): string[] {
  return [...text.matchAll(QUOTED)].flatMap(
    ([, ...groups]) => textForm(groups.find((group) => group !== undefined) ?? "") ?? [],
  );
}

function pathsIn(text: string): string[] {
  const candidates = text.split(AROUND_PATHS).map(withoutClosing);
  return candidates
    .filter((each) => /[\\/]/.test(each) || FILE_NAME.test(each))
    .flatMap((each) => pathForm(each) ?? []);
}

/** Adds the values of a text to `into`. */
export function* findInText(text: string, into: Set<string>): Generator<undefined> {
  const add = (form: string | undefined): void => {
    if (form !== undefined) into.add(form);
  };
  for (const line of text.split(/\r\n|[\n\r\u2028\u2029]/u)) {
    findInLine(line, add);
    yield;
  }
}

/** Characters of a line that are searched at once, and by which pieces overlap. */
const PIECE = 4_096;
const OVERLAP = 300;

function findInLine(line: string, add: (form: string | undefined) => void): void {
  add(textForm(line));
  const colon = line.indexOf(": ");
  if (colon >= 0) add(textForm(line.slice(colon + 2)));
  for (let start = 0; start < line.length; start += PIECE - OVERLAP) {
    findInPiece(line.slice(start, start + PIECE), add);
    if (start + PIECE >= line.length) break;
  }
}

function findInPiece(text: string, add: (form: string | undefined) => void): void {
  for (const form of [...addressesIn(text), ...hostsIn(text), ...urlsIn(text), ...quotedIn(text)]) add(form);
  for (const pattern of [IBAN, DIGIT_GROUPS]) for (const [found] of text.matchAll(pattern)) add(accountForm(found));
  for (const [found] of text.matchAll(NUMBER)) add(numberForm(found));
  for (const path of pathsIn(text)) add(path);
  for (const [found] of text.matchAll(WORD)) add(fold(found));
}

/** Adds the values of JSON to `into`: its leaves, its keys, and the values in their texts. */
export function* findInJson(value: JsonValue, into: Set<string>): Generator<undefined> {
  const open: JsonValue[] = [value];
  while (open.length > 0) {
    const next = open.pop() as JsonValue;
    yield;
    if (typeof next === "string") {
      const whole = textForm(next);
      if (whole !== undefined) into.add(whole);
      yield* findInText(next, into);
    } else if (typeof next === "number") into.add(numberForm(next) ?? String(next));
    else if (Array.isArray(next)) for (const element of next) open.push(element);
    else if (typeof next === "object" && next !== null)
      for (const [key, member] of Object.entries(next)) {
        const form = textForm(key);
        if (form !== undefined) into.add(form);
        open.push(member);
      }
  }
}
