import { expect } from "chai";
import { type HostileRun, runHostile, runHostileWire } from "./run.ts";

const SEED = 2_100;
const CASES = 100_000;
/** Of the cases, those that are sent to the program as a process. */
const WIRE_CASES = 6_000;
/** Of each kind, at the least. */
const LEAST = 300;

/** The long form of `hostile.test.ts`. */
describe("many hostile requests", () => {
  function assertSound({ counts, findings }: HostileRun): void {
    expect(findings, findings.join("\n")).to.deep.equal([]);
    for (const [name, count] of Object.entries(counts)) expect(count, name).to.be.at.least(LEAST);
  }

  it("are refused, or get no better decision than their plain forms.", async function () {
    this.timeout(1_800_000);
    assertSound(await runHostile(SEED, CASES - WIRE_CASES));
  });

  it("are so as bytes over HTTP and on streams, whose key may end.", async function () {
    this.timeout(1_800_000);
    assertSound(await runHostileWire(SEED, WIRE_CASES));
  });
});
