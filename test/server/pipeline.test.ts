import { create, type DescMethod, type DescService, type Message } from "@bufbuild/protobuf";
import { expect } from "chai";
import pino from "pino";
import { Registry } from "prom-client";
import { EnforcementService } from "../../gen/agentcontrol/v1/enforcement_service_pb.js";
import type { ServiceDefinition } from "../../src/api/service.ts";
import { ControlPlaneError, ErrorReason } from "../../src/errors.ts";
import { type IncomingCall, onAbort } from "../../src/server/incoming-call.ts";
import { Pipeline } from "../../src/server/pipeline.ts";
import {
  ADMIN_KEY,
  AUDITOR_KEY,
  callerFor,
  deferred,
  enforcementWith,
  GOOD,
  type Harness,
  startHarness,
  until,
} from "./harness.ts";

const INTERCEPT = EnforcementService.method.intercept;
/** Encodes a response as itself. */
const asItIs = (value: Message) => ({ value, bytes: 0 });

function pipelineOf(...services: ServiceDefinition[]) {
  return new Pipeline({ services, authenticate: callerFor, log: pino({ level: "silent" }), metrics: new Registry() });
}

const incoming = (signal = new AbortController().signal): IncomingCall => ({
  wire: "rest",
  receivedAt: performance.now(),
  requestId: "req-1",
  header: (name) => (name === "x-api-key" ? ADMIN_KEY : undefined),
  timeoutMs: () => undefined,
  onLeave: (listener) => onAbort(signal, listener),
});

/** The service with its methods changed. */
function withMethods(service: DescService, change: (method: DescMethod) => Partial<DescMethod>): DescService {
  const methods = service.methods.map((method) => ({
    ...method,
    ...change(method),
    toString: () => `rpc ${method.name}`,
  }));
  return { ...service, methods } as DescService;
}

describe("Pipeline", () => {
  it("refuses a method that allows no role", () => {
    const { functions } = enforcementWith({});
    const open = withMethods(EnforcementService, ({ proto }) => ({
      proto: { ...proto, options: undefined } as typeof proto,
    }));
    expect(() => pipelineOf({ service: open, functions })).to.throw(/allows no role/);
  });

  it("refuses the same requests as another pipeline of the process", async () => {
    const options = { authenticate: callerFor, log: pino({ level: "silent" }) };
    for (let count = 1; count <= 2; count++) {
      const pipeline = new Pipeline({ ...options, services: [enforcementWith({})], metrics: new Registry() });
      const call = await pipeline.admit(INTERCEPT, incoming());
      const error = await pipeline
        .unary(call, () => create(INTERCEPT.input), asItIs)
        .catch((thrown: unknown) => thrown);
      expect(error).to.have.property("reason", ErrorReason.INVALID_FIELD);
    }
  });

  it("refuses a method without a function", () => {
    const { getDecision: _, ...functions } = enforcementWith({}).functions;
    const incomplete = { service: EnforcementService, functions };
    expect(() => pipelineOf(incomplete)).to.throw(
      "agentcontrol.v1.EnforcementService/GetDecision has no service function",
    );
  });

  it("refuses a service that is given twice", () => {
    expect(() => pipelineOf(enforcementWith({}), enforcementWith({}))).to.throw("is given twice");
  });

  it("refuses a method that streams requests only", () => {
    const { functions } = enforcementWith({});
    const streaming = withMethods(
      EnforcementService,
      () => ({ methodKind: "client_streaming" }) as Partial<DescMethod>,
    );
    expect(() => pipelineOf({ service: streaming, functions })).to.throw("streams only requests");
  });
});

describe("a pipeline without a transport", () => {
  const intercept = async (pipeline: Pipeline, signal?: AbortSignal): Promise<unknown> => {
    const call = await pipeline.admit(INTERCEPT, incoming(signal));
    return pipeline.unary(call, () => create(INTERCEPT.input, GOOD) as Message, asItIs);
  };

  it("ends a call whose function watches its signal when the caller goes away", async () => {
    const leaving = new AbortController();
    const pipeline = pipelineOf(
      enforcementWith({
        intercept: (_, { signal }) => {
          const stopped = new Promise<never>((_resolve, reject) =>
            signal.addEventListener("abort", () => reject(signal.reason)),
          );
          leaving.abort();
          return stopped;
        },
      }),
    );
    const outcome = intercept(pipeline, leaving.signal).catch((error: unknown) => error);
    expect(await outcome).to.include({ reason: ErrorReason.CANCELLED });
  });

  it("gives an abort of the function the reason why its signal fired", async () => {
    const leaving = new AbortController();
    const pipeline = pipelineOf(
      enforcementWith({
        intercept: (_, { signal }) => {
          leaving.abort();
          return fetch("http://127.0.0.1:1", { signal }).then(() => ({}));
        },
      }),
    );
    const error = await intercept(pipeline, leaving.signal).catch((thrown: unknown) => thrown);
    expect(error).to.include({ reason: ErrorReason.CANCELLED });
  });

  it("takes a stream whose writer cannot write for one whose caller went away", async () => {
    const { watchDecisions } = EnforcementService.method;
    const metrics = new Registry();
    const pipeline = new Pipeline({
      services: [
        enforcementWith({
          async *watchDecisions() {
            yield {};
            yield {};
          },
        }),
      ],
      authenticate: callerFor,
      log: pino({ level: "silent" }),
      metrics,
    });
    const call = await pipeline.admit(watchDecisions, incoming());
    const replies = await pipeline.serverStream(call, () => create(watchDecisions.input));
    await replies.next();
    const error = await replies.throw(new Error("write ECONNRESET")).catch((thrown: unknown) => thrown);
    expect(error).to.have.property("reason", ErrorReason.CANCELLED);
    expect(await metrics.metrics())
      .to.match(/code="cancelled"/i)
      .and.not.match(/code="internal"/i);
  });

  it("passes an error of the domain on as it is", async () => {
    const thrown = new ControlPlaneError(ErrorReason.AGENT_NOT_FOUND, "no agent `agt_1`", { agent_id: "agt_1" });
    const pipeline = pipelineOf(enforcementWith({ intercept: () => Promise.reject(thrown) }));
    expect(await intercept(pipeline).catch((error: unknown) => error)).to.equal(thrown);
  });

  it("treats a function that throws at once as one that rejects", async () => {
    const failing = (): never => {
      throw new TypeError("x is not a function");
    };
    const error = await intercept(pipelineOf(enforcementWith({ intercept: failing }))).catch(
      (thrown: unknown) => thrown,
    );
    expect(error).to.include({ reason: ErrorReason.INTERNAL });
  });
});

describe("draining", () => {
  it("lets unary calls finish and refuses new ones", async () => {
    const finish = deferred();
    const harness = await startHarness({ enforcement: { intercept: () => finish.promise.then(() => ({})) } });
    try {
      const finishing = harness.intercept("grpc", GOOD);
      await until(() => harness.seen.length === 1);
      const drained = harness.pipeline.drain(60_000);
      for (const wire of ["rest", "connect", "grpc"] as const) {
        const refused = await harness.intercept(wire, GOOD);
        expect([refused.code, refused.reason]).to.deep.equal(["UNAVAILABLE", "SHUTTING_DOWN"]);
      }
      finish.resolve();
      expect((await finishing).code).to.equal("OK");
      await drained;
      expect(harness.seen).to.have.length(1);
    } finally {
      await harness.stop();
    }
  });

  it("ends calls that outlast the grace", async () => {
    const harness = await startHarness({ enforcement: { intercept: () => new Promise(() => {}) } });
    try {
      const lasting = harness.intercept("rest", GOOD);
      await until(() => harness.seen.length === 1);
      await harness.pipeline.drain(1);
      expect((await lasting).reason).to.equal("SHUTTING_DOWN");
    } finally {
      await harness.stop();
    }
  });

  it("is done at once when nothing runs", async () => {
    const harness = await startHarness();
    await harness.pipeline.drain(60_000);
    await harness.stop();
  });
});

describe("the metrics of calls", () => {
  let harness: Harness;

  before(async () => {
    harness = await startHarness();
  });
  after(() => harness.stop());

  it("count by method, code and wire, and observe seconds", async () => {
    for (const wire of ["rest", "connect", "connect-json", "grpc-web", "grpc"] as const) {
      await harness.intercept(wire, GOOD);
      await harness.intercept(wire, GOOD, { key: AUDITOR_KEY });
    }
    const text = await (await fetch(harness.url("/metrics"))).text();
    const method = 'method="agentcontrol.v1.EnforcementService/Intercept"';
    const expected = { rest: 1, connect: 2, "grpc-web": 1, grpc: 1 };
    for (const [wire, calls] of Object.entries(expected)) {
      expect(text).to.contain(`acp_calls_total{${method},code="OK",wire="${wire}"} ${calls}\n`);
      expect(text).to.contain(`acp_calls_total{${method},code="PERMISSION_DENIED",wire="${wire}"} ${calls}\n`);
      expect(text).to.contain(`acp_call_seconds_count{${method},wire="${wire}"} ${2 * calls}\n`);
    }
    expect(text).to.contain('acp_calls_in_flight{kind="unary"} 0\n');
  });
});
