import { expect } from "chai";
import { parseDocument, Scalar, stringify } from "yaml";
import { indexAt, offsetInScalar, scalarAt } from "../../src/notation/yaml-place.ts";

const VALUES = [
  "args.amount > 500",
  'args.to == "it\'s \\"quoted\\"" && args.x != \'y\'',
  'args.to\t== "a\tb"',
  "args.lines.all(l,\n  l.price > 5 &&\n\n  l.pieces < 3)\n",
  "  args.a ||\nargs.b\n\n",
  'args.to == "ß 😀 日本" && args.amount > 3',
  "a: b # no comment",
  "'",
  "''",
  "\\",
  "args.x\u00a0== \u2028 1",
  "",
  `args.amount > 500 && ${"args.another_long_name == 1 && ".repeat(8)}true`,
];
const STYLES = [
  Scalar.PLAIN,
  Scalar.QUOTE_SINGLE,
  Scalar.QUOTE_DOUBLE,
  Scalar.BLOCK_LITERAL,
  Scalar.BLOCK_FOLDED,
] as const;
const WRITTEN = [
  { text: 'when: "\\x61rgs.\\u0061 == \\U0001F600 b"', value: "args.a == 😀 b", marks: { "a == ": 15, b: 36 } },
  { text: 'when: "a \\\n   && \\\tb"', value: "a && \tb", marks: { "&&": 14, b: 19 } },
  { text: "when: >-\r\n  a &&\r\n  b\r\n", value: "a && b", marks: { "&&": 14, b: 20 } },
  { text: "when: a &&\n  b # c", value: "a && b", marks: { "&&": 8, b: 13 } },
  { text: "when: 'it''s''' # c", value: "it's'", marks: { it: 7, s: 11 } },
  { text: "when: |2-\n   a\n  b\n", value: " a\nb", marks: { a: 13, b: 17 } },
];

const scalarOf = (text: string, path = "when"): Scalar => {
  const scalar = scalarAt(parseDocument(text).contents, path);
  if (scalar === undefined) throw new Error(`there is no ${path} in ${text}`);
  return scalar;
};

describe("places in the texts of YAML", () => {
  for (const style of STYLES) {
    it(`are found for every visible character of a ${style} scalar.`, () => {
      for (const value of VALUES) {
        for (const lineWidth of [0, 40]) {
          const node = new Scalar(value);
          node.type = style;
          const text = stringify({ name: "x", rules: [{ when: node, decision: "block" }] }, { lineWidth });
          const scalar = scalarOf(text, "rules[0].when");
          const [start, end] = scalar.range ?? [0, 0];
          expect(scalar.value, text).to.equal(value);
          for (let index = 0; index <= value.length; index++) {
            const unit = value.charAt(index);
            const offset = offsetInScalar(text, scalar, index);
            expect(offset, text).to.be.within(start, end);
            // An escape stands for its character.
            const isEscape = style === Scalar.QUOTE_DOUBLE && text[offset] === "\\";
            if (/\S/.test(unit) && !isEscape) expect(text.charAt(offset), `${index} of ${text}`).to.equal(unit);
          }
        }
      }
    });
  }

  for (const { text, value, marks } of WRITTEN) {
    it(`are found in ${JSON.stringify(text)}.`, () => {
      const scalar = scalarOf(text);
      expect(scalar.value).to.equal(value);
      for (const [part, offset] of Object.entries(marks)) {
        expect(offsetInScalar(text, scalar, value.indexOf(part)), part).to.equal(offset);
      }
    });
  }

  it("lie behind the last character for the end of a value.", () => {
    const text = 'when: "a ||  "\n';
    expect(offsetInScalar(text, scalarOf(text), 4)).to.equal(11);
  });

  it("are counted in characters, by line.", () => {
    expect(indexAt("a\n😀b c\nd", 2, 2)).to.equal(4);
    expect(indexAt("abc", 1, 1)).to.equal(0);
    expect(indexAt("abc", 1, 9)).to.equal(3);
  });

  it("are undefined for a path that leads to no scalar.", () => {
    const root = parseDocument("rules: [{ when: a }]\n").contents;
    expect(scalarAt(root, "rules[0].when")).to.not.equal(undefined);
    for (const path of ["rules", "rules[1].when", "rules[0].when.x", "x", "rules[0].then"]) {
      expect(scalarAt(root, path), path).to.equal(undefined);
    }
  });
});
