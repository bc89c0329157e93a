import { expect } from "chai";
import fc from "fast-check";
import { compileScrubber } from "../../../src/redaction/text/scrubber.ts";
import type { Finding } from "../../../src/text/personal-kinds.ts";
import { marked, scrubberOf, unmarked } from "./harness.ts";

const FOUND: readonly { readonly title: string; readonly names: readonly string[]; readonly text: string }[] = [
  { title: "in any letter case", names: ["Anna Berg", "STRÖM"], text: "«ANNA berg» and «ström»" },
  { title: "as whole words", names: ["Ann", "77"], text: "Anna, Joann, «Ann»-Marie, «Ann»'s, 177, 77x, «77»" },
  { title: "next to underscores, marks and emoji", names: ["Ann"], text: "x_«Ann»_1 “«Ann»” 😀«Ann»😀" },
  { title: "anywhere where they begin and end with marks", names: ["#A-1#"], text: "x«#A-1#»y #A-1" },
  { title: "over runs of white space", names: ["Anna  Berg"], text: "«Anna Berg» «Anna \n\t Berg» «Anna\u00a0Berg»" },
  { title: "over filling of 16 units and no more", names: ["a b"], text: `«a${" ".repeat(16)}b» a${" ".repeat(17)}b` },
  { title: "over characters without a width", names: ["Berg"], text: "«Be\u00adrg» «B\u200be\u200br\u2060g»" },
  {
    title: "composed and decomposed",
    names: ["Ren\u00e9e", "Zo\u0308e"],
    text: "«Rene\u0301e» «Ren\u00e9e» «Z\u00f6e»",
  },
  { title: "not with a mark that makes it another letter", names: ["Rene"], text: "Rene\u0301 «Rene»" },
  { title: "in compatibility forms", names: ["Anna 1"], text: "«Ａｎｎａ １» «ANNA\u30001»" },
  {
    title: "in scripts without spaces",
    names: ["田中", "김철수", "สมชาย"],
    text: "私は«田中»です «김철수»는 คุณ«สมชาย»มา",
  },
  { title: "in Greek, whatever the sigma", names: ["Γιώργος"], text: "«ΓΙΏΡΓΟΣ» «γιώργοσ»" },
  {
    title: "the longest first",
    names: ["Anna", "Anna Berg", "Anna Berg Holm"],
    text: "«Anna Berg» Ho «Anna Berg Holm»",
  },
  { title: "with what sticks out of another", names: ["Anna Berg", "Berg Holm"], text: "«Anna Berg»« Holm» Holm" },
  { title: "inside of what another began", names: ["a b c d e", "b c"], text: "a «b c» d f" },
];

describe("registered values", () => {
  for (const { title, names, text } of FOUND) {
    it(`are found ${title}.`, () => {
      expect(marked(unmarked(text), scrubberOf(names).find(unmarked(text)))).to.equal(text);
    });
  }

  it("keep the kind that they were first given.", () => {
    const registered = [
      { kind: "account_number", value: "AB 12" },
      { kind: "other", value: "ab  12" },
    ] as const;
    const found = compileScrubber({ registered, allow: [] }).find("AB 12");
    expect(found).to.deep.equal([{ kind: "account_number", start: 0, end: 5 }]);
  });

  for (const [name, value] of [
    ["is too short", "a"],
    ["is too short without its spaces", " a\u200b "],
    ["is too long", "a".repeat(257)],
  ] as const) {
    it(`are refused when one ${name}, without quoting it.`, () => {
      expect(() => scrubberOf(["ok", value])).to.throw("`registered[1].value` must have 2 to 256 characters");
    });
  }
});

const VALUES = fc
  .array(fc.stringMatching(/^[ab#é]{1,3}( [ab#]{1,3})?$/), { minLength: 1, maxLength: 8 })
  .map((values) => values.filter(({ length }) => length > 1))
  .filter(({ length }) => length > 0);
const TEXT = fc.stringMatching(/^[abABé# ]{0,30}$/);
const WORD = /[\p{L}\p{M}\p{N}]/u;

/** Every place of every value, by an expression for each. */
function places(values: readonly string[], text: string): { start: number; end: number }[] {
  return values.flatMap((value) => {
    const before = WORD.test(value.charAt(0)) ? "(?<![\\p{L}\\p{M}\\p{N}])" : "";
    const after = WORD.test(value.at(-1) ?? "") ? "(?![\\p{L}\\p{M}\\p{N}])" : "";
    const pattern = new RegExp(`${before}${value.trim().replace(/ +/g, "\\s+")}${after}`, "yiu");
    return Array.from(text, (_, start) => {
      pattern.lastIndex = start;
      return { start, end: start + (pattern.exec(text)?.[0].length ?? 0) };
    }).filter(({ start, end }) => end > start);
  });
}

/** The rule, word for word: at every index the longest of what covers it. */
function naiveFind(values: readonly string[], text: string): Finding[] {
  const all = places(values, text);
  const findings: Finding[] = [];
  for (let index = 0; index < text.length; ) {
    const ends = all.filter(({ start, end }) => start <= index && end > index).map(({ end }) => end);
    const end = Math.max(index, ...ends);
    if (end > index) findings.push({ kind: "person_name", start: index, end });
    index = Math.max(index + 1, end);
  }
  return findings;
}

describe("the search for registered values", () => {
  it("finds what a search for each value by itself finds.", () => {
    fc.assert(
      fc.property(VALUES, TEXT, (values, text) => {
        expect(scrubberOf(values, [], []).find(text)).to.deep.equal(naiveFind(values, text));
      }),
      { numRuns: 500 },
    );
  });
});
