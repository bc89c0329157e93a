import { expect } from "chai";
import { createScrubber, DETECTORS } from "../../../src/redaction/text/scrubber.ts";
import type { NumberDetector } from "../../../src/text/detectors/detector.ts";
import { DETECTED_KINDS } from "../../../src/text/personal-kinds.ts";
import { marked, SAMPLES, scrubberOf, unmarked } from "./harness.ts";

describe("the detectors", () => {
  it("are one for each kind, with samples.", () => {
    expect(DETECTORS.map(({ kind }) => kind)).to.have.members(DETECTED_KINDS);
    expect(SAMPLES.map(({ kind }) => kind)).to.have.members(DETECTED_KINDS);
  });

  for (const { kind, found, left } of SAMPLES) {
    const alone = scrubberOf([], [], [kind]);
    for (const text of found) {
      it(`find ${kind} in ${JSON.stringify(text)}.`, () => {
        expect(marked(unmarked(text), alone.find(unmarked(text)))).to.equal(text);
      });
    }
    for (const text of left) {
      it(`find no ${kind} in ${JSON.stringify(text)}.`, () => {
        expect(marked(text, alone.find(text))).to.equal(text);
      });
    }
  }

  it("take the end of a local part that is too long, with the domain.", () => {
    const text = `${"a".repeat(100)}@firma.de`;
    expect(scrubberOf().find(text)).to.deep.equal([{ kind: "email", start: 36, end: text.length }]);
  });
});

describe("a detector that throws", () => {
  const value = "4242 4242 4242 4242";
  const throwing: NumberDetector = {
    kind: "other",
    trigger: "number",
    match({ text }) {
      throw new RangeError(`cannot read ${text}`);
    },
  };
  const failing = createScrubber({ detectors: [throwing], registered: undefined, isAllowed: () => false });

  for (const [name, call] of [
    ["find", () => failing.find(`a ${value}`)],
    ["scrub", () => failing.scrub(`a ${value}`)],
  ] as const) {
    it(`fails \`${name}\` without quoting the text.`, () => {
      expect(call).to.throw(Error, /^a detector failed with RangeError$/);
    });
  }

  it("fails the stream for good.", () => {
    const stream = failing.openStream({ restore: false });
    expect(stream.push("before ")).to.equal("before ");
    expect(stream.push(value)).to.equal("");
    expect(() => stream.push(".\n")).to.throw("a detector failed");
    expect(() => stream.push(" after")).to.throw("the stream has ended");
    expect(() => stream.end()).to.throw("the stream has ended");
  });
});
