import { expect } from "chai";
import fc from "fast-check";
import { compilePatterns, coversPattern, isActionPattern, matchesPattern } from "../../src/policy/action-patterns.ts";
import { argumentsFrom, normaliseName, toolNameFrom } from "../../src/policy/names.ts";

const PATTERN_CASES: readonly (readonly [string, string, boolean])[] = [
  ["payment.send", "payment.send", true],
  [" Payment.Send ", "payment.send", true],
  ["payment.send", "payment.sender", false],
  ["payment.*", "payment.send", true],
  ["payment.*", "payment.", true],
  ["payment.*", "payment", false],
  ["PAY*", "payment.send", true],
  ["*", "anything", true],
  ["a*b", "axb", true],
  ["a*b", "ab", true],
  ["a*b", "axbx", false],
  ["*.delete", "file.delete", true],
  ["*.delete", "delete", false],
  ["*.Delete*", "file.deleted", true],
  ["crm.*.delete", "crm.contact.note.delete", true],
  ["crm.*.delete", "crm.delete", false],
  ["a*a", "a", false],
  ["a**a", "aa", true],
  ["a*bc*bc", "abc", false],
  ["a*bc*bc", "abcbc", true],
  ["*x*x*x*", "xx", false],
  ["a.c", "abc", false],
  ["", "payment.send", false],
];

/** Matches by a regular expression, which shares nothing with the matcher. */
const matchesNaively = (pattern: string, text: string): boolean =>
  new RegExp(`^${pattern.replaceAll(".", "\\.").replaceAll("*", ".*")}$`, "s").test(text);

const shortText = (...signs: string[]) =>
  fc.array(fc.constantFrom(...signs), { maxLength: 7 }).map((parts) => parts.join(""));

describe("action-type patterns", () => {
  for (const [pattern, actionType, matches] of PATTERN_CASES) {
    it(`say ${matches} of \`${actionType}\` for \`${pattern}\`.`, () => {
      expect(matchesPattern(pattern, actionType)).to.equal(matches);
      expect(compilePatterns([pattern]).matches(actionType)).to.equal(matches);
      expect(compilePatterns(["zzz", pattern, "y*"]).matches(actionType)).to.equal(matches);
      expect(compilePatterns(["*"], ["zzz", pattern]).matches(actionType)).to.equal(!matches);
    });
  }

  it("match what a regular expression matches.", () => {
    fc.assert(
      fc.property(shortText("a", "b", ".", "*"), shortText("a", "b", "."), (pattern, text) => {
        expect(matchesPattern(pattern, text)).to.equal(matchesNaively(pattern, text));
      }),
      { numRuns: 3_000 },
    );
  });

  it("cover another pattern only if they match everything that it matches.", () => {
    let covered = 0;
    fc.assert(
      fc.property(shortText("a", "b", "*"), shortText("a", "b", "*"), shortText("a", "b"), (broad, narrow, text) => {
        if (!coversPattern(broad, narrow)) return;
        covered += 1;
        expect(matchesNaively(narrow, text) && !matchesNaively(broad, text)).to.equal(false);
      }),
      { numRuns: 5_000 },
    );
    expect(covered).to.be.above(100);
    expect(coversPattern("pay*", "payment.*")).to.equal(true);
    expect(coversPattern("*.delete", "crm.*.delete")).to.equal(true);
    expect(coversPattern("crm.*.delete", "*.delete")).to.equal(false);
  });

  it("match in time that does not grow with what `*` could stand for.", () => {
    const pattern = `*${"a".repeat(60)}*${"a".repeat(60)}*${"a".repeat(60)}*b`;
    expect(compilePatterns([pattern]).matches("a".repeat(1_000_000))).to.equal(false);
  });

  it("match nothing when there are none.", () => {
    expect(compilePatterns([]).matches("a")).to.equal(false);
    expect(compilePatterns([], ["a"]).matches("b")).to.equal(false);
  });

  it("have at most four `*`, wherever they stand.", () => {
    expect(["a", "a.*", "*", " a* ", "*a", "a*b", "a**", "*a*b*c*"].every(isActionPattern)).to.equal(true);
    expect(["", " ", "a*b*c*d*e*", "*****", "a*\u200bb"].some(isActionPattern)).to.equal(false);
  });

  it("compare action types trimmed and in lower case.", () => {
    expect(normaliseName("\t Payment.SEND ")).to.equal("payment.send");
  });
});

describe("argumentsFrom", () => {
  it("takes `metadata.arguments` if it is an object, else the metadata.", () => {
    expect(argumentsFrom(undefined)).to.equal(undefined);
    expect(argumentsFrom({ arguments: { a: 1 }, b: 2 })).to.deep.equal({ a: 1 });
    for (const other of [null, [], "{}", 5]) {
      const metadata = { arguments: other, b: 2 };
      expect(argumentsFrom(metadata)).to.equal(metadata);
    }
  });
});

describe("toolNameFrom", () => {
  const isRegistered = (name: string) => ["pay", "SendMail"].includes(name);

  it("takes what the request names, then the metadata, then a registered action type.", () => {
    expect(toolNameFrom("x", { tool: "y" }, "pay", isRegistered)).to.equal("x");
    expect(toolNameFrom(undefined, { tool: "y" }, "pay", isRegistered)).to.equal("y");
    expect(toolNameFrom(" ", { tool: 5 }, "pay", isRegistered)).to.equal("pay");
    expect(toolNameFrom(undefined, undefined, " PAY ", isRegistered)).to.equal("pay");
    expect(toolNameFrom(undefined, undefined, "SendMail", isRegistered)).to.equal("SendMail");
    expect(toolNameFrom(undefined, {}, "mail", isRegistered)).to.equal(undefined);
  });
});
