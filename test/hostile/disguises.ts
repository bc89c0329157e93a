/* Spellings of names and values that mean the same as the plain one, or have to be refused. */

import type { Draw } from "./draw.ts";
import { type Right, refused, SAME } from "./rights.ts";

const INVISIBLE = [
  ..."\u200b\u200c\u200d\u2060\u00ad\ufeff\u034f\u061c\u180e\u2061\u2064\u206a\u115f\u3164\uffa0",
  ..."\u202a\u202e\u2066\u2069\ufe00\ufe0f\u{e0001}\u{e0061}\u{e0100}",
];
const CONTROL = [..."\u0001\u0007\u0008\u001b\u007f\u0085\u009b\ufff9\ufffd\ufffe\uffff\ue000\u0378", "\u0000"];
const LONE = ["\ud800", "\udbff", "\udc00", "\udfff"];
const SPACES = [" ", "  ", "\t", "\n", "\r\n", "\u00a0", "\u2003", "\u3000", "\u202f", "\v", "\u2028", "\u2029"];
const SIGNS = [..."\u3002\u2044\u2215\u2010\u2212\u02d0\ua789\u{1f600}"];
/** Letters of Cyrillic, Greek, Armenian and Cherokee, and digits of other scripts, that look like ASCII. */
const LOOKALIKES: Readonly<Record<string, string>> = {
  a: "\u0430\u03b1",
  c: "\u0441\u03f2",
  d: "\u0501",
  e: "\u0435",
  h: "\u04bb\u0570",
  i: "\u0456\u03b9",
  j: "\u0458",
  k: "\u043a\u03ba",
  m: "\u043c",
  n: "\u0578",
  o: "\u043e\u03bf\u0585",
  p: "\u0440\u03c1",
  r: "\u0433",
  s: "\u0455",
  t: "\u0442\u03c4",
  u: "\u057d\u03c5",
  v: "\u03bd",
  w: "\u0461\u051d",
  x: "\u0445\u03c7",
  y: "\u0443\u04af",
  "6": "\u0666\u096c\u09ec",
  "0": "\u0966\u0660",
};
/** Characters that NFKC and case folding turn into ASCII. */
const COMPATIBLE: Readonly<Record<string, string>> = {
  a: "\u24d0\u00aa",
  b: "\u24d1",
  e: "\u212f\u2091",
  f: "\u{1d41f}",
  i: "\u2170\u2071",
  k: "\u212a",
  l: "\u2113",
  m: "\u217f",
  n: "\u207f",
  o: "\u00ba\u2134",
  p: "\u24df",
  r: "\u211b",
  s: "\u017f",
  t: "\u24e3",
  v: "\u2174",
  w: "\u02b7",
  x: "\u2179",
  y: "\u02b8",
  "6": "\u2076\u2086\u2465\u{1d7d4}",
  ".": "\u2024\ufe52",
};

type Disguise = (draw: Draw, text: string) => string;

function changed(draw: Draw, text: string, change: (character: string) => string, oftener = 2): string {
  const characters = [...text];
  const always = draw.below(characters.length);
  return characters.map((each, at) => (at === always || draw.once(oftener) ? change(each) : each)).join("");
}

function inserted(draw: Draw, text: string, what: string): string {
  const characters = [...text];
  // Trimmed at either end, as white space is.
  const isInside = what === "\ufeff";
  characters.splice(isInside ? 1 + draw.below(characters.length - 1) : draw.below(characters.length + 1), 0, what);
  return characters.join("");
}

const fullWidth = (character: string): string =>
  character > " " && character <= "~" ? String.fromCharCode(character.charCodeAt(0) + 0xfee0) : character;

function mathematical(character: string, base: number): string {
  const letter = character.charCodeAt(0) - 97;
  return letter >= 0 && letter < 26 ? String.fromCodePoint(base + letter) : character;
}

/**
 * Disguises of a name, each with whether it can be the same name and whether it can be refused. Marks come after the name, where a
 * pattern's `*` covers them: `páy` is a name of its own.
 */
const NAME_DISGUISES: Readonly<Record<string, readonly [isSame: boolean, isRefused: boolean, make: Disguise]>> = {
  case: [true, false, (draw, text) => changed(draw, text, (each) => each.toUpperCase())],
  "full width": [true, false, (draw, text) => changed(draw, text, fullWidth)],
  "mathematical letters": [
    true,
    false,
    (draw, text) => {
      const base = draw.pick([0x1d41a, 0x1d482, 0x1d5ba, 0x1d5ee, 0x1d656, 0x1d68a]);
      return changed(draw, text, (each) => mathematical(each, base));
    },
  ],
  "compatible characters": [
    true,
    false,
    (draw, text) =>
      changed(draw, text, (each) => (COMPATIBLE[each] === undefined ? each : draw.pick([...COMPATIBLE[each]]))),
  ],
  "white space around": [true, false, (draw, text) => draw.pick(SPACES) + text + draw.pick(SPACES)],
  "invisible characters": [false, true, (draw, text) => inserted(draw, text, draw.pick(INVISIBLE))],
  "control characters": [false, true, (draw, text) => inserted(draw, text, draw.pick(CONTROL))],
  "half a surrogate pair": [false, true, (draw, text) => inserted(draw, text, draw.pick(LONE))],
  "letters of another script": [
    false,
    true,
    (draw, text) => {
      const fitting = [...text].filter((each) => LOOKALIKES[each] !== undefined);
      const chosen = draw.pick(fitting);
      const lookalike = draw.pick([...(LOOKALIKES[chosen] ?? INVISIBLE[0] ?? "")]);
      return text.replace(chosen, lookalike);
    },
  ],
  "two at once": [true, false, (draw, text) => twice(draw, text, draw.pick(VISIBLE))],
  "two at once, one of them invisible": [false, true, (draw, text) => twice(draw, text, "invisible characters")],
  "accents at the end": [true, false, (draw, text) => text + draw.pick([..."\u0301\u0308"])],
  "signs that mean a dot": [true, false, (draw, text) => text + draw.pick([..."\uff0e\u2024"])],
  "marks of no script at the end": [
    false,
    true,
    (draw, text) => text + draw.pick([..."\u0338\u20dd\u0335\u0489\u1dc4"]).repeat(1 + draw.below(3)),
  ],
  "foreign signs": [false, true, (draw, text) => text + draw.pick(SIGNS)],
  "great length": [false, true, (draw, text) => text + draw.word().repeat(100 + draw.below(20))],
};
const VISIBLE = ["case", "full width", "compatible characters", "white space around"];

function twice(draw: Draw, text: string, first: string): string {
  const once = NAME_DISGUISES[first]?.[2](draw, text) ?? text;
  return NAME_DISGUISES[draw.pick(VISIBLE)]?.[2](draw, once) ?? text;
}

const ALL = Object.keys(NAME_DISGUISES);
/** What lengthens a name makes another one of it, unless a pattern covers every rest. */
const LONGER = [
  "accents at the end",
  "marks of no script at the end",
  "signs that mean a dot",
  "foreign signs",
  "great length",
];
const SAME_NAME = ALL.filter((name) => !LONGER.includes(name));

/** How a kind of names is read. */
export interface NameKind {
  /** Starts the disguise's name in counts. */
  readonly kind: string;
  /** Refusals of a spelling. */
  readonly refusals: readonly Right[];
  /** Set for names that are ASCII alone, and may have white space around them. */
  readonly isAscii?: boolean;
  /** Set for names that no white space may surround. */
  readonly isTrimmed?: boolean;
  /** Set for names that are known by their exact spelling alone. */
  readonly isExact?: boolean;
}

export const ACTION_TYPE: NameKind = { kind: "action type", refusals: refused("action_type") };

function disguise(
  draw: Draw,
  name: string,
  names: readonly string[],
  { kind, refusals, isAscii, isTrimmed, isExact }: NameKind,
): string {
  const chosen = draw.pick(names);
  const [isSame, isRefused, make] = NAME_DISGUISES[chosen] as (typeof NAME_DISGUISES)[string];
  const text = make(draw, name);
  const isForeign = (isAscii === true && /[^ -~]/.test(text.trim())) || (isTrimmed === true && text !== text.trim());
  // A pattern has its star at its end.
  const isBroken = name.endsWith("*") && LONGER.includes(chosen);
  const rights: Right[] = [];
  const isOther = isExact === true && text !== name;
  if (isSame && !isForeign && !isBroken && !isOther) rights.push("same");
  if (isRefused || isForeign || isBroken || isOther) rights.push(...refusals);
  // Where a disguise changes no character, as mathematical letters change no underscore, the name is one in its own case.
  const used = isAscii === true && text === name ? "case" : chosen;
  draw.use(`${kind}, ${used}${isForeign ? ", not of its form" : ""}`, rights);
  return text;
}

/** Disguises a name that a pattern with `*` covers. */
export const disguised = (draw: Draw, name: string, kind = ACTION_TYPE): string => disguise(draw, name, ALL, kind);

/** Disguises a name that has to be met exactly. */
export const disguisedSame = (draw: Draw, name: string, kind: NameKind): string =>
  disguise(draw, name, SAME_NAME, kind);

/** Disguises text that rules compare folded: without case, surrounding white space, invisible characters and compatibility forms. */
export function textDisguised(draw: Draw, text: string): string {
  return draw.disguise("text", [
    ["upper case", SAME, () => text.toUpperCase()],
    ["decomposed", SAME, () => text.normalize("NFD")],
    ["white space around", SAME, () => draw.pick(SPACES) + text + draw.pick(SPACES)],
    ["full width", SAME, () => changed(draw, text, fullWidth)],
    ["mathematical letters", SAME, () => changed(draw, text, (each) => mathematical(each, 0x1d41a))],
    [
      "compatible characters",
      SAME,
      () => changed(draw, text, (each) => (COMPATIBLE[each] === undefined ? each : draw.pick([...COMPATIBLE[each]]))),
    ],
    ["an invisible character", SAME, () => inserted(draw, text, draw.pick(INVISIBLE))],
    ["invisible characters", SAME, () => changed(draw, text, (each) => each + draw.pick(INVISIBLE))],
  ]);
}

/** Writes a number from 1,000 on in ways that a reader may take for another or for none. */
export function numberDisguised(draw: Draw, number: number): unknown {
  const odd = ["Infinity", "NaN", "1e999", "9".repeat(400), "", " ", "many", "1e", "--1", "1_000"];
  return draw.disguise<unknown>("number", [
    ["in quotes", SAME, () => String(number)],
    ["with an exponent", SAME, () => number.toExponential()],
    ["with a sign", SAME, () => `+${number}`],
    ["between spaces", SAME, () => draw.pick([` ${number} `, `\u00a0${number}\n`])],
    ["with decimals", SAME, () => `${number}.000`],
    ["with leading zeros", SAME, () => `000${number}`],
    ["hexadecimal", SAME, () => `0x${number.toString(16)}`],
    ["with separators", SAME, () => number.toLocaleString("en-US")],
    ["full width", SAME, () => `${number}`.replace(/\d/g, fullWidth)],
    ["with a control character", SAME, () => `${number}\u0001`],
    ["with U+0000", refused("metadata"), () => `${number}\u0000`],
    ["with an invisible character", SAME, () => inserted(draw, `${number}`, draw.pick(INVISIBLE))],
    ["in a list", SAME, () => [number]],
    ["in lists", SAME, () => [[[[number]]]]],
    ["in an object", SAME, () => ({ value: number })],
    ["a boolean", SAME, () => true],
    ["great", SAME, () => number * 1e300],
    ["with a fraction", SAME, () => number + 0.1],
    ["beyond the safe integers", SAME, () => Number.MAX_SAFE_INTEGER + 2],
    ["no number in quotes", SAME, () => draw.pick(odd)],
    ["not finite", refused("metadata"), () => draw.pick([Number.POSITIVE_INFINITY, Number.NaN])],
  ]);
}

/** Names that objects of JavaScript have, and others that trip readers of JSON. */
export const ODD_MEMBERS = [
  "__proto__",
  "constructor",
  "toString",
  "valueOf",
  "hasOwnProperty",
  "prototype",
  "__defineGetter__",
  "then",
  "toJSON",
  "length",
  "",
  " ",
  "0",
  "-1",
  "a.b",
  "a[]",
  "$ref",
  "@type",
  "\u0000",
  "\ud800",
  "é",
  "e\u0301",
];

/** An object with members of its own whatever their names are: `__proto__` too. */
export function withMembers(object: object, members: readonly (readonly [name: string, value: unknown])[]): object {
  const copy = { ...object };
  for (const [name, value] of members) {
    Object.defineProperty(copy, name, { value, enumerable: true, writable: true, configurable: true });
  }
  return copy;
}
