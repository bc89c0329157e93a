import { request as httpRequest } from "node:http";
import { gzipSync } from "node:zlib";
import { create, toBinary, toJsonString } from "@bufbuild/protobuf";
import { expect } from "chai";
import { Role } from "../../gen/agentcontrol/v1/access_pb.js";
import { InterceptRequestSchema } from "../../gen/agentcontrol/v1/enforcement_service_pb.js";
import type { Caller } from "../../src/api/context.ts";
import {
  ADMIN_KEY,
  callerFor,
  connectBodyOutcome,
  deferred,
  GOOD,
  type Harness,
  KEY,
  type Outcome,
  rawPost,
  startHarness,
  type TestWire,
  until,
  WIRES,
} from "./harness.ts";

const INTERCEPT = "/agentcontrol.v1.EnforcementService/Intercept";
const SIZE = 60_000;
const FITTING = 5;
/** One workspace alone holds half. */
const MAX_HELD_BYTES = 2 * FITTING * (SIZE + 1_000);

/** Keys of other workspaces and agents, by their text. */
const CALLERS: Readonly<Record<string, { readonly workspaceId: string; readonly agentId: string | null }>> = {
  other: { workspaceId: "other", agentId: null },
  third: { workspaceId: "third", agentId: null },
  agent: { workspaceId: "default", agentId: "agt_1" },
};

function authenticate(key: string): Caller | undefined {
  const known = CALLERS[key];
  return known === undefined ? callerFor(key) : { keyId: `key_${key}`, role: Role.ADMIN, ...known };
}

describe("the requests in flight", () => {
  let harness: Harness;
  let gate = deferred();

  before(async () => {
    harness = await startHarness({
      pipeline: { maxHeldBytes: MAX_HELD_BYTES, authenticate },
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

  /** Sends requests of a key until one is refused. Returns how many are held, and the refusal. */
  async function fillOver(wire: TestWire, key: string) {
    const request = { ...GOOD, actionContent: "x".repeat(SIZE) };
    for (let held = 0; ; held++) {
      const seen = harness.seen.length;
      let refusal: Outcome | undefined;
      void harness.intercept(wire, request, { key }).then((outcome) => {
        refusal = outcome;
      });
      await until(() => refusal !== undefined || harness.seen.length > seen);
      if (refusal !== undefined) return { held, refusal };
    }
  }

  for (const wire of WIRES) {
    it(`are shared over ${wire}: a second workspace holds its own while one is full, and so does a third.`, async () => {
      gate = deferred();
      const { held, refusal } = await fillOver(wire, ADMIN_KEY);
      expect(held).to.be.within(FITTING - 1, FITTING);
      expect(refusal).to.include({ code: "RESOURCE_EXHAUSTED", reason: "OVERLOADED" });
      expect(refusal.metadata).to.include({
        pot: "request_bytes",
        party: "workspace",
        most: String(MAX_HELD_BYTES / 2),
        retry_after_seconds: "1",
      });
      expect((await fillOver(wire, "other")).held).to.equal(2);
      expect((await fillOver(wire, "third")).held).to.equal(1);
      gate.resolve();
      harness.seen.length = 0;
    });
  }

  it("are a fifth of all for one agent alone; its workspace goes on.", async () => {
    gate = deferred();
    const { held, refusal } = await fillOver("connect", "agent");
    expect(held).to.equal(2);
    expect(refusal.metadata).to.include({ pot: "request_bytes", party: "agent", most: String(MAX_HELD_BYTES / 5) });
    expect(refusal.message).to.match(
      /^the agent holds \d+ bytes of requests in this process, and its share is 122000 at the moment; send less at once, or retry in 1 s$/,
    );
    expect((await fillOver("connect", ADMIN_KEY)).held).to.be.at.least(2);
    gate.resolve();
    harness.seen.length = 0;
  });

  it("hold nothing of a request that broke off in the middle of its body.", async () => {
    gate = deferred();
    const headers = { ...KEY, "content-type": "application/json", "content-length": `${SIZE * 3}` };
    for (let round = 0; round < 4; round++) {
      const broken = httpRequest(harness.url("/v1/enforce/intercept"), { method: "POST", headers });
      broken.on("error", () => undefined);
      await new Promise((resolve) => broken.write("x".repeat(SIZE * 2), resolve));
      broken.destroy();
    }
    let held = 0;
    // The service learns of the broken connections a moment later.
    while (held < FITTING) {
      held = (await fillOver("connect-json", ADMIN_KEY)).held;
      gate.resolve();
      gate = deferred();
      harness.seen.length = 0;
    }
    expect(held).to.equal(FITTING);
  });

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
