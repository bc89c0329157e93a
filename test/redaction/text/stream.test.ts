import { expect } from "chai";
import { createPlaceholders } from "../../../src/redaction/text/placeholders.ts";
import { compileScrubber } from "../../../src/redaction/text/scrubber.ts";
import { checkCuts, checkUnits, SCRUBBER } from "./cuts.ts";
import { cutsIntoThree, SAMPLES, streamed, unmarked } from "./harness.ts";

const RUNS = Number(process.env.CUTS ?? 2_500);

describe("a stream", () => {
  it("gives for every cut of every sample into three what the whole text gives.", () => {
    for (const sample of SAMPLES.flatMap(({ found }) => found)) {
      const text = `to ${unmarked(sample)} or`;
      const want = SCRUBBER.scrub(text);
      for (const chunks of cutsIntoThree(text)) {
        if (streamed(SCRUBBER, chunks) !== want) expect(streamed(SCRUBBER, chunks), chunks.join("|")).to.equal(want);
      }
    }
  });

  it("gives for every cut of any text what the whole text gives.", () => checkCuts(RUNS));

  it("gives for any text unit by unit what the whole text gives, and counts what it scrubbed.", () => checkUnits(RUNS));

  const STEPS: readonly { readonly title: string; readonly steps: readonly (readonly [string, string])[] }[] = [
    {
      title: "lets words go when the next one begins.",
      steps: [
        ["Hello", ""],
        [" world", "Hello "],
        [".", ""],
        [" It", "world. "],
      ],
    },
    {
      title: "holds an address until it is over, and counts on nothing that has not come.",
      steps: [
        ["Mail anna", "Mail "],
        ["@firma", ""],
        [".de", ""],
        [".", ""],
        [" ok ", "[EMAIL]. ok "],
      ],
    },
    {
      title: "holds a registered name no longer than it can be one.",
      steps: [
        ["Anna ", ""],
        ["B", ""],
        ["rown ", "Anna Brown "],
        ["Anna Berg", ""],
        [" is", "[PERSON_NAME] "],
      ],
    },
    {
      title: "holds a number while it may go on.",
      steps: [
        ["I have 2", "I have "],
        [" ", ""],
        ["apples", "2 "],
        [" and 4242", "apples and "],
        [" 4242 4242", ""],
        [" 4242 ", ""],
        ["too", "[PAYMENT_CARD] "],
      ],
    },
    {
      title: "holds no text without spaces for what is no address.",
      steps: [
        ["今日はとても", "今日はとても"],
        ["いい天気です", "いい天気です"],
      ],
    },
    {
      title: "keeps the units of a character together.",
      steps: [
        ["ok 😀\ud83d", "ok 😀"],
        ["\ude00", "😀"],
      ],
    },
  ];
  for (const { title, steps } of STEPS) {
    it(title, () => {
      const stream = SCRUBBER.openStream({ restore: false });
      const outs = steps.map(([chunk]) => [chunk, stream.push(chunk)]);
      expect(outs).to.deep.equal(steps);
    });
  }

  const RUNS_OF: readonly (readonly [string, string, number])[] = [
    ["letters", "a", 64],
    ["digits", "1", 64],
    ["digits with spaces", "1 ", 64],
    ["groups of digits", "1234 ", 64],
    ["white space", " ", 64],
    ["a name that begins again and again", "Anna ", 64],
    ["letters after a birth", "born 12 a", 64],
    ["opening brackets", "[(+", 64],
    ["hexadecimal groups", "2001:", 64],
  ];
  for (const [name, unit, bound] of RUNS_OF) {
    it(`holds at most ${bound} units back of a long run of ${name}.`, () => {
      const stream = SCRUBBER.openStream({ restore: false, placeholders: createPlaceholders({ scrubber: SCRUBBER }) });
      const text = unit.repeat(2000 / unit.length);
      let out = 0;
      let held = 0;
      for (let index = 0; index < text.length; index++) {
        out += stream.push(text.charAt(index)).length;
        held = Math.max(held, index + 1 - out);
      }
      expect(held).to.be.at.most(bound);
      expect(out + stream.end().length).to.equal(text.length);
    });
  }
});

describe("a stream with placeholders", () => {
  const openBook = async () => {
    const scrubber = compileScrubber({ registered: [{ kind: "person_name", value: "Anna Berg" }], allow: [] });
    const placeholders = createPlaceholders({ scrubber, salt: "KXVRT" });
    return { scrubber, hidden: await placeholders.hide("Anna Berg, anna@firma.de"), placeholders };
  };

  it("restores them wherever they are cut.", async () => {
    const { scrubber, hidden, placeholders } = await openBook();
    const text = `Dear ${hidden}: [EMAIL_9_KXVRT] [PERSON_1_KXVRS] [see](x) [`;
    const want = "Dear Anna Berg, anna@firma.de: [EMAIL_9_KXVRT] [PERSON_1_KXVRS] [see](x) [";
    for (const chunks of cutsIntoThree(text)) {
      const stream = scrubber.openStream({ placeholders, restore: true });
      const out = chunks.map((chunk) => stream.push(chunk)).join("") + stream.end();
      expect([out, stream.leaked.size], chunks.join("|")).to.deep.equal([want, 0]);
    }
  });

  it("leaves them where restoring is not allowed, and counts what the model says itself.", async () => {
    const { scrubber, hidden, placeholders } = await openBook();
    const stream = scrubber.openStream({ placeholders, restore: false });
    expect(stream.push(`${hidden} Anna Berg`) + stream.end()).to.equal(`${hidden} [PERSON_NAME]`);
    expect([...stream.leaked]).to.deep.equal([["person_name", 1]]);
  });

  it("writes restored values as the text needs them.", async () => {
    const { scrubber, hidden, placeholders } = await openBook();
    const write = (value: string): string => JSON.stringify(value).toUpperCase();
    expect(streamed(scrubber, [hidden], { placeholders, restore: true, write })).to.equal(
      '"ANNA BERG", "ANNA@FIRMA.DE"',
    );
  });

  it("lets what cannot become one go at once.", async () => {
    const { scrubber, placeholders } = await openBook();
    const stream = scrubber.openStream({ placeholders, restore: true });
    expect(["[", "em", "pty ", "[EMAIL_1", "]"].map((chunk) => stream.push(chunk))).to.deep.equal([
      "",
      "",
      "[empty ",
      "",
      "[EMAIL_1]",
    ]);
  });
});
