import { expect } from "chai";
import fc from "fast-check";
import { createPlaceholders, type Placeholders } from "../../../src/redaction/text/placeholders.ts";
import { scrubberOf, streamed } from "./harness.ts";

const SCRUBBER = scrubberOf(["Anna Berg", "Berg Holm"]);
const SALT = "KXVRT";
const createBook = () => createPlaceholders({ scrubber: SCRUBBER, salt: SALT });

/** A text with the values of its placeholders, as the proxy puts them back. */
const restored = (placeholders: Placeholders, text: string): string =>
  streamed(scrubberOf([], [], []), [text], { placeholders, restore: true });

describe("placeholders", () => {
  it("are the same for the same value, and different for different ones.", () => {
    const book = createBook();
    expect(book.hide("Anna Berg, a@b.de, Anna Berg")).to.equal("[PERSON_1_KXVRT], [EMAIL_2_KXVRT], [PERSON_1_KXVRT]");
    expect(book.hide("c@d.de a@b.de")).to.equal("[EMAIL_3_KXVRT] [EMAIL_2_KXVRT]");
    expect(book.size).to.equal(3);
  });

  it("hide very many values in one text.", () => {
    const book = createBook();
    const text = "Anna Berg, ".repeat(200_000);
    expect(restored(book, book.hide(text)) === text).to.equal(true);
    expect(book.size).to.equal(1);
  });

  it("differ in their salt from one request to the next.", () => {
    const salts = Array.from({ length: 20 }, () => createPlaceholders({ scrubber: SCRUBBER }).hide("Anna Berg"));
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
    it(`are restored as \`${written}\`.`, () => {
      const book = createBook();
      book.hide("a@b.de");
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
    it(`leave \`${other}\`, which is none.`, () => {
      const book = createBook();
      book.hide("a@b.de");
      expect(restored(book, `to ${other}!`)).to.equal(`to ${other}!`);
    });
  }

  it("hide text that looks like one of them, so that it comes back as it was.", () => {
    const book = createBook();
    const hidden = book.hide("[EMAIL_2_KXVRT] a@b.de");
    expect(hidden).to.equal("[TEXT_1_KXVRT] [EMAIL_2_KXVRT]");
    expect(restored(book, hidden)).to.equal("[EMAIL_2_KXVRT] a@b.de");
    expect(book.size).to.equal(1);
  });

  it("give back every text that they hid.", () => {
    const PIECES = [
      ...["[", "]", "EMAIL_1_KXVRT", "[EMAIL_1_KXVRT]", "[text 1 KXVRT]", "[PERSON\\_2\\_kxvrt]", "[TEXT_", "1_KXVRT]"],
      ...["Anna Berg", "Berg Holm", " ", "a@b.de", "8.8.8.8", "_", "\\", "1", "x"],
    ];
    const texts = fc.array(fc.array(fc.constantFrom(...PIECES), { maxLength: 8 }), { minLength: 1, maxLength: 3 });
    fc.assert(
      fc.property(texts, (all) => {
        const book = createBook();
        for (const pieces of all) {
          const text = pieces.join("");
          expect(restored(book, book.hide(text))).to.equal(text);
        }
      }),
      { numRuns: 2000 },
    );
  });
});
