/* Spellings of names and values that mean the same as the plain one, or have to be refused. */

import type { Draw } from "./draw.ts";

const INVISIBLE = [
  ..."\u200b\u200c\u200d\u2060\u00ad\ufeff\u034f\u061c\u180e\u2061\u2064\u206a\u115f\u3164\uffa0",
  ..."\u202a\u202e\u2066\u2069\ufe00\ufe0f\u{e0001}\u{e0061}\u{e0100}",
];
const CONTROL = [
  ..."\u0001\u0007\u0008\u001b\u007f\u0085\u009b\u2028\u2029\ufff9\ufffd\ufffe\uffff\ue000\u0378",
  "\u0000",
];
const LONE = ["\ud800", "\udbff", "\udc00", "\udfff"];
const SPACES = [" ", "  ", "\t", "\n", "\r\n", "\u00a0", "\u2003", "\u3000", "\u202f", "\v"];
const SIGNS = [..."\u2024\u3002\uff0e\u2044\u2215\u2010\u2212\u02d0\ua789\u{1f600}"];
/** Letters of Cyrillic, Greek, Armenian and Cherokee, and digits of other scripts, that look like ASCII. */
const LOOKALIKES: Readonly<Record<string, string>> = {
  ...{ a: "\u0430\u03b1", c: "\u0441\u03f2", d: "\u0501", e: "\u0435", h: "\u04bb\u0570", i: "\u0456\u03b9" },
  ...{ j: "\u0458", k: "\u043a\u03ba", m: "\u043c", n: "\u0578", o: "\u043e\u03bf\u0585", p: "\u0440\u03c1" },
  ...{ r: "\u0433", s: "\u0455", t: "\u0442\u03c4", u: "\u057d\u03c5", v: "\u03bd", w: "\u0461\u051d" },
  ...{ x: "\u0445\u03c7", y: "\u0443\u04af", "6": "\u0666\u096c\u09ec", "0": "\u0966\u0660" },
};
/** Characters that NFKC and case folding turn into ASCII. */
const COMPATIBLE: Readonly<Record<string, string>> = {
  ...{ a: "\u24d0\u00aa", b: "\u24d1", e: "\u212f\u2091", f: "\u{1d41f}", i: "\u2170\u2071", k: "\u212a", l: "\u2113" },
  ...{ m: "\u217f", n: "\u207f", o: "\u00ba\u2134", p: "\u24df", r: "\u211b", s: "\u017f", t: "\u24e3", v: "\u2174" },
  ...{ w: "\u02b7", x: "\u2179", y: "\u02b8", "6": "\u2076\u2086\u2465\u{1d7d4}", ".": "\u2024\ufe52" },
};

type Disguise = (draw: Draw, text: string) => string;

function changed(draw: Draw, text: string, change: (character: string) => string, oftener = 2): string {
  const characters = [...text];
  const always = draw.below(characters.length);
  return characters.map((each, at) => (at === always || draw.once(oftener) ? change(each) : each)).join("");
}

function inserted(draw: Draw, text: string, what: string): string {
  const characters = [...text];
  characters.splice(draw.below(characters.length + 1), 0, what);
  return characters.join("");
}

const fullWidth = (character: string): string =>
  character > " " && character <= "~" ? String.fromCharCode(character.charCodeAt(0) + 0xfee0) : character;

function mathematical(character: string, base: number): string {
  const letter = character.charCodeAt(0) - 97;
  return letter >= 0 && letter < 26 ? String.fromCodePoint(base + letter) : character;
}

/**
 * Disguises of a name by what they do. Each gives a spelling that normalises to the same name, or one that is refused. Marks come
 * after the name, where a pattern's `*` covers them: `páy` is a name of its own.
 */
export const NAME_DISGUISES: Readonly<Record<string, Disguise>> = {
  case: (draw, text) => changed(draw, text, (each) => each.toUpperCase()),
  "full width": (draw, text) => changed(draw, text, fullWidth),
  "mathematical letters": (draw, text) => {
    const base = draw.pick([0x1d41a, 0x1d482, 0x1d5ba, 0x1d5ee, 0x1d656, 0x1d68a]);
    return changed(draw, text, (each) => mathematical(each, base));
  },
  "compatible characters": (draw, text) =>
    changed(draw, text, (each) => (COMPATIBLE[each] === undefined ? each : draw.pick([...COMPATIBLE[each]]))),
  "invisible characters": (draw, text) => inserted(draw, text, draw.pick(INVISIBLE)),
  "control characters": (draw, text) => inserted(draw, text, draw.pick(CONTROL)),
  "half a surrogate pair": (draw, text) => inserted(draw, text, draw.pick(LONE)),
  "white space around": (draw, text) => draw.pick(SPACES) + text + draw.pick(SPACES),
  "letters of another script": (draw, text) => {
    const fitting = [...text].filter((each) => LOOKALIKES[each] !== undefined);
    const chosen = draw.pick(fitting);
    const lookalike = draw.pick([...(LOOKALIKES[chosen] ?? INVISIBLE[0] ?? "")]);
    return text.replace(chosen, lookalike);
  },
  "marks at the end": (draw, text) =>
    text + draw.pick([..."\u0301\u0338\u20dd\u0335\u0489\u1dc4"]).repeat(1 + draw.below(3)),
  "foreign signs": (draw, text) => text + draw.pick(SIGNS),
  "great length": (draw, text) => text + draw.word().repeat(100 + draw.below(20)),
  "two at once": (draw, text) => {
    const [first, second] = [draw.pick(STACKABLE), draw.pick(STACKABLE)];
    return NAME_DISGUISES[second]?.(draw, NAME_DISGUISES[first]?.(draw, text) ?? text) ?? text;
  },
};
const STACKABLE = ["case", "full width", "compatible characters", "invisible characters", "white space around"];

const ALL = Object.keys(NAME_DISGUISES);
/** What lengthens a name makes another one of it, unless a pattern covers every rest. */
const SAME_NAME = ALL.filter((name) => !["marks at the end", "foreign signs", "great length"].includes(name));

/** Disguises a name that a pattern with `*` covers. */
export function disguised(draw: Draw, name: string): string {
  return (NAME_DISGUISES[draw.pick(ALL)] as Disguise)(draw, name);
}

/** Disguises a name that has to be met exactly. */
export function disguisedSame(draw: Draw, name: string): string {
  return (NAME_DISGUISES[draw.pick(SAME_NAME)] as Disguise)(draw, name);
}

/** Disguises text that rules compare without case, surrounding white space and the form of its composition. */
export function textDisguised(draw: Draw, text: string): string {
  return draw.pick<Disguise>([
    (_, each) => each.toUpperCase(),
    (_, each) => each.normalize("NFD"),
    (by, each) => by.pick(SPACES) + each + by.pick(SPACES),
  ])(draw, text);
}

/** Writes a number from 1,000 on in ways that a reader may take for another or for none. */
export function numberDisguised(draw: Draw, number: number): unknown {
  return draw.pick<() => unknown>([
    () => String(number),
    () => number.toExponential(),
    () => `+${number}`,
    () => ` ${number} `,
    () => `${number}.000`,
    () => `\u00a0${number}\n`,
    () => `000${number}`,
    () => `0x${number.toString(16)}`,
    () => number.toLocaleString("en-US"),
    () => `${number}`.replace(/\d/g, fullWidth),
    () => `${number}\u0000`,
    () => inserted(draw, `${number}`, draw.pick(INVISIBLE)),
    () => [number],
    () => ({ value: number }),
    () => true,
    () => number * 1e300,
    () => number + 0.1,
    () => Number.MAX_SAFE_INTEGER + 2,
    () => draw.pick(["Infinity", "NaN", "1e999", "9".repeat(400), "", " ", "many", "1e", "--1", "1_000"]),
    () => draw.pick([Number.POSITIVE_INFINITY, Number.NaN]),
    () => [[[[number]]]],
  ])();
}

/** Names that objects of JavaScript have, and others that trip readers of JSON. */
export const ODD_MEMBERS = [
  ...["__proto__", "constructor", "toString", "valueOf", "hasOwnProperty", "prototype", "__defineGetter__", "then"],
  ...["toJSON", "length", "", " ", "0", "-1", "a.b", "a[]", "$ref", "@type", "\u0000", "\ud800", "é", "e\u0301"],
];

/** An object with members of its own whatever their names are: `__proto__` too. */
export function withMembers(object: object, members: readonly (readonly [name: string, value: unknown])[]): object {
  const copy = { ...object };
  for (const [name, value] of members) {
    Object.defineProperty(copy, name, { value, enumerable: true, writable: true, configurable: true });
  }
  return copy;
}
