import { expect } from "chai";
import { describeWithPackages } from "../support/debian.ts";
import { DEBIAN_POSTGRES } from "../support/debian-postgres.ts";
import { runStoreFault, STORE_FAULTS } from "./store-faults.ts";

describeWithPackages("a fault of the database or of the way to it", [DEBIAN_POSTGRES], function () {
  this.timeout(300_000);

  for (const fault of STORE_FAULTS) {
    it(`loses no acknowledged decision, is told clearly, seen in metrics, and survived: ${fault.name}.`, async function () {
      const report = await runStoreFault(fault, { callers: 20, calmMs: 1_000, faultMs: 2_000 });
      // Without the right to mount a file system.
      if (report === undefined) return this.skip();
      expect(report.faults).to.deep.equal([]);
      expect(report.acknowledged).to.be.greaterThan(0);
    });
  }
});
