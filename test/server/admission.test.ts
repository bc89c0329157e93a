import { expect } from "chai";
import type { CallContext } from "../../src/api/context.ts";
import {
  ADMIN_KEY,
  AUDITOR_KEY,
  callerFor,
  deferred,
  GOOD,
  type Harness,
  type Outcome,
  startHarness,
  type TestWire,
  until,
  WIRES,
} from "./harness.ts";

/** A header that says "no time left" in the words of each wire. */
const EXPIRED: Readonly<Record<TestWire, Record<string, string>>> = {
  rest: { "x-request-timeout-ms": "0" },
  connect: { "connect-timeout-ms": "0" },
  "connect-json": { "connect-timeout-ms": "0" },
  "grpc-web": { "grpc-timeout": "0m" },
  grpc: { "grpc-timeout": "0m" },
};

const SHORT: Readonly<Record<TestWire, Record<string, string>>> = {
  rest: { "x-request-timeout-ms": "1000" },
  connect: { "connect-timeout-ms": "1000" },
  "connect-json": { "connect-timeout-ms": "1000" },
  "grpc-web": { "grpc-timeout": "1S" },
  grpc: { "grpc-timeout": "1S" },
};

describe("admission, the same over every wire", () => {
  let harness: Harness;
  let waiting: PromiseWithResolvers<void> | undefined;
  let fault: (() => never) | undefined;

  before(async () => {
    harness = await startHarness({
      enforcement: {
        async intercept({ agentId }) {
          fault?.();
          await waiting?.promise;
          return { decisionId: `dec_${agentId}`, trustScore: 50 };
        },
      },
    });
  });
  beforeEach(() => {
    waiting = undefined;
    fault = undefined;
    harness.seen.length = 0;
    harness.logged.length = 0;
  });
  after(() => harness.stop());

  const lastContext = (): CallContext => harness.seen.at(-1)?.context as CallContext;
  const expectRefusal = (outcome: Outcome, code: string, reason: string): void => {
    expect({ code: outcome.code, reason: outcome.reason, domain: outcome.domain }).to.deep.equal({
      code,
      reason,
      domain: "agentcontrol.v1",
    });
    expect(outcome.message).to.match(/^[^A-Z\n][^\n]*[^.\n]$/);
  };

  for (const wire of WIRES) {
    describe(`over ${wire}`, () => {
      it("gives the service function the caller, the time of receipt and a signal", async () => {
        const outcome = await harness.intercept(wire, GOOD);
        expect(outcome.code, outcome.message).to.equal("OK");
        const { caller, receivedAt, signal, requestId } = lastContext();
        expect(caller).to.deep.equal(callerFor(ADMIN_KEY));
        expect(receivedAt).to.be.within(0, performance.now());
        expect(signal.aborted).to.equal(false);
        expect(outcome.requestId).to.equal(requestId);
      });

      it("refuses a call without a key", async () => {
        expectRefusal(await harness.intercept(wire, GOOD, { key: null }), "UNAUTHENTICATED", "KEY_MISSING");
        expect(harness.seen).to.have.length(0);
      });

      it("refuses a key that stands for nobody", async () => {
        expectRefusal(await harness.intercept(wire, GOOD, { key: "wrong" }), "UNAUTHENTICATED", "KEY_INVALID");
        expect(harness.seen).to.have.length(0);
      });

      it("takes the key as a bearer token too", async () => {
        const headers = { authorization: `Bearer ${ADMIN_KEY}` };
        expect((await harness.intercept(wire, GOOD, { key: null, headers })).code).to.equal("OK");
      });

      it("refuses a role that the method does not list", async () => {
        const outcome = await harness.intercept(wire, GOOD, { key: AUDITOR_KEY });
        expectRefusal(outcome, "PERMISSION_DENIED", "ROLE_NOT_ALLOWED");
        expect(outcome.metadata).to.include({ role: "auditor", method: "Intercept" });
        expect(harness.seen).to.have.length(0);
      });

      it("reports every violation with its field in snake_case", async () => {
        const outcome = await harness.intercept(wire, { actionType: "", agentId: "a".repeat(65), requestId: "no" });
        expectRefusal(outcome, "INVALID_ARGUMENT", "INVALID_FIELD");
        const fields = outcome.violations.map(({ field, reason }) => `${field} ${reason}`);
        const expected = ["action_type STRING_MIN_LEN", "agent_id STRING_MAX_LEN"];
        expect(fields).to.deep.equal(wire === "rest" ? expected : [...expected, "request_id STRING_UUID"]);
        expect(harness.seen).to.have.length(0);
      });

      it("never begins a call whose deadline has passed", async () => {
        const outcome = await harness.intercept(wire, GOOD, { headers: EXPIRED[wire] });
        expectRefusal(outcome, "DEADLINE_EXCEEDED", "DEADLINE_EXCEEDED");
        expect(harness.seen).to.have.length(0);
      });

      it("ends a call when its deadline passes while it waits, and fires its signal", async () => {
        waiting = deferred();
        const outcome = harness.intercept(wire, GOOD, { headers: SHORT[wire] });
        await until(() => harness.seen.length === 1);
        const { signal } = lastContext();
        expectRefusal(await outcome, "DEADLINE_EXCEEDED", "DEADLINE_EXCEEDED");
        await until(() => signal.aborted);
        waiting.resolve();
      });

      it("hides the text of an unknown fault and logs it under the request id without the key", async () => {
        fault = () => {
          throw new Error(`connect failed for key ${ADMIN_KEY} at db-7`);
        };
        const outcome = await harness.intercept(wire, GOOD, { headers: { "x-request-id": "req-42" } });
        expectRefusal(outcome, "INTERNAL", "INTERNAL");
        expect(JSON.stringify(outcome)).not.to.contain("db-7");
        expect(outcome.metadata).to.deep.equal({ request_id: "req-42" });
        const line = harness.logged.find((each) => each.includes("req-42")) ?? "";
        expect(line).to.contain("db-7").and.not.to.contain(ADMIN_KEY);
      });

      it("returns a sane request id and replaces any other", async () => {
        const given = await harness.intercept(wire, GOOD, { headers: { "x-request-id": "trace:01/ab" } });
        expect(given.requestId).to.equal("trace:01/ab");
        const replaced = await harness.intercept(wire, GOOD, { headers: { "x-request-id": "<b>" } });
        expect(replaced.requestId).to.match(/^[\w-]+$/);
        const failed = await harness.intercept(wire, GOOD, { key: null, headers: { "x-request-id": "r1" } });
        expect(failed.requestId).to.equal("r1");
      });
    });
  }

  it("serves a call whose deadline is further off than any timer", async () => {
    const outcome = await harness.intercept("grpc-web", GOOD, { headers: { "grpc-timeout": "99999999H" } });
    expect(outcome.code, outcome.message).to.equal("OK");
  });

  const BAD_TIMEOUTS: readonly (readonly [TestWire, Record<string, string>])[] = [
    ["rest", { "x-request-timeout-ms": "soon" }],
    ["rest", { "x-request-timeout-ms": "-1" }],
    ["connect", { "connect-timeout-ms": "12345678901" }],
    ["grpc-web", { "grpc-timeout": "5" }],
  ];
  for (const [wire, headers] of BAD_TIMEOUTS) {
    it(`refuses the time-out ${JSON.stringify(headers)} over ${wire}`, async () => {
      const outcome = await harness.intercept(wire, GOOD, { headers });
      expectRefusal(outcome, "INVALID_ARGUMENT", "INVALID_FIELD");
      expect(outcome.violations.map(({ field }) => field)).to.deep.equal(Object.keys(headers));
      expect(harness.seen).to.have.length(0);
    });
  }
});

describe("admission with a key look-up that takes time", () => {
  it("waits for it, and ends at the deadline without it", async () => {
    const found = deferred<ReturnType<typeof callerFor>>();
    const harness = await startHarness({ pipeline: { authenticate: () => found.promise } });
    try {
      const late = await harness.intercept("grpc", GOOD, { headers: { "grpc-timeout": "30m" } });
      expect(late.reason).to.equal("DEADLINE_EXCEEDED");
      const waits = harness.intercept("rest", GOOD);
      found.resolve(callerFor(ADMIN_KEY));
      expect((await waits).code).to.equal("OK");
      expect(harness.seen).to.have.length(1);
    } finally {
      await harness.stop();
    }
  });

  it("reports a look-up that fails as a fault", async () => {
    const authenticate = async (): Promise<never> => {
      throw new Error("no such table");
    };
    const harness = await startHarness({ pipeline: { authenticate } });
    try {
      expect((await harness.intercept("rest", GOOD)).reason).to.equal("INTERNAL");
      expect(harness.logged.join()).to.contain("no such table");
    } finally {
      await harness.stop();
    }
  });
});

describe("the default deadline", () => {
  it("ends a unary call of a caller that set none", async () => {
    const harness = await startHarness({
      enforcement: { intercept: () => new Promise(() => {}) },
      pipeline: { defaultDeadlineMs: 30 },
    });
    try {
      expect((await harness.intercept("grpc", GOOD)).reason).to.equal("DEADLINE_EXCEEDED");
    } finally {
      await harness.stop();
    }
  });
});
