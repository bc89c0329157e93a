import { expect } from "chai";
import { findUnusualBlocks } from "../../src/dashboard/live/unusual-blocks.ts";

const HOURS = 167;
const hours = (each: (hour: number) => number, last: number): number[] => [
  ...Array.from({ length: HOURS }, (_, hour) => each(hour)),
  last,
];

describe("blocked decisions of the last hour", () => {
  const CASES: readonly { given: string; hourly: readonly number[]; want: number | undefined }[] = [
    { given: "5 after a week without any", hourly: hours(() => 0, 5), want: 5 },
    { given: "4 after a week without any", hourly: hours(() => 0, 4), want: undefined },
    // Mean 10, no deviation.
    { given: "as many as in every hour before", hourly: hours(() => 10, 10), want: undefined },
    { given: "one more than in every hour before", hourly: hours(() => 10, 11), want: 11 },
    // 0 and 20 in turns: mean 9.94, deviation 10.0, so 39.94 is the bound.
    { given: "39 where hours swing from 0 to 20", hourly: hours((hour) => (hour % 2) * 20, 39), want: undefined },
    { given: "40 where hours swing from 0 to 20", hourly: hours((hour) => (hour % 2) * 20, 40), want: 40 },
    { given: "no hours", hourly: [], want: undefined },
    { given: "a log of one hour", hourly: [6], want: 6 },
  ];
  for (const { given, hourly, want } of CASES) {
    it(`are ${want === undefined ? "usual" : "unusual"}: ${given}.`, () => {
      expect(findUnusualBlocks(hourly)?.count).to.equal(want);
    });
  }

  it("are told beside the mean of the hours before.", () => {
    expect(findUnusualBlocks(hours((hour) => hour % 2, 9))?.usual).to.be.closeTo(0.497, 0.001);
  });
});
