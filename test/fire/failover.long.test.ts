import { expect } from "chai";
import { describeWithPackages } from "../support/debian.ts";
import { DEBIAN_POSTGRES } from "../support/debian-postgres.ts";
import { runFailover } from "./failover.ts";

describeWithPackages("a primary that is killed under its replicas", [DEBIAN_POSTGRES], function () {
  this.timeout(240_000);

  it("takes no acknowledged decision with it, and limits stay exact on the promoted standby.", async () => {
    const { acknowledged, allowed, faults } = await runFailover({ callers: 50, calmMs: 2_000, limit: 50 });
    expect(faults).to.deep.equal([]);
    expect(allowed).to.equal(50);
    expect(acknowledged).to.be.greaterThan(50);
  });
});
