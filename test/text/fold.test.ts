import { expect } from "chai";
import { fold, invisibleIn, plainText, trimmedText } from "../../src/text/fold.ts";

/** Texts that fold to one text. */
const SAME: readonly (readonly [folded: string, ...spellings: string[]])[] = [
  ["kp", "KP", " kp ", "ＫＰ", "Ｋｐ", "𝐊𝐏", "ⓚⓟ", "\u212ap"],
  [
    "kp",
    "k\u200bp",
    "k\u200dp",
    "k\u00adp",
    "k\u2060p",
    "\ufeffkp",
    "k\u034fp",
    "kp\ufe0f",
    "k\u{e0061}p",
    "k\u{e0100}p",
  ],
  ["kp", "\u202ek\u202cp", "\u2066kp\u2069", "k\u061cp", "k\u3164p", "k\uffa0p", "k\u115fp", "k\u180ep", "k\u2800p"],
  ["kp", "\u00a0kp\u00a0", "\u2003kp\u3000", "\u200b kp \u200b", "kp\u0085", "k\u0001p", "kp\u001f", "\u2028kp\u2029"],
  ["café", "CAFE\u0301", "cafe\u200b\u0301", "ＣＡＦÉ"],
  ["office", "o\ufb03ce", "OFFICE"],
  ["strasse", "straße", "STRAẞE", "ſtraſſe"],
  ["σοφοσ", "ΣΟΦΟΣ", "σοφος"],
  ["12", "１２", "①②", "1\u200b2"],
  [`b${"\u0316".repeat(5)}${"\u0301".repeat(5)}`, `b${"\u0301\u0316".repeat(5)}`, `b${"\u0301\u0316".repeat(100_000)}`],
  ["a b", "a\u00a0b", "A\u2009B", "ａ　ｂ"],
  ["가", "가", "\u1100\u1161"],
  ["", "", " ", "\u200b", "\u3164", "\u2800", "\u00ad \u00a0"],
];

/** Texts that look alike and stay different. */
const DIFFERENT: readonly (readonly [string, string])[] = [
  ["tıp", "tip"],
  ["İ", "i"],
  ["kp", "кp"],
  ["kp", "k p"],
  ["kp", "k\u0335p"],
  ["a\tb", "a b"],
];

describe("folding a text", () => {
  for (const [folded, ...spellings] of SAME) {
    it(`makes ${JSON.stringify(folded)} of everything that shows it.`, () => {
      for (const spelling of spellings) expect(fold(spelling), JSON.stringify(spelling)).to.equal(folded);
    });
  }

  for (const [one, other] of DIFFERENT) {
    it(`keeps ${JSON.stringify(one)} and ${JSON.stringify(other)} apart.`, () => {
      expect(fold(one)).not.to.equal(fold(other));
    });
  }

  it("changes nothing when it is done again, and finds nothing invisible, for every code point.", () => {
    for (let code = 0; code <= 0x10ffff; code++) {
      if (/^[\p{Cn}\p{Cs}\p{Co}]$/u.test(String.fromCodePoint(code))) continue;
      for (const text of [String.fromCodePoint(code), `a${String.fromCodePoint(code)}Z`]) {
        const once = fold(text);
        if (fold(once) !== once) expect.fail(`U+${code.toString(16)} changes when it is folded twice`);
        if (invisibleIn(once) !== undefined) expect.fail(`U+${code.toString(16)} folds to something invisible`);
        if (plainText(once) !== once) expect.fail(`U+${code.toString(16)} folds to something that is not plain`);
      }
    }
  });

  it("makes no text more than eighteen times as long.", () => {
    let longest = 0;
    for (let code = 0; code <= 0x10ffff; code++) {
      const text = String.fromCodePoint(code);
      longest = Math.max(longest, fold(text).length / text.length, plainText(text).length / text.length);
    }
    expect(longest).to.equal(18);
    expect(fold("\ufdfa")).to.equal("صلى الله عليه وسلم");
  });

  it("keeps halves of surrogate pairs, and letter case and blanks in the plain form.", () => {
    expect(fold("\ud83dA")).to.equal("\ud83da");
    expect(plainText(" ＡB\u200b ")).to.equal(" AB ");
    expect(trimmedText("\u200b \u00a0 A\u200bB \u2060\t")).to.equal("A\u200bB");
  });
});
