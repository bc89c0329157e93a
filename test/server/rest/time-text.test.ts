import { expect } from "chai";
import fc from "fast-check";
import { textFromTimestamp, timestampFromText } from "../../../src/server/rest/time-text.ts";

const instant = fc.date({
  min: new Date("0001-01-01T00:00:00Z"),
  max: new Date("9999-12-31T23:59:59.999Z"),
  noInvalidDate: true,
});

function timestampOf(date: Date) {
  const seconds = Math.floor(date.getTime() / 1000);
  return { seconds: BigInt(seconds), nanos: (date.getTime() - seconds * 1000) * 1_000_000 };
}

describe("the text of timestamps", () => {
  it("is what the platform's own dates say, both ways.", () => {
    fc.assert(
      fc.property(instant, (date) => {
        const text = textFromTimestamp(timestampOf(date));
        expect(text).to.equal(date.toISOString().replace(".000Z", "Z"));
        expect(timestampFromText(date.toISOString())).to.deep.equal(timestampOf(date));
      }),
      { numRuns: 2000 },
    );
  });

  it("is right on every day around leap days and the turns of centuries.", () => {
    for (const year of [1, 4, 100, 400, 1600, 1900, 1970, 1999, 2000, 2024, 2100, 9999]) {
      for (let day = 0; day < 366; day++) {
        const date = new Date(0);
        date.setUTCFullYear(year, 0, 1 + day);
        if (date.getUTCFullYear() > 9999) continue;
        expect(textFromTimestamp(timestampOf(date))).to.equal(date.toISOString().replace(".000Z", "Z"));
        expect(timestampFromText(date.toISOString())).to.deep.equal(timestampOf(date));
      }
    }
  });

  it("counts offsets from UTC.", () => {
    fc.assert(
      fc.property(instant, fc.integer({ min: -23 * 60 - 59, max: 23 * 60 + 59 }), (date, minutes) => {
        const local = new Date(date.getTime() + minutes * 60_000);
        fc.pre(local.getUTCFullYear() >= 1 && local.getUTCFullYear() <= 9999);
        const [hour, minute] = [Math.abs(minutes) / 60, Math.abs(minutes) % 60].map((n) =>
          String(Math.floor(n)).padStart(2, "0"),
        );
        const text = `${local.toISOString().slice(0, -1)}${minutes < 0 ? "-" : "+"}${hour}:${minute}`;
        expect(timestampFromText(text)).to.deep.equal(timestampOf(date));
      }),
    );
  });

  for (const text of [
    "",
    "2026-01-31",
    "2026-1-31T00:00:00Z",
    "2026-13-01T00:00:00Z",
    "2025-02-29T00:00:00Z",
    "1900-02-29T00:00:00Z",
    "2026-04-31T00:00:00Z",
    "2026-01-00T00:00:00Z",
    "2026-01-01 00:00:00Z",
    "2026-01-01T00:00:60Z",
    "2026-01-01T00:60:00Z",
    "2026-01-01T00:00:00.Z",
    "2026-01-01T00:00:00.1234567890Z",
    "2026-01-01T00:00:00+24:00",
    "2026-01-01T00:00:00+0100",
    "2026-01-01T00:00:00z",
    "2026-01-01T00:00:00Z ",
    "+002026-01-01T00:00:00Z",
    "0001-01-01T00:00:00+00:01",
    "9999-12-31T23:59:59-00:01",
  ]) {
    it(`is never \`${text}\`.`, () => {
      expect(timestampFromText(text)).to.equal(undefined);
    });
  }

  for (const [seconds, nanos] of [
    [253402300800n, 0],
    [-62135596801n, 0],
    [0n, -1],
    [0n, 1e9],
  ] as const) {
    it(`does not exist for ${seconds} s and ${nanos} ns.`, () => {
      expect(() => textFromTimestamp({ seconds, nanos })).to.throw(RangeError);
    });
  }
});
