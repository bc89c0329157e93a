import { expect } from "chai";
import pino from "pino";
import { networkOf, WrongKeys } from "../../src/server/wrong-keys.ts";
import { ADMIN_KEY, GOOD, type Harness, startHarness, WIRES } from "./harness.ts";

const WRONG = "acp_guess_a_key_of_mine_0123456789";
const BURST = 60;

for (const wire of WIRES) {
  describe(`wrong keys over ${wire}`, () => {
    let harness: Harness;

    before(async () => {
      harness = await startHarness();
    });

    after(() => harness.stop());

    it("are refused as too many from one address, while the right key is served; the log never shows a key.", async () => {
      const outcomes = await Promise.all(
        Array.from({ length: BURST + 20 }, () => harness.intercept(wire, GOOD, { key: WRONG })),
      );
      const reasons = outcomes.map(({ reason }) => reason);
      expect(reasons.filter((reason) => reason === "KEY_INVALID").length).to.be.within(BURST, BURST + 10);
      const late = outcomes.find(({ reason }) => reason === "TOO_MANY_WRONG_KEYS");
      expect(late?.code).to.equal("RESOURCE_EXHAUSTED");
      for (let turn = 0; turn < 5; turn++)
        expect((await harness.intercept(wire, GOOD, { key: ADMIN_KEY })).code).to.equal("OK");
      const logged = harness.logged.join("");
      expect(logged).to.include('"msg":"wrong key"').and.include('"address":"127.0.0.1"');
      expect(logged.split("too many wrong keys").length - 1).to.equal(1);
      expect(logged).to.not.include(WRONG.slice(0, 12));
    });
  });
}

describe("wrong keys", () => {
  const log = pino({ level: "silent" });
  const call = { requestId: "r", method: "m" };

  it("may come again, one a second.", () => {
    let nowMs = 0;
    const keys = new WrongKeys(log, () => nowMs);
    const isRefused = (address: string): boolean => keys.refusal({ ...call, address }) !== undefined;
    for (let index = 0; index < BURST; index++) expect(isRefused("192.0.2.1")).to.equal(false);
    expect([isRefused("192.0.2.1"), isRefused("192.0.2.2")]).to.deep.equal([true, false]);
    nowMs = 1_000;
    expect([isRefused("192.0.2.1"), isRefused("192.0.2.1")]).to.deep.equal([false, true]);
  });

  it("of one IPv6 network count together.", () => {
    for (const address of ["2001:db8:0:1::5", "2001:DB8:0:1:ffff::", "2001:db8::1:0:0:0:9", "2001:db8:0:1::5%eth0"])
      expect(networkOf(address)).to.equal("2001:db8:0:1::/64");
    expect(networkOf("::1")).to.equal("0:0:0:0::/64");
    expect(networkOf("::ffff:192.0.2.7")).to.equal("192.0.2.7");
  });
});
