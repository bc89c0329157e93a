import { isIPv6 } from "node:net";
import type { JsonValue } from "@bufbuild/protobuf";
import { fold } from "../text/fold.ts";
import { accountForm, hostOf, numberForm, pathForm, textForm, urlForm } from "./forms.ts";

/** Finds the values of a text or of JSON that can be compared with arguments, each in its forms. */

/** Signs of the labels of a host name. */
const LABEL = String.raw`\p{L}\p{M}\p{N}_`;
/** The local part begins where such signs do: a row of them is searched once, and a longer one is none. */
const ADDRESS =
  /(?<![\p{L}\p{N}.!#$%&'*+/=?^_`{|}~-])[\p{L}\p{N}.!#$%&'*+/=?^_`{|}~-]{1,64}@[\p{L}\p{M}\p{N}-]+(?:\.[\p{L}\p{M}\p{N}-]+)+/gu;
/** Signs that may stand before the `@` of a mention, such as `(@bob)`. */
const OPENING = "[\"'`([{<“‘«*]{0,3}";
/** The domain of what is like an address and is no mention. */
const DOMAIN = new RegExp(String.raw`@(?<!(?:^|\s)${OPENING}@)[${LABEL}.-]+`, "gu");
const URL =
  /(?<![a-z])[a-z][a-z0-9+.-]{1,20}:\/\/(?:\[[0-9a-f:.]{2,45}\][^\s"'`<>()[\]{}|\\^]{0,2048}|[^\s"'`<>()[\]{}|\\^]{1,2048})/giu;
/** Labels with single dots between. */
const LABELS = new RegExp(
  String.raw`(?=[${LABEL}])(?<![${LABEL}]-*)[${LABEL}]+(?:-+[${LABEL}]+)*(?:\.[${LABEL}]+(?:-+[${LABEL}]+)*)+`,
  "gu",
);
const HOST_NAME = /^.+\.(?:[\p{L}\p{M}]{2,63}|xn--[a-z0-9-]{1,59})(?![^.])/iu;
const IPV4 = /^(?:0x[0-9a-f]+|\d+)(?:\.(?:0x[0-9a-f]+|\d+)){3}$/iu;
const IPV6 = /(?<![\p{L}\p{N}_:])[0-9a-f]*:[0-9a-f:]+(?:\.\d{1,3}){0,3}(?![\p{L}\p{N}_:])/giu;
/** Ideographic dots, which separate labels as well. Between ideographs and kana they end a sentence. */
const IDEOGRAPHIC_DOT =
  /[。．｡](?<=[[\p{L}\p{M}\p{N}]--[\p{scx=Han}\p{scx=Hira}\p{scx=Kana}]].)(?=[[\p{L}\p{N}]--[\p{scx=Han}\p{scx=Hira}\p{scx=Kana}]])/gv;
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
/** Signs among which a path stands alone. */
const ALONE = /[^\s"'`<>|*?,;()[\]{}“”‘’«»]+/gu;
const FILE_NAME = /^[^\\/]*[^\\/.]\.[\p{L}\p{N}]{1,8}$/u;
/** Stands between words, as in `yes / no`, and names no folder. */
const ONLY_SLASHES = /^[\\/]+$/;
const WORD = /[\p{L}][\p{L}\p{M}\p{N}'’_-]{2,}/gu;
const QUOTED =
  /"([^"\n]{1,256})"|'([^'\n]{1,256})'|`([^`\n]{1,256})`|“([^“”\n]{1,256})”|‘([^‘’\n]{1,256})’|«([^«»\n]{1,256})»/gu;
/** Signs that end a sentence and not the value before them. Matches begin with the first of them: of a row each is looked at once. */
const CLOSING = /(?<![.,;:!?)\]}'"*”’»…])[.,;:!?)\]}'"*”’»…]+$/u;

const withoutClosing = (text: string): string => text.replace(CLOSING, "");

/** Part of a text in which values count. One that crosses its edges may go on beyond them. */
interface Span {
  readonly from: number;
  readonly to: number;
}

const wholeOf = (text: string): Span => ({ from: 0, to: text.length });

const matchesIn = (text: string, pattern: RegExp, { from, to }: Span): string[] =>
  [...text.matchAll(pattern)].flatMap(({ index, 0: found }) =>
    index >= from && index + found.length <= to ? found : [],
  );

const withDots = (text: string): string => text.replaceAll(IDEOGRAPHIC_DOT, ".");

/** Replaces what was found in a text by signs that are no part of an address, a URL or a host. */
const asTaken = (found: string): string => ">".repeat(found.length);

/** Lists the addresses in a text, in their form. */
export function addressesIn(text: string, span = wholeOf(text)): string[] {
  // Most texts have none, which is quickly seen. So it is below.
  if (!text.includes("@")) return [];
  return matchesIn(withDots(text), ADDRESS, span).flatMap((found) => textForm(found) ?? []);
}

/** Lists the hosts in a text: of its URLs, and those that stand alone. That of an address is not one of them. */
export function hostsIn(text: string, span = wholeOf(text)): string[] {
  if (!/[.。．｡]|:\/\/|:[0-9a-f]*:/iu.test(text)) return [];
  const dotted = withDots(text);
  const besideUrls = dotted.replaceAll(URL, asTaken);
  const rest = text.includes("@") ? besideUrls.replaceAll(ADDRESS, asTaken).replaceAll(DOMAIN, asTaken) : besideUrls;
  const names = matchesIn(rest, LABELS, span).flatMap((labels) => IPV4.exec(labels) ?? HOST_NAME.exec(labels) ?? []);
  const ofUrls = matchesIn(dotted, URL, span).map(withoutClosing);
  const bare = matchesIn(rest, IPV6, span).filter((found) => found !== "::" && isIPv6(found));
  return [...ofUrls, ...names, ...bare].flatMap((found) => hostOf(found) ?? []);
}

/** Lists the URLs in a text, in their form. */
export function urlsIn(text: string, span = wholeOf(text)): string[] {
  if (!text.includes("://")) return [];
  return matchesIn(text, URL, span).flatMap((found) => urlForm(withoutClosing(found)) ?? []);
}

/** Signs of an address or a host in a word in which neither was found. `(@bob)` and `3@5` have none. */
const ADDRESSING = new RegExp(
  [
    "[^\\s\"'`([{<“‘«*,;:/]@(?!\\d{1,4}(?![\\p{L}\\p{N}_.-]))[\\p{L}\\p{N}_[]",
    String.raw`@(?<!^${OPENING}@)(?:\[|[^\s@]*\.[\p{L}\p{N}])`,
    String.raw`:\/\/[\p{L}\p{N}[%]`,
    String.raw`(?:https?|ftp|wss?):[\\/]+[\p{L}\p{N}[%]`,
    // An emoji may be a label, and is none of a host that is found.
    String.raw`\p{So}\.\p{L}{2}`,
  ].join("|"),
  "iu",
);
/** Begins the form of such a word. No observed value begins so, and no list of hosts or domains takes what does. */
const UNREADABLE = "@ ";

/** Tests for a URL of which programs differ in the host. One without a host, such as that of a file, is none. */
const isUnreadableUrl = (url: string): boolean =>
  !/^(?:[^:]*:\/\/|file:\/\/\/(?!\/).*)$/su.test(url) && hostOf(url) === undefined;

/**
 * Lists what addresses somebody in a way of which programs differ in the address or the host: URLs such as those with a user name, in
 * their form, and words with an `@`, such as one behind a quoted local part, in a form that nothing else has.
 */
export function unreadableIn(text: string): string[] {
  if (!/[@:\p{So}]/u.test(text)) return [];
  const dotted = withDots(text);
  const urls = [...dotted.matchAll(URL)].map(([found]) => withoutClosing(found));
  const rest = dotted
    .replaceAll(URL, asTaken)
    .replaceAll(ADDRESS, (found) => (textForm(found) === undefined ? found : asTaken(found)));
  const words = [...rest.matchAll(/\S+/gu)].filter(([word]) => ADDRESSING.test(word));
  return [
    ...urls.filter(isUnreadableUrl).map((url) => urlForm(url) ?? url),
    ...words.map(({ index, 0: { length } }) => `${UNREADABLE}${dotted.slice(index, index + length)}`),
  ];
}

/** Lists the strings in quotes of a text, in their form. */
export function quotedIn(text: string, span = wholeOf(text)): string[] {
  return matchesIn(text, QUOTED, span).flatMap((found) => textForm(found.slice(1, -1)) ?? []);
}

function pathsIn(text: string, span: Span): string[] {
  return matchesIn(text, ALONE, span)
    .map(withoutClosing)
    .filter((each) => (/[\\/]/.test(each) && !ONLY_SLASHES.test(each)) || FILE_NAME.test(each))
    .flatMap((each) => pathForm(each) ?? []);
}

/** Adds the values of a text to `into`. */
export function* findInText(text: string, into: Set<string>): Generator<undefined> {
  const add = (form: string | undefined): void => {
    if (form !== undefined) into.add(form);
  };
  for (const line of text.split(/\r\n|[\n\r\u2028\u2029]/u)) {
    add(textForm(line));
    const colon = line.indexOf(": ");
    if (colon >= 0) add(textForm(line.slice(colon + 2)));
    for (const piece of line.length > PIECE ? piecesOf(line) : [{ text: line, span: wholeOf(line) }]) {
      findInPiece(piece, add);
      yield;
    }
  }
}

/** Characters of a line that are searched at once, by which pieces overlap, and next to a cut that only tell what a value stands beside. */
const PIECE = 4_096;
const OVERLAP = 300;
const EDGE = 8;

interface Piece {
  readonly text: string;
  readonly span: Span;
}

/** Cuts a line into pieces. Each value of at most `OVERLAP` characters without the edges is whole in one of them, and so is each URL. */
function* piecesOf(line: string): Generator<Piece> {
  for (let start = 0, end = 0; end < line.length; ) {
    end = Math.min(start + PIECE, line.length);
    const text = line.slice(start, end);
    yield { text, span: { from: start === 0 ? 0 : EDGE, to: text.length - (end === line.length ? 0 : EDGE) } };
    const next = text.length - OVERLAP;
    const cut = [...text.matchAll(URL)].find(({ index, 0: url }) => index - EDGE < next && index + url.length > next);
    start += cut === undefined ? next : cut.index - EDGE;
  }
}

function findInPiece({ text, span }: Piece, add: (form: string | undefined) => void): void {
  for (const find of [addressesIn, hostsIn, urlsIn, quotedIn, pathsIn]) for (const form of find(text, span)) add(form);
  for (const pattern of [IBAN, DIGIT_GROUPS])
    for (const found of matchesIn(text, pattern, span)) add(accountForm(found));
  for (const found of matchesIn(text, NUMBER, span)) add(numberForm(found));
  for (const found of matchesIn(text, WORD, span)) add(fold(found));
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
