import { connect as http2Connect } from "node:http2";
import { create, type Message } from "@bufbuild/protobuf";
import { Code } from "@connectrpc/connect";
import type { ServiceError } from "@grpc/grpc-js";
import { expect } from "chai";
import {
  EnforcementService,
  type InterceptStreamRequest,
  type InterceptStreamResponse,
} from "../../gen/agentcontrol/v1/enforcement_service_pb.js";
import type { CallContext } from "../../src/api/context.ts";
import { interceptAll } from "../../src/api/intercept-stream.ts";
import type { CheckedRequest } from "../../src/api/service.ts";
import {
  deferred,
  echo,
  endOf,
  grpcConverse,
  grpcMetadata,
  grpcOutcome,
  grpcPath,
  type Harness,
  KEY,
  startHarness,
  streamOf,
  until,
} from "./harness.ts";

const CONVERSE = EnforcementService.method.interceptStream;
type Requests = AsyncIterable<CheckedRequest<InterceptStreamRequest>>;
const uuid = (n: number): string => `00000000-0000-4000-8000-${String(n).padStart(12, "0")}`;

function requestOf(n: number, agentId = "agt_1"): InterceptStreamRequest {
  return create(CONVERSE.input, { intercept: { actionType: "send", agentId, requestId: uuid(n) } });
}

const converse = (harness: Harness, headers: Record<string, string> = KEY) =>
  grpcConverse(harness.grpcClient, CONVERSE, headers);

describe("bidirectional streams over gRPC", () => {
  let harness: Harness;
  let serve: (requests: Requests, context: CallContext) => AsyncIterable<object>;
  let context: CallContext;

  before(async () => {
    harness = await startHarness({
      enforcement: {
        interceptStream: (requests, given) => {
          context = given;
          return serve(requests, given) as ReturnType<typeof echo>;
        },
      },
    });
  });
  after(() => harness.stop());

  it("keep the order of requests and replies", async () => {
    serve = echo;
    const call = converse(harness);
    const ids: string[] = [];
    call.on("data", (reply: Message) => ids.push((reply as InterceptStreamResponse).requestId));
    for (let n = 0; n < 500; n++) call.write(requestOf(n));
    call.end();
    expect(await endOf(call)).to.equal(undefined);
    expect(ids).to.deep.equal(Array.from({ length: 500 }, (_, n) => uuid(n)));
  });

  it("hold the service back while the caller does not read", async () => {
    let yielded = 0;
    const note = "x".repeat(16_384);
    serve = async function* flood() {
      for (; yielded < 1_000; yielded++) yield { requestId: note };
    };
    // grpc-js would read on for a caller that does not; plain HTTP/2 does what it is told.
    const session = http2Connect(`http://127.0.0.1:${harness.grpcPort}`);
    const pseudo = {
      ":method": "POST",
      ":path": grpcPath(CONVERSE),
      "content-type": "application/grpc",
      te: "trailers",
    };
    const call = session.request({ ...pseudo, ...KEY }).pause();
    for (let before = -1; before !== yielded || yielded === 0; ) {
      before = yielded;
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
    expect(yielded).to.be.within(1, 100);
    let bytes = 0;
    call.on("data", (chunk: Buffer) => {
      bytes += chunk.length;
    });
    call.resume();
    await new Promise((resolve) => call.once("trailers", resolve));
    expect(bytes).to.be.above(1_000 * note.length);
    session.destroy();
  });

  it("hold the caller back while the service does not read", async () => {
    const go = deferred();
    const taken: string[] = [];
    serve = async function* slow(requests) {
      await go.promise;
      for await (const { request } of requests) taken.push(request.intercept?.requestId ?? "");
      yield { requestId: "done" };
    };
    const call = converse(harness);
    call.resume();
    for (let n = 0; n < 2_000; n++) call.write(requestOf(n));
    call.end();
    go.resolve();
    expect(await endOf(call)).to.equal(undefined);
    expect(taken).to.deep.equal(Array.from({ length: 2_000 }, (_, n) => uuid(n)));
  });

  it("answer one refused request of InterceptStream with an error and go on", async () => {
    serve = (requests) =>
      interceptAll(
        requests,
        streamOf(async () => ({ trustScore: 50 })),
      );
    const call = converse(harness);
    const replies: InterceptStreamResponse[] = [];
    call.on("data", (reply: Message) => replies.push(reply as InterceptStreamResponse));
    call.write(requestOf(1));
    call.write(requestOf(2, ""));
    call.write(requestOf(3));
    call.end();
    expect(await endOf(call)).to.equal(undefined);
    const byId = new Map(replies.map(({ requestId, result }) => [requestId, result]));
    expect([...byId.keys()].sort()).to.deep.equal([uuid(1), uuid(2), uuid(3)]);
    expect(byId.get(uuid(2))).to.deep.include({ case: "error" });
    expect(byId.get(uuid(2))?.value).to.include({ code: Code.InvalidArgument, reason: "INVALID_FIELD" });
    expect(byId.get(uuid(3))?.case).to.equal("response");
  });

  it("answer a flood of refused requests of InterceptStream beside an action that is never decided", async () => {
    serve = (requests) =>
      interceptAll(
        requests,
        streamOf(() => new Promise(() => {})),
      );
    const call = converse(harness);
    let refused = 0;
    const all = new Promise<void>((resolve) => {
      call.on("data", (reply: Message) => {
        if ((reply as InterceptStreamResponse).result.case === "error") refused += 1;
        if (refused === 3_000) resolve();
      });
    });
    const over = endOf(call);
    call.write(requestOf(0));
    for (let n = 0; n < 3_000; n++) call.write(requestOf(n, ""));
    await all;
    call.cancel();
    expect((await over)?.code).to.equal(1);
  });

  it("take no more requests of InterceptStream than may be in flight", async () => {
    let begun = 0;
    const go = deferred();
    serve = (requests) =>
      interceptAll(
        requests,
        streamOf(async () => {
          begun += 1;
          await go.promise;
          return { trustScore: 50 };
        }),
      );
    const call = converse(harness);
    let replies = 0;
    call.on("data", () => (replies += 1));
    const over = endOf(call);
    for (let n = 0; n < 3_000; n++) call.write(requestOf(n));
    call.end();
    for (let before = -1; before !== begun || begun === 0; ) {
      before = begun;
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
    expect(begun).to.be.within(1, 1_100);
    go.resolve();
    expect(await over).to.equal(undefined);
    expect([begun, replies]).to.deep.equal([3_000, 3_000]);
  });

  it("fire the signal and end the requests when the caller cancels", async () => {
    const ended = deferred<string>();
    serve = async function* waiting(requests) {
      try {
        for await (const { request } of requests) yield { requestId: request.intercept?.requestId ?? "" };
      } finally {
        ended.resolve("ended");
      }
    };
    const call = converse(harness);
    const first = new Promise((resolve) => call.once("data", resolve));
    call.write(requestOf(1));
    await first;
    const over = endOf(call);
    call.cancel();
    expect((await over)?.code).to.equal(1);
    expect(await ended.promise).to.equal("ended");
    await until(() => context.signal.aborted);
  });

  it("fail with our details when the service function fails, after what it sent before", async () => {
    serve = async function* failing() {
      yield { requestId: "one" };
      throw new Error("wire cut at db-7");
    };
    const call = converse(harness);
    const ids: string[] = [];
    call.on("data", (reply: Message) => ids.push((reply as InterceptStreamResponse).requestId));
    const outcome = grpcOutcome((await endOf(call)) as ServiceError);
    expect(ids).to.deep.equal(["one"]);
    expect([outcome.code, outcome.reason]).to.deep.equal(["INTERNAL", "INTERNAL"]);
    expect(outcome.message).not.to.contain("db-7");
    expect(harness.logged.join()).to.contain("db-7");
  });

  it("refuse a caller without a key before the service function runs", async () => {
    let began = false;
    serve = (requests) => {
      began = true;
      return echo(requests);
    };
    const call = converse(harness, {});
    call.resume();
    expect(grpcOutcome((await endOf(call)) as ServiceError).reason).to.equal("KEY_MISSING");
    expect(began).to.equal(false);
  });

  it("end with the request that cannot be decoded", async () => {
    serve = echo;
    const raw = (bytes: Buffer) => bytes;
    const call = harness.grpcClient.makeBidiStreamRequest(grpcPath(CONVERSE), raw, raw, grpcMetadata(KEY));
    call.resume();
    call.write(Buffer.from([0x0a, 0xff]));
    const outcome = grpcOutcome((await endOf(call as never)) as ServiceError);
    expect([outcome.code, outcome.reason]).to.deep.equal(["INVALID_ARGUMENT", "INVALID_FIELD"]);
  });
});

describe("a bidirectional stream whose service function throws the fault of a request", () => {
  it("ends with it", async () => {
    const harness = await startHarness({ enforcement: { interceptStream: echo } });
    try {
      const call = converse(harness);
      call.resume();
      call.write(requestOf(1, ""));
      const outcome = grpcOutcome((await endOf(call)) as ServiceError);
      expect(outcome.reason).to.equal("INVALID_FIELD");
      expect(outcome.violations.map(({ field }) => field)).to.deep.equal(["intercept.agent_id"]);
    } finally {
      await harness.stop();
    }
  });
});
