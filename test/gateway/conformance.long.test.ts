import { expect } from "chai";
import { compareConformance, isLost, type Row } from "./conformance.ts";

describe("the official conformance suite", function () {
  this.timeout(300_000);
  let lists: ReadonlyMap<string, readonly Row[]>;
  before(async () => {
    lists = await compareConformance();
  });

  it("passes through the gateway wherever it passes directly.", () => {
    for (const [requirements, rows] of lists) {
      expect(rows.filter(isLost), requirements).to.deep.equal([]);
      expect(rows.filter(({ direct }) => direct?.failed === 0).length, requirements).to.be.at.least(33);
    }
  });
});
