import { expect } from "chai";
import { compileWhen } from "../../../src/policy/when/compile-when.ts";
import { HOSTILE, type HostileCase, hostileCase, PATTERN_TOOLS } from "./hostile-cases.ts";
import { drawFrom } from "./random-when.ts";

/** The long form takes 100,000. */
const EXPRESSIONS = Number(process.env.HOSTILE_WHENS ?? 500);
const SEED = Number(process.env.SEED ?? Date.now() % 2 ** 31);

describe("hostile expressions", () => {
  it(`never throw, and end within their steps (seed ${SEED}).`, function () {
    // As long as the number of expressions takes.
    this.timeout(0);
    const seen = { result: 0, limit: 0 };
    for (let index = 0; index < EXPRESSIONS; index++) {
      const hostile = hostileCase(SEED + index);
      if (hostile === undefined) continue;
      const { expression } = hostile;
      let judged: ReturnType<HostileCase["judge"]>;
      try {
        judged = hostile.judge();
      } catch (error) {
        throw new Error(`SEED=${SEED + index}: ${expression}`, { cause: error });
      }
      if (judged.result instanceof Error) seen.limit++;
      else {
        seen.result++;
        expect(judged.stepsLeft, expression).to.be.at.least(0);
      }
    }
    expect(seen.limit, JSON.stringify(seen)).to.be.greaterThan(EXPRESSIONS / 20);
    expect(seen.result, JSON.stringify(seen)).to.be.greaterThan(EXPRESSIONS / 20);
  });

  it("all compile.", () => {
    for (const expression of HOSTILE)
      expect(compileWhen(expression, PATTERN_TOOLS).kind, expression).to.equal("compiled");
  });

  it("never make compiling throw, whatever their text.", () => {
    const pieces = [
      "(",
      ")",
      "[",
      "]",
      "{",
      "}",
      "args",
      ".",
      "a",
      "1",
      "1u",
      '"',
      "'",
      "\\",
      "!",
      "-",
      "&&",
      "||",
      "?",
      ":",
      ",",
      "all",
      "in",
      "has",
      "//",
      "\n",
      "r'",
      '"""',
      "😁",
      "\ud800",
      "\0",
      "@result",
      "_+_",
      "x",
      "map",
      "1e999",
      "0x",
    ];
    for (let index = 0; index < 5_000; index++) {
      const from = drawFrom(SEED + index);
      const text = Array.from({ length: from(30) }, () => pieces[from(pieces.length)]).join(from(2) === 0 ? "" : " ");
      try {
        compileWhen(text, PATTERN_TOOLS);
      } catch (error) {
        throw new Error(`SEED=${SEED + index}: ${JSON.stringify(text)}`, { cause: error });
      }
    }
    for (const [open, close] of ["()", "[]", "{}", "!", "-", "a.", "a?b:", "a&&", "f(", "a.all(x,"].map((each) => [
      each,
      "",
    ])) {
      for (const times of [10, 100, 1_000, 4_000]) compileWhen(`${open?.repeat(times)}a${close}`, PATTERN_TOOLS);
    }
  });
});
