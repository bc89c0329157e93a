import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect } from "chai";

const FOLDER = join(import.meta.dirname, "..", "..", "src/dashboard/styles");
/** Sheets that set the scale, or change for paper what others set. */
const TOKENS = "tokens.css";
const PRINT = "print.css";

interface Sheet {
  readonly name: string;
  /** Without comments. */
  readonly text: string;
}

const sheets: readonly Sheet[] = readdirSync(FOLDER).map((name) => ({
  name,
  text: readFileSync(join(FOLDER, name), "utf8").replaceAll(/\/\*[\s\S]*?\*\//g, ""),
}));

/** Lists the declarations of some properties that hold a raw length. */
function rawLengths({ name, text }: Sheet, property: RegExp, length: RegExp): readonly string[] {
  return [...text.matchAll(/([a-z-]+):([^;{}]+);/g)]
    .filter(([, key = "", value = ""]) => property.test(key) && length.test(value))
    .map(([declaration]) => `${name}: ${declaration.trim()}`);
}

describe("the style sheets of the dashboard", () => {
  const scaled = sheets.filter(({ name }) => name !== TOKENS);

  it("take distances from the scale.", () => {
    const distance = /^(?:row-gap|column-gap|gap|padding|margin)(?:-[a-z-]+)?$/;
    expect(
      scaled.flatMap((sheet) => rawLengths(sheet, distance, /\d(?:rem|cm)\b|\b(?:[3-9]|\d\d+)px\b/)),
    ).to.deep.equal([]);
  });

  it("take sizes of letters, corners and colours from the tokens.", () => {
    const sizes = scaled.flatMap((sheet) => rawLengths(sheet, /^font(?:-size)?$/, /\drem\b|\dpx\b/));
    const corners = scaled.flatMap((sheet) => rawLengths(sheet, /^border-radius$/, /\drem\b|\b(?:[3-9]|\d\d+)px\b/));
    const colours = scaled
      .filter(({ name }) => name !== PRINT)
      .flatMap((sheet) =>
        rawLengths(sheet, /^(?:color|background|border(?:-[a-z]+)?|box-shadow)$/, /#[\da-f]{3,8}\b|rgb\(/),
      );
    expect([...sizes, ...corners, ...colours]).to.deep.equal([]);
  });

  it("use only tokens that exist.", () => {
    const set = new Set(sheets.flatMap(({ text }) => [...text.matchAll(/(--[a-z-\d]+):/g)].map(([, token]) => token)));
    const own = /^--(?:radix|rows-height)/;
    const used = sheets.flatMap(({ text }) =>
      [...text.matchAll(/var\((--[a-z-\d]+)/g)].map(([, token]) => token ?? ""),
    );
    expect(used.filter((token) => !set.has(token) && !own.test(token))).to.deep.equal([]);
  });

  it("style a class in one place, so that no screen changes another that was open before.", () => {
    const places = new Map<string, Set<string>>();
    for (const { name, text } of scaled.filter((sheet) => sheet.name !== PRINT)) {
      for (const [, selectors = ""] of text.matchAll(/([^{}]+)\{/g)) {
        for (const selector of selectors.split(",").map((each) => each.trim())) {
          if (/^\.[\w-]+$/.test(selector)) places.set(selector, (places.get(selector) ?? new Set()).add(name));
        }
      }
    }
    const twice = [...places].filter(([, names]) => names.size > 1).map(([each, names]) => `${each} ${[...names]}`);
    expect(twice).to.deep.equal([]);
  });
});
