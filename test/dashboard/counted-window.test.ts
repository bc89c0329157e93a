import { expect } from "chai";
import { countedWindow } from "../../src/dashboard/screens/decisions/counted-window.ts";

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
/** Bars of one chart, at most. */
const MAX_BARS = 51;

describe("the window that the chart of decisions counts", () => {
  const midnight = Date.UTC(2026, 4, 10);
  const now = midnight + 10 * HOUR_MS + 17 * 60_000;
  const iso = (ms: number): string => new Date(ms).toISOString();

  it("is the last 24 hours without filters, to the end of the running half hour.", () => {
    const { sinceMs, untilMs, bucketSeconds, title } = countedWindow({ since: "", until: "" }, now, "utc");
    expect(bucketSeconds).to.equal(1_800);
    expect(untilMs).to.equal(midnight + 10.5 * HOUR_MS);
    expect(sinceMs).to.equal(untilMs - DAY_MS);
    expect(title).to.equal("last 24 hours");
  });

  it("is exactly the time of the filters.", () => {
    const [from, end] = [midnight - DAY_MS, midnight];
    const window = countedWindow({ since: iso(from), until: iso(end) }, now, "utc");
    expect([window.sinceMs, window.untilMs]).to.deep.equal([from, end]);
  });

  it("has at most 51 bars for any length of time, from a second to years.", () => {
    for (let spanMs = 1; spanMs < 5_000 * DAY_MS; spanMs *= 3) {
      for (const until of ["", iso(now)]) {
        const { sinceMs, untilMs, bucketSeconds } = countedWindow({ since: iso(now - spanMs), until }, now, "utc");
        const bars = Math.ceil((untilMs - sinceMs) / (bucketSeconds * 1_000));
        expect(bars, `${spanMs} ms`).to.be.within(1, MAX_BARS);
        expect(untilMs - sinceMs, `${spanMs} ms`).to.be.at.most(366 * DAY_MS);
      }
    }
  });

  it("is cut to the last 366 days, and says so.", () => {
    const { title, untilMs, sinceMs } = countedWindow(
      { since: iso(now - 1_000 * DAY_MS), until: iso(now) },
      now,
      "utc",
    );
    expect(title).to.equal("last 366 days of this time");
    expect(untilMs).to.equal(now);
    expect(sinceMs).to.be.above(now - 367 * DAY_MS);
  });

  it("is a day where the filters leave none, and where they cannot be read.", () => {
    for (const since of [iso(now + DAY_MS), "nonsense"]) {
      const { sinceMs, untilMs } = countedWindow({ since, until: "" }, now, "utc");
      expect(untilMs - sinceMs).to.equal(DAY_MS);
    }
    const before = countedWindow({ since: "", until: iso(midnight) }, now, "utc");
    expect([before.sinceMs, before.untilMs]).to.deep.equal([midnight - DAY_MS, midnight]);
  });
});
