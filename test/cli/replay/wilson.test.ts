import { expect } from "chai";
import { meanOf, quantileOf, shareOf } from "../../../src/cli/replay/wilson.ts";

describe("the Wilson interval of a share", () => {
  const CASES: readonly (readonly [count: number, total: number, from: number, to: number])[] = [
    [0, 10, 0, 0.2775],
    [10, 10, 0.7225, 1],
    [5, 10, 0.2366, 0.7634],
    [1, 29, 0.0061, 0.1718],
    [21, 874, 0.0158, 0.0365],
    [0, 1, 0, 0.7935],
  ];
  for (const [count, total, from, to] of CASES) {
    it(`of ${count} in ${total} is ${from} to ${to}.`, () => {
      const share = shareOf(count, total);
      expect(share?.share).to.equal(count / total);
      expect(share?.from).to.be.closeTo(from, 0.0001);
      expect(share?.to).to.be.closeTo(to, 0.0001);
    });
  }

  it("is none of nothing.", () => {
    expect(shareOf(0, 0)).to.equal(undefined);
    expect(meanOf([])).to.equal(undefined);
    expect(quantileOf([], 0.9)).to.equal(undefined);
  });

  it("stands beside the mean and a percentile.", () => {
    expect(meanOf([1, 2, 6])).to.equal(3);
    expect(quantileOf([5, 1, 2, 3, 4, 6, 7, 8, 9, 10], 0.9)).to.equal(9);
    expect(quantileOf([7], 0.9)).to.equal(7);
  });
});
