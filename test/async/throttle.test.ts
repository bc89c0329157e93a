import { expect } from "chai";
import { Throttle, type ThrottleOptions } from "../../src/async/throttle.ts";

describe("a throttle", () => {
  let nowMs = 0;
  const create = (options: Partial<ThrottleOptions> = {}) => {
    nowMs = 0;
    return new Throttle({ capacity: 3, refill: 1, intervalMs: 1_000, maxKeys: 10, now: () => nowMs, ...options });
  };
  const take = (throttle: Throttle, times: number, key = "a"): number[] =>
    Array.from({ length: times }, () => throttle.take(key));

  it("gives each key as many tokens at once as its bucket holds, and counts what it refuses.", () => {
    const throttle = create();
    expect(take(throttle, 5)).to.deep.equal([0, 0, 0, 1, 2]);
    expect(take(throttle, 1, "b")).to.deep.equal([0]);
    expect(["a", "b", "c"].map((key) => throttle.isExhausted(key))).to.deep.equal([true, false, false]);
  });

  it("gives tokens back with each interval, no more than a bucket holds, and counts anew once it is full.", () => {
    const throttle = create();
    take(throttle, 4);
    nowMs = 999;
    expect(throttle.isExhausted("a")).to.equal(true);
    nowMs = 2_500;
    expect(take(throttle, 3)).to.deep.equal([0, 0, 2]);
    nowMs = 3_000;
    expect(take(throttle, 2)).to.deep.equal([0, 3]);
    nowMs = 60_000;
    expect(take(throttle, 4)).to.deep.equal([0, 0, 0, 1]);
  });

  it("gives a whole bucket back at once where an interval brings that much: so many an interval, counted from the first.", () => {
    const throttle = create({ refill: 3, intervalMs: 60_000 });
    nowMs = 10_000;
    take(throttle, 1);
    nowMs = 69_999;
    expect(take(throttle, 3)).to.deep.equal([0, 0, 1]);
    nowMs = 70_000;
    expect(throttle.isExhausted("a")).to.equal(false);
    expect(take(throttle, 4)).to.deep.equal([0, 0, 0, 1]);
  });

  it("forgets the key that was quiet longest.", () => {
    const throttle = create({ maxKeys: 2 });
    for (const key of ["a", "b", "a", "c"]) take(throttle, 3, key);
    expect(["a", "b", "c"].map((key) => throttle.isExhausted(key))).to.deep.equal([true, false, true]);
  });
});
