import { expect } from "chai";
import { createDatabaseClock } from "../../src/log/clock.ts";

describe("the database's clock", () => {
  it("follows the database and not the host", () => {
    let monotonic = 1000;
    const clock = createDatabaseClock(() => monotonic);
    clock.observe(5_000_000, 1000, 1010);
    monotonic = 1105;
    expect(clock.now()).to.equal(5_000_100);
  });

  it("believes the sample with the shortest round trip", () => {
    let monotonic = 1000;
    const clock = createDatabaseClock(() => monotonic);
    clock.observe(5_000_000, 999, 1001);
    clock.observe(9_000_000, 1001, 1501);
    monotonic = 1501;
    expect(clock.now()).to.equal(5_000_501);
  });

  it("follows a drift by believing newer samples after a while", () => {
    let monotonic = 0;
    const clock = createDatabaseClock(() => monotonic);
    clock.observe(1_000_000, 0, 1);
    monotonic = 60_000;
    clock.observe(1_060_500, 59_980, 60_000);
    expect(clock.now()).to.equal(1_060_510);
  });

  it("never goes back when a sample says so", () => {
    let monotonic = 1000;
    const clock = createDatabaseClock(() => monotonic);
    clock.observe(5_000_000, 1000, 1002);
    const before = clock.now();
    monotonic = 1001;
    clock.observe(4_000_000, 1001, 1001.5);
    expect(clock.now()).to.be.at.least(before);
  });
});
