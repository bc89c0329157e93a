import { expect } from "chai";
import {
  argumentsFrom,
  compilePatterns,
  isActionPattern,
  matchesPattern,
  normaliseName,
  toolNameFrom,
} from "../../src/policy/names.ts";

const PATTERN_CASES: readonly (readonly [string, string, boolean])[] = [
  ["payment.send", "payment.send", true],
  [" Payment.Send ", "payment.send", true],
  ["payment.send", "payment.sender", false],
  ["payment.*", "payment.send", true],
  ["payment.*", "payment.", true],
  ["payment.*", "payment", false],
  ["PAY*", "payment.send", true],
  ["*", "anything", true],
  ["a*b", "axb", false],
  ["", "payment.send", false],
];

describe("action-type patterns", () => {
  for (const [pattern, actionType, matches] of PATTERN_CASES) {
    it(`say ${matches} of \`${actionType}\` for \`${pattern}\`.`, () => {
      expect(matchesPattern(pattern, actionType)).to.equal(matches);
      expect(compilePatterns([pattern]).matches(actionType)).to.equal(matches);
      expect(compilePatterns(["zzz", pattern, "y*"]).matches(actionType)).to.equal(matches);
    });
  }

  it("match nothing when there are none.", () => {
    expect(compilePatterns([]).matches("a")).to.equal(false);
  });

  it("have `*` at their end or not at all.", () => {
    expect(["a", "a.*", "*", " a* "].every(isActionPattern)).to.equal(true);
    expect(["", " ", "*a", "a*b", "a**"].some(isActionPattern)).to.equal(false);
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
