import { expect } from "chai";
import { DAY_MS, DEFAULT_TIMING, delayAfter, retryAfterMs } from "../../src/webhook/retry-schedule.ts";

const NOW = Date.parse("2026-01-02T03:04:05Z");
const HOUR_MS = 3_600_000;

const RETRY_AFTER = [
  { text: undefined, want: 0 },
  { text: "120", want: 120_000 },
  { text: "Fri, 02 Jan 2026 03:05:05 GMT", want: 60_000 },
  { text: "Fri, 02 Jan 2026 03:00:00 GMT", want: 0 },
  { text: "999999999", want: DAY_MS },
  { text: "soon", want: 0 },
];

const DELAYS = [
  { failures: 1, want: 5_000 },
  { failures: 2, want: 300_000 },
  { failures: 3, want: 1_800_000 },
  { failures: 4, want: 2 * HOUR_MS },
  { failures: 5, want: 5 * HOUR_MS },
  { failures: 6, want: 10 * HOUR_MS },
  { failures: 7, want: 14 * HOUR_MS },
  { failures: 8, want: 20 * HOUR_MS },
  { failures: 9, want: DAY_MS },
  { failures: 30, want: DAY_MS },
];

const refusal = (retryAfter?: string) => ({ kind: "answer", status: 503, retryAfter }) as const;

describe("retryAfterMs", () => {
  for (const { text, want } of RETRY_AFTER) {
    it(`reads ${want} ms from \`${text}\`.`, () => {
      expect(retryAfterMs(text, NOW)).to.equal(want);
    });
  }
});

describe("delayAfter", () => {
  for (const { failures, want } of DELAYS) {
    it(`waits ${want} ms, a fifth more or less, after ${failures} failures.`, () => {
      const at = (random: number) => delayAfter(DEFAULT_TIMING, failures, refusal(), NOW, () => random);
      expect([at(0), at(0.5), at(1)]).to.deep.equal([want * 0.8, want, want * 1.2]);
    });
  }

  it("waits as long as the receiver asks for when that is longer.", () => {
    expect(delayAfter(DEFAULT_TIMING, 1, refusal("60"), NOW, () => 0.5)).to.equal(60_000);
    expect(delayAfter(DEFAULT_TIMING, 2, refusal("60"), NOW, () => 0.5)).to.equal(300_000);
  });
});
