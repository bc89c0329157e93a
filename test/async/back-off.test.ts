import { expect } from "chai";
import { createBackOff, pauseAfter } from "../../src/async/back-off.ts";

const OPTIONS = { firstMs: 100, maxMs: 1_000 };
/** Spans of the first pauses. */
const SPANS = [100, 200, 400, 800, 1_000, 1_000];

describe("a back-off", () => {
  it("doubles its pauses up to the longest, each less up to half of it at random.", () => {
    for (const [failures, span] of SPANS.entries()) {
      const pauses = Array.from({ length: 200 }, () => pauseAfter(OPTIONS, failures));
      for (const pause of pauses) expect(pause).to.be.within(span / 2, span);
      expect(new Set(pauses).size).to.be.above(1);
    }
    expect(pauseAfter(OPTIONS, 5_000)).to.be.within(500, 1_000);
  });

  it("starts over when it is reset.", () => {
    const backOff = createBackOff(OPTIONS);
    for (const span of SPANS) expect(backOff.next()).to.be.within(span / 2, span);
    backOff.reset();
    for (const span of SPANS) expect(backOff.next()).to.be.within(span / 2, span);
  });
});
