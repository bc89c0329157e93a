import { expect } from "chai";
import { passEverywhere, shareFound } from "./generated-tests.ts";

describe("generated tests of many mandates", function () {
  this.timeout(600_000);

  it("pass under the compiled rules.", async () => {
    const count = await passEverywhere(400, 10_000);
    console.log(`      ${count} tests of 400 mandates pass`);
    expect(count).to.be.above(20_000);
  });

  it("fail for at least 95 % of 1,000 changes, and for each lost currency, cut ending and optional repeat.", async () => {
    const { share, byKind } = await shareFound(1_000, 20_000);
    console.log(`      ${(share * 100).toFixed(1)} % of 1,000 changes are found: ${JSON.stringify(byKind)}`);
    expect(share).to.be.at.least(0.95);
    for (const kind of ["currency", "ending", "repeat"]) expect(byKind[kind]?.found, kind).to.equal(byKind[kind]?.all);
  });
});
