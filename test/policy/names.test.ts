import { expect } from "chai";
import { isToolName } from "../../src/notation/tool-name.ts";
import { nameFault, normaliseName, toolKey } from "../../src/policy/names.ts";

/** Spellings of `t6pay.x` that show the same, or nearly. */
const SAME: readonly string[] = [
  "T6PAY.X",
  " t6pay.x ",
  "ｔ６ｐａｙ．ｘ",
  "t6𝐩𝐚𝐲.x",
  "t6pay.x\u00a0",
  "\ufefft6pay.x".slice(1),
];

const REFUSED: readonly (readonly [text: string, fault: string])[] = [
  ["t6\u200bpay.x", "U+200B"],
  ["t6\u00adpay.x", "U+00AD"],
  ["t6\u2060pay.x", "U+2060"],
  ["\ufefft6pay.x", "U+FEFF"],
  ["t6pay.x\u0085", "U+0085"],
  ["t6\u0000pay", "U+0000"],
  ["t6\tpay", "U+0009"],
  ["t6\u202epay", "U+202E"],
  ["t6pay\ufe0f", "U+FE0F"],
  ["t6\u034fpay", "U+034F"],
  ["t6\u3164pay", "U+3164"],
  ["t6\u2800pay", "U+2800"],
  ["t6\ud800pay", "U+D800"],
  ["t6p\u0430y.x", "U+0430"],
  ["t6p\u03b1y.x", "U+03B1"],
  ["опл\u0061та", "U+0061"],
  ["pay💸", "U+1F4B8"],
  ["pay\u2028x", "U+2028"],
  ["p".repeat(257), "at most 256"],
  ["\ufdfa".repeat(20), "at most 256"],
];

const NAMES = [
  "payment.send",
  "mcp__fs__write_file",
  "оплата.1",
  "支払い.send",
  "결제.pay",
  "café",
  "दान",
  "a b",
  "",
  "  ",
];

describe("names", () => {
  it("are one for every spelling that shows the same.", () => {
    for (const text of SAME) {
      expect(nameFault(text), JSON.stringify(text)).to.equal(undefined);
      expect(normaliseName(text)).to.equal("t6pay.x");
    }
  });

  for (const [text, fault] of REFUSED) {
    it(`are not ${JSON.stringify(text.slice(0, 12))}, and say that it is ${fault}.`, () => {
      expect(nameFault(text)).to.include(fault);
    });
  }

  it("may be of any one script.", () => {
    for (const text of NAMES) expect(nameFault(text), text).to.equal(undefined);
  });

  it("stay as they are when they are normalised again, for every code point.", () => {
    for (let code = 0; code <= 0x10ffff; code++) {
      if (/^[\p{Cn}\p{Cs}\p{Co}]$/u.test(String.fromCodePoint(code))) continue;
      for (const text of [String.fromCodePoint(code), `a${String.fromCodePoint(code)}Z`]) {
        const once = normaliseName(text);
        if (normaliseName(once) !== once) expect.fail(`U+${code.toString(16)} changes when normalised twice`);
        if (nameFault(text) === undefined && nameFault(once) !== undefined) {
          expect.fail(`U+${code.toString(16)} is a name, its normalised form is none`);
        }
      }
    }
  });

  it("are one in every case that they can be written in.", () => {
    for (const [one, other] of [
      ["оплата.1", "ᲂплата.1"],
      ["ᾳδω", "ΑΙΔΩ"],
      ["straße", "STRASSE"],
      ["σοφος", "ΣΟΦΟΣ"],
      ["kelvin", "\u212aelvin"],
    ] as const) {
      expect(normaliseName(one), other).to.equal(normaliseName(other));
    }
    expect(normaliseName("tıp")).not.to.equal(normaliseName("tip"));
    for (let code = 0xa0; code <= 0x1ffff; code++) {
      const character = String.fromCodePoint(code);
      if (character === "ı" || nameFault(character) !== undefined) continue;
      const forms = [
        character,
        character.toUpperCase(),
        character.toLowerCase(),
        character.toUpperCase().toLowerCase(),
      ];
      const names = new Set(forms.map((form) => normaliseName(`a${form}z`)));
      if (names.size > 1) expect.fail(`U+${code.toString(16)} has ${names.size} names: ${[...names].join()}`);
    }
  });

  it("of tools are ASCII, begin like a word, and compare without case.", () => {
    for (const name of ["pay6", "PAY6", "fs/read", "mcp__fs__x", "a b@c#d$e+f-g.h:i", "_", "x".repeat(256)]) {
      expect(isToolName(name), name).to.equal(true);
    }
    for (const name of ["", ".", "..", "/x", "pay6\u200b", "ｐay6", "päy", "pay\n", "x".repeat(257), "a%2Fb", "-x"]) {
      expect(isToolName(name), name).to.equal(false);
    }
    expect(toolKey(" PAY6 ")).to.equal("pay6");
  });
});
