import type { JsonObject } from "@bufbuild/protobuf";
import { expect } from "chai";
import fc from "fast-check";
import { createPolicySet } from "../../src/policy/policy-set.ts";
import type { NaiveRule } from "../log/naive-log.ts";
import { isScheduled } from "../log/naive-rules.ts";
import { contextFrom, mandateFrom, testdata } from "./harness.ts";

interface Case {
  readonly description: string;
  readonly conditions: JsonObject;
  readonly fires: readonly string[];
  readonly passes: readonly string[];
}

const { cases } = testdata<{ cases: Case[] }>("schedule");
const ZONES = ["UTC", "Europe/Berlin", "America/St_Johns", "Australia/Lord_Howe", "Asia/Kathmandu", "Pacific/Apia"];
const DAYS = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"];

function setFrom(conditions: JsonObject) {
  return createPolicySet([mandateFrom([{ type: "schedule", decision: "block", conditions }])]);
}

const minute = fc
  .integer({ min: 0, max: 1439 })
  .map((at) => `${`${Math.floor(at / 60)}`.padStart(2, "0")}:${`${at % 60}`.padStart(2, "0")}`);
const hours = fc
  .record({
    time_zone: fc.constantFrom(...ZONES),
    days: fc.subarray(DAYS),
    from: minute,
    to: fc.oneof(minute, fc.constant("24:00")),
    outside: fc.boolean(),
  })
  .filter(({ from, to }) => from !== to);
// Around the days on which clocks change, and any other time.
const time = fc.oneof(
  fc.integer({ min: Date.parse("2025-03-29T00:00Z"), max: Date.parse("2025-04-07T00:00Z") }),
  fc.integer({ min: Date.parse("2025-10-24T00:00Z"), max: Date.parse("2025-11-03T00:00Z") }),
  fc.integer({ min: Date.parse("2011-12-28T00:00Z"), max: Date.parse("2012-01-02T00:00Z") }),
  fc.integer({ min: 0, max: Date.parse("2090-01-01T00:00Z") }),
);

describe("a schedule rule", () => {
  for (const { description, conditions, fires, passes } of cases) {
    it(`covers ${description}.`, () => {
      const set = setFrom(conditions);
      const decisionAt = (at: string) => set.evaluate(contextFrom({ nowMs: Date.parse(at) })).decision;
      for (const at of fires) expect(decisionAt(at), at).to.equal("block");
      for (const at of passes) expect(decisionAt(at), at).to.equal(undefined);
    });
  }

  it("says which hours it is in.", () => {
    const set = setFrom({ time_zone: "Europe/Berlin", days: ["mon", "tue"], from: "08:00", outside: true });
    const [reason] = set.evaluate(contextFrom({ nowMs: Date.parse("2025-01-06T06:05:00Z") })).reasons;
    expect(reason?.message).to.equal("it is mon 07:05, which is outside mon, tue 08:00 to 24:00 in Europe/Berlin");
  });

  it("agrees with what a calendar shows, at any time in any zone.", () => {
    let fired = 0;
    fc.assert(
      fc.property(hours, fc.array(time, { minLength: 8, maxLength: 8 }), (conditions, times) => {
        const set = setFrom(conditions);
        const days = conditions.days.map((day) => `WEEKDAY_${day.toUpperCase()}`);
        const naive = { type: "", decision: "", conditions: { ...conditions, days } } as NaiveRule;
        for (const nowMs of times) {
          const { decision } = set.evaluate(contextFrom({ nowMs }));
          expect(decision === "block", `${JSON.stringify(conditions)} ${new Date(nowMs).toISOString()}`).to.equal(
            isScheduled(naive, nowMs),
          );
          if (decision === "block") fired += 1;
        }
      }),
      { numRuns: 150 },
    );
    expect(fired).to.be.above(200);
  });
});
