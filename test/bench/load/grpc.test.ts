import { once } from "node:events";
import { createServer as createHttp2Server } from "node:http2";
import { type AddressInfo, createServer, connect as dial, type Server as NetServer, type Socket } from "node:net";
import { setTimeout as delay } from "node:timers/promises";
import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import { Server, ServerCredentials, type ServerDuplexStream, type sendUnaryData, status } from "@grpc/grpc-js";
import { expect } from "chai";
import {
  InterceptResponseSchema,
  InterceptStreamErrorSchema,
  InterceptStreamRequestSchema,
  InterceptStreamResponseSchema,
} from "../../../gen/agentcontrol/v1/enforcement_service_pb.js";
import { startStreams, startUnary } from "./grpc.ts";
import { callOnce } from "./grpc-calls.ts";
import type { Lanes } from "./lanes.ts";
import { STREAM_PATH, UNARY_PATH } from "./paths.ts";
import type { Target } from "./plan.ts";
import type { Recorder } from "./recorder.ts";

const REFUSED = Buffer.from("refuse this");
const REFUSAL = "no agent `x`: 100% gone, (ä)";
const asIs = (bytes: Buffer): Buffer => bytes;
const asSent = { requestSerialize: asIs, requestDeserialize: asIs, responseSerialize: asIs, responseDeserialize: asIs };
const DEFINITION = {
  unary: { path: UNARY_PATH, requestStream: false, responseStream: false, ...asSent },
  stream: { path: STREAM_PATH, requestStream: true, responseStream: true, ...asSent },
} as const;

/** A bare gRPC server that sends requests back, or decides nothing. */
interface BareServer {
  readonly target: Target;
  readonly server: Server;
  /** Calls and messages of streams that it answered. */
  answered: number;
  /** Whether messages of streams are answered with a fault. */
  isFaulty: boolean;
}

function answerOf(request: Buffer, isFaulty: boolean): Buffer {
  const requestId = fromBinary(InterceptStreamRequestSchema, request).intercept?.requestId ?? "";
  const message = create(InterceptStreamResponseSchema, { requestId });
  message.result = isFaulty
    ? { case: "error", value: create(InterceptStreamErrorSchema, { message: "out of order" }) }
    : { case: "response", value: create(InterceptResponseSchema) };
  return Buffer.from(toBinary(InterceptStreamResponseSchema, message));
}

async function startBareServer(): Promise<BareServer> {
  const server = new Server({ "grpc.max_receive_message_length": -1 });
  server.addService(DEFINITION, {
    unary({ request }: { request: Buffer }, reply: sendUnaryData<Buffer>) {
      if (request.equals(REFUSED)) return reply({ code: status.NOT_FOUND, details: REFUSAL });
      bare.answered += 1;
      reply(null, request);
    },
    stream(call: ServerDuplexStream<Buffer, Buffer>) {
      call.on("error", () => undefined);
      call.on("end", () => call.end());
      call.on("data", (request: Buffer) => {
        bare.answered += 1;
        call.write(answerOf(request, bare.isFaulty));
      });
    },
  });
  const port = await new Promise<number>((resolve, reject) => {
    const credentials = ServerCredentials.createInsecure();
    server.bindAsync("127.0.0.1:0", credentials, (error, bound) => (error === null ? resolve(bound) : reject(error)));
  });
  const target = { address: `127.0.0.1:${port}`, apiKey: "key", agentIds: ["agt_1", "agt_2"] };
  const bare: BareServer = { target, server, answered: 0, isFaulty: false };
  return bare;
}

interface CountingRecorder extends Recorder {
  calls: number;
}

function createCounter(): CountingRecorder {
  const unused = (): never => {
    throw new Error("not measured");
  };
  const counter: CountingRecorder = {
    calls: 0,
    record(startedAt) {
      expect(performance.now() - startedAt).to.be.within(0, 5_000);
      counter.calls += 1;
    },
    begin: unused,
    finish: unused,
  };
  return counter;
}

async function faultOf(promise: Promise<unknown>): Promise<string> {
  try {
    await promise;
  } catch (error) {
    return (error as Error).message;
  }
  throw new Error("nothing failed");
}

async function listen(server: NetServer): Promise<Target> {
  await once(server.listen(0, "127.0.0.1"), "listening");
  return { address: `127.0.0.1:${(server.address() as AddressInfo).port}`, apiKey: "key", agentIds: [] };
}

/** Hands on what it gets in pieces of so many bytes, each in a turn of its own. */
async function handOn(from: Socket, to: Socket, length: number): Promise<void> {
  to.setNoDelay(true);
  for await (const chunk of from as AsyncIterable<Buffer>) {
    for (let at = 0; at < chunk.length; at += length) {
      to.write(chunk.subarray(at, at + length));
      await delay(0);
    }
  }
}

describe("the load over gRPC", () => {
  let bare: BareServer;
  const cleanup = new AsyncDisposableStack();

  before(async () => {
    bare = await startBareServer();
    cleanup.defer(() => bare.server.forceShutdown());
  });
  beforeEach(() => {
    bare.answered = 0;
    bare.isFaulty = false;
  });
  after(() => cleanup.disposeAsync());

  const CASES: readonly { readonly name: string; readonly start: (counter: Recorder) => Lanes }[] = [
    { name: "callers", start: (to) => startUnary({ kind: "unary", target: bare.target, callers: 4 }, to) },
    {
      name: "callers that share a connection",
      start: (to) => startUnary({ kind: "unary", target: bare.target, callers: 32, isShared: true }, to),
    },
    {
      name: "streams with many messages in flight",
      start: (to) => startStreams({ kind: "stream", target: bare.target, streams: 2, inFlight: 500 }, to),
    },
  ];
  for (const { name, start } of CASES) {
    it(`counts each reply to ${name} once.`, async () => {
      const counter = createCounter();
      const lanes = start(counter);
      while (bare.answered < 2_000) await delay(5);
      await lanes.stop();
      expect(counter.calls).to.equal(bare.answered);
    });
  }

  it("fails with the message of a status.", async () => {
    const fault = await faultOf(callOnce(bare.target, UNARY_PATH, REFUSED));
    expect(fault).to.equal(`status ${status.NOT_FOUND}: ${REFUSAL}`);
  });

  it("fails with the server's words for an unknown method.", async () => {
    expect(await faultOf(callOnce(bare.target, "/none.Service/None", REFUSED))).to.match(/^status 12: .*\/none/);
  });

  it("reads every printable character of a message.", async () => {
    const printable = Array.from({ length: 95 }, (_, index) => String.fromCharCode(32 + index)).join("");
    const message = printable.replace("%", "").trim();
    const server = createHttp2Server();
    server.on("stream", (stream) => {
      stream.respond({ ":status": 200, "grpc-status": "3", "grpc-message": message }, { endStream: true });
    });
    const target = await listen(server as unknown as NetServer);
    expect(await faultOf(callOnce(target, UNARY_PATH, REFUSED))).to.equal(`status 3: ${message}`);
    server.close();
  });

  it("carries messages of many windows whole in both directions.", async () => {
    for (const length of [0, 1, 65_530, 65_531, 3_000_000]) {
      const message = Buffer.from(Array.from({ length }, (_, index) => index * 7 + (index >> 8)));
      expect((await callOnce(bare.target, UNARY_PATH, message)).equals(message)).to.equal(true);
    }
  });

  it("puts replies together that come in pieces of any size.", async () => {
    for (const length of [1, 2, 7, 10]) {
      const server = createServer(async (socket) => {
        const [, port] = bare.target.address.split(":");
        const upstream = dial(Number(port), "127.0.0.1");
        void Promise.allSettled([handOn(socket, upstream, 10_000), handOn(upstream, socket, length)]);
      });
      const target = await listen(server);
      const message = Buffer.from("a message that is cut");
      expect(await callOnce(target, UNARY_PATH, message)).to.deep.equal(message);
      server.close();
    }
  });

  it("fails when a request of a stream does.", async () => {
    bare.isFaulty = true;
    const lanes = startStreams({ kind: "stream", target: bare.target, streams: 1, inFlight: 3 }, createCounter());
    await delay(20);
    expect(await faultOf(lanes.stop())).to.match(/^a request of the stream failed: .*out of order/s);
  });

  it("fails when nobody listens.", async () => {
    const server = createServer();
    const target = await listen(server);
    await once(server.close(), "close");
    expect(await faultOf(callOnce(target, UNARY_PATH, REFUSED))).to.match(/ECONNREFUSED/);
  });

  it("fails when the server closes the connection.", async () => {
    const server = createServer((socket) => void socket.once("data", () => socket.end()));
    const target = await listen(server);
    expect(await faultOf(callOnce(target, UNARY_PATH, REFUSED))).to.equal("the server closed the connection");
    server.close();
  });

  it("fails when the server goes away.", async () => {
    const other = await startBareServer();
    const loads = [
      startUnary({ kind: "unary", target: other.target, callers: 3 }, createCounter()),
      startStreams({ kind: "stream", target: other.target, streams: 1, inFlight: 5 }, createCounter()),
    ];
    while (other.answered < 50) await delay(1);
    other.server.forceShutdown();
    await delay(20);
    for (const load of loads) {
      expect(await faultOf(load.stop())).to.match(/^the server (goes away|reset a stream|closed the connection)/);
    }
  });
});
