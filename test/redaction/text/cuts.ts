/*
 * Checks that a stream gives for every cut of a text what the whole text gives. `CUTS=25000 mocha
 * test/redaction/text/stream.test.ts` checks many cases.
 */
import { expect } from "chai";
import fc from "fast-check";
import { totalCount } from "../../../src/text/personal-kinds.ts";
import { cutAt, SAMPLES, scrubberOf, streamed, unmarked } from "./harness.ts";

const NAMES = ["Anna Berg", "Berg Holm", "Ström", "Jo", "KD-0042", "#77", "田中", "Anna Berg Holm-Ström GmbH", "a@b"];

/** A scrubber with names that begin and end within each other, and an allow-list. */
export const SCRUBBER = scrubberOf(NAMES, ["*@allowed.example", "8.8.4.4"]);

/** Pieces that texts are made of: values, what is nearly one, what stands between, and what takes no room. */
const PIECES = [
  ...SAMPLES.flatMap(({ found, left }) => [...found.map(unmarked), ...left]),
  ...NAMES,
  "anna@allowed.example",
  "8.8.4.4",
  "ANNA  \n berg",
  "Stro\u0308m",
  "Jo\u00adhn",
  "J\u200bo",
  "KD-00",
  "Berg",
  "Anna",
  "born on ",
  "March ",
  "May",
  "tel. ",
  "ssn ",
  "+",
  "(",
  ")",
  "[",
  "]",
  "@",
  ".",
  "-",
  "_",
  " ",
  "  ",
  "\n",
  ",",
  "«",
  "Hello",
  "und",
  "the",
  "0",
  "1",
  "42",
  "2001:",
  "DE89",
  "x",
  "é",
  "😀",
  "\ud83d",
  "あ",
  "a".repeat(70),
  "9".repeat(60),
];

const textOf = fc.array(fc.constantFrom(...PIECES), { minLength: 1, maxLength: 8 }).map((pieces) => pieces.join(""));
const placesOf = fc.array(fc.nat({ max: 200 }), { maxLength: 12 });

const sortedPlaces = (places: readonly number[], text: string): number[] =>
  places.map((place) => place % (text.length + 1)).sort((one, other) => one - other);

/** Checks texts that are cut at up to twelve places. */
export function checkCuts(numRuns: number): void {
  const property = fc.property(textOf, placesOf, (text, places) => {
    const chunks = cutAt(text, sortedPlaces(places, text));
    expect(streamed(SCRUBBER, chunks)).to.equal(SCRUBBER.scrub(text));
  });
  fc.assert(property, { numRuns });
}

/** Checks texts that come unit by unit, and the counts of what was scrubbed. */
export function checkUnits(numRuns: number): void {
  const property = fc.property(textOf, (text) => {
    const stream = SCRUBBER.openStream({ restore: false });
    let out = "";
    for (let index = 0; index < text.length; index++) out += stream.push(text.charAt(index));
    out += stream.end();
    expect(out).to.equal(SCRUBBER.scrub(text));
    expect(totalCount(stream.leaked)).to.equal(SCRUBBER.find(text).length);
  });
  fc.assert(property, { numRuns });
}
