import { expect } from "chai";
import fc from "fast-check";
import { createPlaceholders, type Placeholders } from "../../../src/redaction/text/placeholders.ts";
import { compileScrubber } from "../../../src/redaction/text/scrubber.ts";
import type { Finding } from "../../../src/text/personal-kinds.ts";
import { scrubberOf, streamed } from "./harness.ts";

const SCRUBBER = scrubberOf(["Anna Berg", "Berg Holm"]);
const SALT = "KXVRT";
const createBook = () => createPlaceholders({ scrubber: SCRUBBER, salt: SALT });

/** A text with the values of its placeholders, as the proxy puts them back. */
const restored = (placeholders: Placeholders, text: string): string =>
  streamed(scrubberOf([], [], []), [text], { placeholders, restore: true });

describe("placeholders", () => {
  it("are the same for the same value, and different for different ones.", async () => {
    const book = createBook();
    expect(await book.hide("Anna Berg, a@b.de, Anna Berg")).to.equal(
      "[PERSON_1_KXVRT], [EMAIL_2_KXVRT], [PERSON_1_KXVRT]",
    );
    expect(await book.hide("c@d.de a@b.de")).to.equal("[EMAIL_3_KXVRT] [EMAIL_2_KXVRT]");
    expect(book.size).to.equal(3);
  });

  it("hide very many values in one text.", async () => {
    const book = createBook();
    const text = "Anna Berg, ".repeat(200_000);
    expect(restored(book, await book.hide(text)) === text).to.equal(true);
    expect(book.size).to.equal(1);
  });

  it("tell each value at its place in a long text.", async () => {
    const text = "Anna Berg writes to a@b.de and calls +49 30 901820. ".repeat(200);
    const findings: Finding[] = [];
    await createBook().hide(text, { onFinding: (finding) => void findings.push(finding) });
    expect(findings).to.deep.equal(SCRUBBER.find(text)).and.to.have.length(600);
  });

  it("give the event loop its turns while they hide many telephone numbers, and hide all when there are too many.", async () => {
    const numbers = Array.from({ length: 10_000 }, (_, index) => `tel 030 ${9_000_000 + index * 97}`);
    let turns = 0;
    let isDone = false;
    const count = (): void => {
      turns++;
      if (!isDone) setImmediate(count);
    };
    setImmediate(count);
    const scrubber = compileScrubber({ registered: [], allow: [] });
    const hidden = await createPlaceholders({ scrubber }).hide(numbers.join(", "));
    isDone = true;
    expect(turns).to.be.above(5);
    expect(hidden.slice(-2_000)).to.contain("PHONE").and.not.to.match(/\d{7}/);
  });

  it("differ in their salt from one request to the next.", async () => {
    const salts = await Promise.all(
      Array.from({ length: 20 }, () => createPlaceholders({ scrubber: SCRUBBER }).hide("Anna Berg")),
    );
    expect(new Set(salts).size).to.be.greaterThan(15);
  });

  it("refuse a malformed salt.", () => {
    for (const salt of ["", "abcde", "KXVR", "KXVRA", "KXVRTT"]) {
      expect(() => createPlaceholders({ scrubber: SCRUBBER, salt })).to.throw(RangeError);
    }
  });

  for (const written of [
    "[EMAIL_1_KXVRT]",
    "[email_1_kxvrt]",
    "[EMAIL\\_1\\_KXVRT]",
    "[Email 1 KXVRT]",
    "[EMAIL-1-KXVRT]",
  ]) {
    it(`are restored as \`${written}\`.`, async () => {
      const book = createBook();
      await book.hide("a@b.de");
      expect(restored(book, `to ${written}!`)).to.equal("to a@b.de!");
    });
  }

  for (const other of [
    "[EMAIL_1]",
    "[EMAIL_2_KXVRT]",
    "[PHONE_1_KXVRT]",
    "[EMAIL_1_KXVRS]",
    "EMAIL_1_KXVRT",
    "[EMAIL_0_KXVRT]",
  ]) {
    it(`leave \`${other}\`, which is none.`, async () => {
      const book = createBook();
      await book.hide("a@b.de");
      expect(restored(book, `to ${other}!`)).to.equal(`to ${other}!`);
    });
  }

  it("hide text that looks like one of them, so that it comes back as it was.", async () => {
    const book = createBook();
    const hidden = await book.hide("[EMAIL_2_KXVRT] a@b.de");
    expect(hidden).to.equal("[TEXT_1_KXVRT] [EMAIL_2_KXVRT]");
    expect(restored(book, hidden)).to.equal("[EMAIL_2_KXVRT] a@b.de");
    expect(book.size).to.equal(1);
  });

  it("give back every text that they hid.", async () => {
    const PIECES = [
      "[",
      "]",
      "EMAIL_1_KXVRT",
      "[EMAIL_1_KXVRT]",
      "[text 1 KXVRT]",
      "[PERSON\\_2\\_kxvrt]",
      "[TEXT_",
      "1_KXVRT]",
      "Anna Berg",
      "Berg Holm",
      " ",
      "a@b.de",
      "8.8.8.8",
      "_",
      "\\",
      "1",
      "x",
    ];
    const texts = fc.array(fc.array(fc.constantFrom(...PIECES), { maxLength: 8 }), { minLength: 1, maxLength: 3 });
    await fc.assert(
      fc.asyncProperty(texts, async (all) => {
        const book = createBook();
        for (const pieces of all) {
          const text = pieces.join("");
          expect(restored(book, await book.hide(text))).to.equal(text);
        }
      }),
      { numRuns: 2000 },
    );
  });
});
