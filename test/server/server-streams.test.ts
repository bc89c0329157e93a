import { once } from "node:events";
import { ConnectError, createClient } from "@connectrpc/connect";
import type { ServiceError } from "@grpc/grpc-js";
import { expect } from "chai";
import {
  EscalationChange,
  EscalationService,
  type WatchEscalationsResponse,
} from "../../gen/agentcontrol/v1/escalation_service_pb.js";
import type { CallContext } from "../../src/api/context.ts";
import {
  connectOutcome,
  deferred,
  endOf,
  grpcOutcome,
  grpcWatch,
  type Harness,
  KEY,
  startHarness,
  until,
} from "./harness.ts";

const WATCH = EscalationService.method.watchEscalations;

const watch = (harness: Harness, headers: Record<string, string> = KEY) =>
  grpcWatch(harness.grpcClient, WATCH, headers);

describe("server streams", () => {
  let harness: Harness;
  let returned: PromiseWithResolvers<void>;
  let context: CallContext | undefined;

  /** Sends one change, then nothing until its caller leaves. */
  async function* waitingAfterOne(_request: unknown, given: CallContext) {
    context = given;
    try {
      yield { change: EscalationChange.CREATED, cursor: "1" };
      if (!given.signal.aborted) await once(given.signal, "abort");
    } finally {
      returned.resolve();
    }
  }

  beforeEach(async () => {
    returned = deferred();
    context = undefined;
    harness = await startHarness({ escalations: { watchEscalations: waitingAfterOne } });
  });
  afterEach(() => harness.stop());

  it("run the iterator's return() when a gRPC client leaves", async () => {
    const call = watch(harness);
    const over = endOf(call);
    const first = await new Promise<WatchEscalationsResponse>((resolve) => call.once("data", resolve));
    expect(first.cursor).to.equal("1");
    call.cancel();
    await over;
    await returned.promise;
    expect(context?.signal.aborted).to.equal(true);
  });

  for (const wire of ["connect", "grpc-web"] as const) {
    it(`run the iterator's return() when a ${wire} client leaves`, async () => {
      const leaving = new AbortController();
      const options = { headers: KEY, signal: leaving.signal };
      const client = createClient(EscalationService, harness.transport(wire));
      const replies = client.watchEscalations({}, options)[Symbol.asyncIterator]();
      expect((await replies.next()).value?.cursor).to.equal("1");
      leaving.abort();
      await replies.next().catch(() => undefined);
      await returned.promise;
      expect(context?.signal.aborted).to.equal(true);
    });
  }

  it("run the iterator's return() when a REST client leaves", async () => {
    const leaving = new AbortController();
    const headers = { ...KEY, accept: "text/event-stream" };
    const response = await fetch(harness.url("/v1/enforce/escalations:watch"), { headers, signal: leaving.signal });
    expect(response.status).to.equal(200);
    await until(() => context !== undefined);
    leaving.abort();
    await returned.promise;
    expect(context?.signal.aborted).to.equal(true);
  });

  it("keep the HTTP status of a refused call over REST", async () => {
    const response = await fetch(harness.url("/v1/enforce/escalations:watch"), {
      headers: { accept: "text/event-stream" },
    });
    expect(response.status).to.equal(401);
    expect(response.headers.get("www-authenticate")).to.equal("Bearer");
  });

  it("end with DEADLINE_EXCEEDED when the caller's deadline passes", async () => {
    const call = watch(harness, { ...KEY, "grpc-timeout": "1S" });
    call.resume();
    const outcome = grpcOutcome((await endOf(call)) as ServiceError);
    expect([outcome.code, outcome.reason]).to.deep.equal(["DEADLINE_EXCEEDED", "DEADLINE_EXCEEDED"]);
    await returned.promise;
    const client = createClient(EscalationService, harness.transport("connect"));
    const late = client.watchEscalations({}, { headers: { ...KEY, "connect-timeout-ms": "1000" } });
    const error = await drainedError(late);
    expect(connectOutcome(error).reason).to.equal("DEADLINE_EXCEEDED");
  });

  it("end with SHUTTING_DOWN on every wire when the service drains", async () => {
    const call = watch(harness);
    const over = endOf(call);
    await new Promise((resolve) => call.once("data", resolve));
    const replies = createClient(EscalationService, harness.transport("connect")).watchEscalations(
      {},
      { headers: KEY },
    );
    const connectOver = drainedError(replies);
    const rest = await fetch(harness.url("/v1/enforce/escalations:watch"), { headers: KEY });
    await harness.pipeline.drain(1_000);
    expect(grpcOutcome((await over) as ServiceError).reason).to.equal("SHUTTING_DOWN");
    expect(connectOutcome(await connectOver).reason).to.equal("SHUTTING_DOWN");
    expect(await rest.text()).to.contain("SHUTTING_DOWN");
    await returned.promise;
  });
});

async function drainedError(replies: AsyncIterable<unknown>): Promise<ConnectError> {
  try {
    for await (const _ of replies);
  } catch (error) {
    return ConnectError.from(error);
  }
  throw new Error("the stream ended without an error");
}
