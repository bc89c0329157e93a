import { expect } from "chai";
import { callsFrom, underWay } from "./h2load.ts";
import { type Latencies, seenLatencies } from "./wrk.ts";

/** What wrk makes of the latencies that it saw. */
function corrected(seen: Latencies, pace: number): Latencies {
  const counts = new Map(seen);
  for (let longer = Math.max(...counts.keys()); longer >= 2 * pace; longer--) {
    const [, count] = seen.find(([latency]) => latency === longer) ?? [0, 0];
    for (let added = longer - pace; count > 0 && added > pace; added -= pace) {
      counts.set(added, (counts.get(added) ?? 0) + count);
    }
  }
  return Array.from(counts).sort(([one], [other]) => one - other);
}

describe("the tools that make load", () => {
  const SEEN: Latencies = [
    [40, 3],
    [90, 500],
    [110, 400],
    [250, 5],
    [310, 2],
    [1_000, 3],
  ];
  const requests = SEEN.reduce((sum, [, count]) => sum + count, 0);
  const report = { requests, microseconds: 100 * requests, failed: 0 };

  it("of wrk's latencies leave those that were seen.", () => {
    const latencies = corrected(SEEN, 100);
    expect(latencies.length).to.be.greaterThan(SEEN.length);
    expect(seenLatencies({ ...report, latencies }, 1)).to.deep.equal(SEEN);
    expect(seenLatencies({ ...report, latencies: SEEN }, 1)).to.deep.equal(SEEN);
  });

  it("of latencies that do not fit take none.", () => {
    const latencies: Latencies = [...SEEN, [1_100, 1]];
    expect(() => seenLatencies({ ...report, latencies }, 1)).to.throw("do not fit");
  });

  it("of h2load's log take when each call began and ended.", () => {
    const calls = callsFrom("1795286453341394\t200\t4658\n");
    expect(calls).to.deep.equal([{ startedAt: 1795286453341.394, endedAt: 1795286453346.052 }]);
    expect(() => callsFrom("1795286453341394\t-1\t4658\n")).to.throw("HTTP status -1");
  });

  it("of calls count those under way at a time.", () => {
    const calls = [
      { startedAt: 0, endedAt: 30 },
      { startedAt: 15, endedAt: 20 },
      { startedAt: 45, endedAt: 90 },
      { startedAt: 50, endedAt: 60 },
    ];
    expect(underWay(calls, 10, 50)).to.equal(0.75);
  });
});
