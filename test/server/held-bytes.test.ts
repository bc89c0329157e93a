import { gzipSync } from "node:zlib";
import { create, toBinary, toJsonString } from "@bufbuild/protobuf";
import { expect } from "chai";
import { InterceptRequestSchema } from "../../gen/agentcontrol/v1/enforcement_service_pb.js";
import {
  connectBodyOutcome,
  deferred,
  GOOD,
  type Harness,
  KEY,
  rawPost,
  startHarness,
  until,
  WIRES,
} from "./harness.ts";

const INTERCEPT = "/agentcontrol.v1.EnforcementService/Intercept";
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

  const packed = create(InterceptRequestSchema, { ...GOOD, actionContent: "x".repeat(SIZE) });
  for (const [type, bytes] of [
    ["application/proto", toBinary(InterceptRequestSchema, packed)],
    ["application/json", Buffer.from(toJsonString(InterceptRequestSchema, packed))],
  ] as const) {
    it(`hold a packed request in ${type} as it is unpacked.`, async () => {
      gate = deferred();
      const headers = { ...KEY, "content-type": type, "content-encoding": "gzip", "connect-protocol-version": "1" };
      const body = gzipSync(bytes);
      expect(body.length).to.be.below(SIZE / 100);
      const seen = harness.seen.length;
      let refused = 0;
      const asked = Array.from({ length: FITTING + 12 }, async () => {
        const answer = await rawPost(harness.httpPort, INTERCEPT, headers, body);
        if (answer.status !== 200 && connectBodyOutcome(answer).reason === "OVERLOADED") refused += 1;
      });
      await until(() => refused + harness.seen.length - seen === asked.length);
      expect(refused).to.equal(12);
      gate.resolve();
      await Promise.all(asked);
      harness.seen.length = 0;
    });
  }
});
