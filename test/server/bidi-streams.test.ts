import { once } from "node:events";
import { connect as http2Connect } from "node:http2";
import { type AddressInfo, connect, createServer } from "node:net";
import { create, type Message } from "@bufbuild/protobuf";
import { Code } from "@connectrpc/connect";
import { Client, type ClientDuplexStream, credentials, type ServiceError } from "@grpc/grpc-js";
import { expect } from "chai";
import {
  EnforcementService,
  type InterceptStreamRequest,
  type InterceptStreamResponse,
} from "../../gen/agentcontrol/v1/enforcement_service_pb.js";
import type { CallContext } from "../../src/api/context.ts";
import { codeFromReason, ErrorReason } from "../../src/errors.ts";
import {
  ADMIN_KEY,
  deferred,
  grpcDecode,
  grpcEncode,
  grpcMetadata,
  grpcOutcome,
  grpcPath,
  type Harness,
  startHarness,
  until,
} from "./harness.ts";

const CONVERSE = EnforcementService.method.interceptStream;
const KEY = { "x-api-key": ADMIN_KEY };
const uuid = (n: number): string => `00000000-0000-4000-8000-${String(n).padStart(12, "0")}`;

function requestOf(n: number, agentId = "agt_1"): InterceptStreamRequest {
  return create(CONVERSE.input, { intercept: { actionType: "send", agentId, requestId: uuid(n) } });
}

type Conversation = ClientDuplexStream<Message, Message>;

function converse(harness: Harness, headers: Record<string, string> = KEY): Conversation {
  const encode = grpcEncode(CONVERSE);
  return harness.grpcClient.makeBidiStreamRequest(
    grpcPath(CONVERSE),
    encode,
    grpcDecode(CONVERSE),
    grpcMetadata(headers),
  );
}

const endOf = (call: Conversation): Promise<ServiceError | undefined> =>
  new Promise((resolve) => {
    call.once("error", (error) => resolve(error as ServiceError));
    call.once("end", () => resolve(undefined));
  });

async function* echo(requests: AsyncIterable<InterceptStreamRequest>) {
  for await (const { intercept } of requests) {
    yield { requestId: intercept?.requestId ?? "", result: { case: "response" as const, value: { trustScore: 50 } } };
  }
}

describe("bidirectional streams over gRPC", () => {
  let harness: Harness;
  let serve: (requests: AsyncIterable<InterceptStreamRequest>, context: CallContext) => AsyncIterable<object>;
  let context: CallContext;

  before(async () => {
    harness = await startHarness({
      enforcement: {
        interceptStream: (requests, given) => {
          context = given;
          return serve(requests, given) as ReturnType<typeof echo>;
        },
      },
      pipeline: {
        requestFaultReplies: new Map([
          [
            CONVERSE,
            (request, { reason, message }) => ({
              requestId: (request as InterceptStreamRequest).intercept?.requestId ?? "",
              result: { case: "error", value: { code: codeFromReason(reason), reason: ErrorReason[reason], message } },
            }),
          ],
        ]),
      },
    });
  });
  after(() => harness.stop());

  it("keep the order of requests and replies", async () => {
    serve = echo;
    const call = converse(harness);
    const ids: string[] = [];
    call.on("data", ({ requestId }: InterceptStreamResponse) => ids.push(requestId));
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

  it("send replies that come together in few pieces", async () => {
    const replies = 200;
    serve = async function* burst() {
      for (let n = 0; n < replies; n++) yield { requestId: uuid(n) };
    };
    let pieces = 0;
    const between = createServer((socket) => {
      const upstream = connect(harness.grpcPort, "127.0.0.1");
      socket
        .pipe(upstream)
        .on("data", () => (pieces += 1))
        .pipe(socket);
      for (const end of [socket, upstream]) end.on("error", () => undefined);
    });
    await once(between.listen(0, "127.0.0.1"), "listening");
    const { port } = between.address() as AddressInfo;
    const client = new Client(`127.0.0.1:${port}`, credentials.createInsecure());
    const call = client.makeBidiStreamRequest(
      grpcPath(CONVERSE),
      grpcEncode(CONVERSE),
      grpcDecode(CONVERSE),
      grpcMetadata(KEY),
    );
    const ids: string[] = [];
    call.on("data", (reply: Message) => ids.push((reply as InterceptStreamResponse).requestId));
    call.end();
    expect(await endOf(call)).to.equal(undefined);
    client.close();
    between.close();
    expect(ids).to.deep.equal(Array.from({ length: replies }, (_, n) => uuid(n)));
    // A sixteenth when each waits for the one before it.
    expect(pieces).to.be.below(replies / 20);
  });

  it("hold the caller back while the service does not read", async () => {
    const go = deferred();
    const taken: string[] = [];
    serve = async function* slow(requests) {
      await go.promise;
      for await (const { intercept } of requests) taken.push(intercept?.requestId ?? "");
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

  it("answer one refused request with an error and go on", async () => {
    serve = echo;
    const call = converse(harness);
    const replies: InterceptStreamResponse[] = [];
    call.on("data", (reply: InterceptStreamResponse) => replies.push(reply));
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

  it("answer a flood of refused requests without a service that replies", async () => {
    serve = async function* silent(requests) {
      for await (const _ of requests) yield { requestId: "never" };
    };
    const call = converse(harness);
    let refused = 0;
    call.on("data", ({ result }: InterceptStreamResponse) => {
      if (result.case === "error") refused += 1;
    });
    for (let n = 0; n < 300; n++) call.write(requestOf(n, ""));
    call.end();
    expect(await endOf(call)).to.equal(undefined);
    expect(refused).to.equal(300);
  });

  it("fire the signal and end the requests when the caller cancels", async () => {
    const ended = deferred<string>();
    serve = async function* waiting(requests) {
      try {
        for await (const { intercept } of requests) yield { requestId: intercept?.requestId ?? "" };
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
    call.on("data", ({ requestId }: InterceptStreamResponse) => ids.push(requestId));
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
    const outcome = grpcOutcome((await endOf(call as unknown as Conversation)) as ServiceError);
    expect([outcome.code, outcome.reason]).to.deep.equal(["INVALID_ARGUMENT", "INVALID_FIELD"]);
  });
});

describe("a bidirectional stream whose method names no reply for refused requests", () => {
  it("ends with the refusal", async () => {
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
