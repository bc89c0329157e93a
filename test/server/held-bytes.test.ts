import { expect } from "chai";
import { deferred, GOOD, type Harness, startHarness, until, WIRES } from "./harness.ts";

const SIZE = 60_000;
const FITTING = 5;
const MAX_HELD_BYTES = FITTING * (SIZE + 1_000);

describe("the requests in flight", () => {
  let harness: Harness;
  let gate = deferred();

  before(async () => {
    harness = await startHarness({
      pipeline: { maxHeldBytes: MAX_HELD_BYTES },
      enforcement: {
        async intercept({ agentId }) {
          await gate.promise;
          return { decisionId: `dec_${agentId}` };
        },
      },
    });
  });

  after(() => harness.stop());

  for (const wire of WIRES) {
    it(`hold no more than their bytes over ${wire}: more are refused, and served once others have ended.`, async () => {
      gate = deferred();
      const request = { ...GOOD, actionContent: "x".repeat(SIZE) };
      const seen = harness.seen.length;
      let refused = 0;
      const asked = Array.from({ length: FITTING + 12 }, async () => {
        const { code, reason } = await harness.intercept(wire, request);
        if (reason === "OVERLOADED") refused += 1;
        return code;
      });
      await until(() => refused + harness.seen.length - seen === asked.length);
      expect(refused).to.be.within(12, FITTING + 11);
      gate.resolve();
      const codes = await Promise.all(asked);
      expect(codes.filter((code) => code === "RESOURCE_EXHAUSTED")).to.have.length(refused);
      expect((await harness.intercept(wire, request)).code).to.equal("OK");
      harness.seen.length = 0;
    });
  }
});
