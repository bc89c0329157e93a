import { expect } from "chai";
import { runHostile } from "./run.ts";

const SEED = 2_100;
const CASES = 100_000;
/** Of each kind, at the least. */
const LEAST = 600;

/** The long form of `hostile.test.ts`. */
describe("many hostile requests", () => {
  it("are refused, or get no better decision than their plain forms.", async function () {
    this.timeout(1_800_000);
    const { counts, findings } = await runHostile(SEED, CASES);
    expect(findings, findings.join("\n")).to.deep.equal([]);
    for (const [name, count] of Object.entries(counts)) expect(count, name).to.be.at.least(LEAST);
  });
});
