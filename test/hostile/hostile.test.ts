import { expect } from "chai";
import { runHostile } from "./run.ts";

const SEED = 21;
const CASES = 5_000;
/** Of each kind, at the least. */
const LEAST = 30;

describe("hostile requests", () => {
  it("are refused, or get no better decision than their plain forms.", async function () {
    this.timeout(180_000);
    const { counts, findings } = await runHostile(SEED, CASES);
    expect(findings, findings.join("\n")).to.deep.equal([]);
    for (const [name, count] of Object.entries(counts)) expect(count, name).to.be.at.least(LEAST);
  });
});
