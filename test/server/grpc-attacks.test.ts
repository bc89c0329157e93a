/* Callers of gRPC that break its rules, or those of HTTP/2, or that do nothing. */
import { once } from "node:events";
import { type ClientHttp2Session, type ClientHttp2Stream, connect as http2Connect } from "node:http2";
import { connect, type Socket } from "node:net";
import { deflateSync, gzipSync } from "node:zlib";
import { create, toBinary } from "@bufbuild/protobuf";
import { expect } from "chai";
import { EnforcementService } from "../../gen/agentcontrol/v1/enforcement_service_pb.js";
import { framed } from "../../src/server/grpc/framing.ts";
import { createGrpcServer } from "../../src/server/grpc/server.ts";
import { dataFrame, grpcHeaders, PREFACE, pingFrame, resetFrame, settingsFrame } from "../support/http2-frames.ts";
import { ADMIN_KEY, GOOD, grpcPath, type Harness, KEY, MAX_BODY_BYTES, startHarness, until } from "./harness.ts";

const INTERCEPT = EnforcementService.method.intercept;
const PATH = grpcPath(INTERCEPT);
const REQUEST = toBinary(INTERCEPT.input, create(INTERCEPT.input, GOOD));
const GRPC = { ":method": "POST", "content-type": "application/grpc", te: "trailers" };

/** A message with any flag and any length in front. */
function lying(message: Uint8Array, { flag = 0, length = message.length }): Buffer {
  const frame = framed(message);
  frame.writeUInt8(flag);
  frame.writeUInt32BE(length, 1);
  return frame;
}

/** End of a call. */
interface Ended {
  readonly http: number;
  readonly status: string;
  readonly message: string;
  readonly headers: Readonly<Record<string, unknown>>;
}

function endOf(call: ClientHttp2Stream): Promise<Ended> {
  return new Promise((resolve, reject) => {
    let headers: Record<string, unknown> = {};
    const finish = (): void => {
      const message = decodeURIComponent(String(headers["grpc-message"] ?? ""));
      resolve({ http: Number(headers[":status"]), status: String(headers["grpc-status"]), message, headers });
    };
    const read = (given: Readonly<Record<string, unknown>>): void => {
      headers = { ...headers, ...given };
      if ("grpc-status" in given) finish();
    };
    call.on("response", read).on("trailers", read).on("error", reject).once("close", finish).resume();
  });
}

const closeOf = (socket: Socket): Promise<unknown> => new Promise((resolve) => socket.once("close", resolve));

describe("hostile gRPC", () => {
  let harness: Harness;
  let session: ClientHttp2Session;
  const sockets: Socket[] = [];

  before(async () => {
    harness = await startHarness();
    session = http2Connect(`http://127.0.0.1:${harness.grpcPort}`);
    session.on("error", () => undefined);
  });
  after(async () => {
    for (const socket of sockets) socket.destroy();
    session.destroy();
    await harness.stop();
  });

  const open = (headers: Readonly<Record<string, string | string[]>> = {}): ClientHttp2Stream =>
    session.request({ ...GRPC, ":path": PATH, ...KEY, ...headers });
  const ask = (body: Buffer, headers?: Readonly<Record<string, string | string[]>>): Promise<Ended> =>
    endOf(open(headers).end(body));
  const assertServes = async (): Promise<void> => {
    expect((await ask(framed(REQUEST))).status).to.equal("0");
  };

  /** Opens a connection that speaks in frames; keeps what it receives. */
  async function raw(settings = settingsFrame()): Promise<{ socket: Socket; received: () => Buffer }> {
    const socket = connect(harness.grpcPort, "127.0.0.1");
    sockets.push(socket);
    const chunks: Buffer[] = [];
    socket.on("data", (chunk: Buffer) => chunks.push(chunk)).on("error", () => undefined);
    await once(socket, "connect");
    socket.write(Buffer.concat([PREFACE, settings]));
    return { socket, received: () => Buffer.concat(chunks) };
  }

  describe("a request of one message", () => {
    const CASES: readonly (readonly [name: string, body: Buffer, message: RegExp])[] = [
      ["has none", Buffer.alloc(0), /has no message/],
      ["has two", Buffer.concat([framed(REQUEST), framed(REQUEST)]), /more than one message/],
      ["ends in its head", framed(REQUEST).subarray(0, 3), /cut off/],
      ["ends in the message", framed(REQUEST).subarray(0, 10), /cut off/],
      ["is shorter than its head says", lying(REQUEST, { length: REQUEST.length + 1 }), /cut off/],
      ["is longer than its head says", lying(REQUEST, { length: REQUEST.length - 1 }), /cut off/],
      ["has an unknown flag", lying(REQUEST, { flag: 2 }), /begins with the byte 2/],
      ["is compressed in no encoding", lying(gzipSync(REQUEST), { flag: 1 }), /does not say how/],
    ];
    for (const [name, body, message] of CASES) {
      it(`that ${name} is refused, and no service sees it.`, async () => {
        const before = harness.seen.length;
        const ended = await ask(body);
        expect(ended.status).to.equal("3");
        expect(ended.message).to.match(message);
        expect(harness.seen.length).to.equal(before);
        await assertServes();
      });
    }

    it("is refused at a head that announces too much, while all of it is still to come.", async () => {
      const call = open();
      call.write(lying(Buffer.alloc(1), { length: MAX_BODY_BYTES + 1 }));
      const ended = await endOf(call);
      expect([ended.status, ended.message]).to.deep.equal(["8", `the request is larger than ${MAX_BODY_BYTES} bytes`]);
    });

    it("may come in any encoding that is announced, and in no other.", async () => {
      expect((await ask(lying(gzipSync(REQUEST), { flag: 1 }), { "grpc-encoding": "gzip" })).status).to.equal("0");
      expect((await ask(lying(deflateSync(REQUEST), { flag: 1 }), { "grpc-encoding": "deflate" })).status).to.equal(
        "0",
      );
      const plain = await ask(framed(REQUEST), { "grpc-encoding": "gzip" });
      expect(plain.status).to.equal("0");
      expect(plain.headers["grpc-accept-encoding"]).to.equal("identity,deflate,gzip");
      const unknown = await ask(lying(REQUEST, { flag: 1 }), { "grpc-encoding": "snappy" });
      expect(unknown.status).to.equal("12");
      expect(unknown.headers["grpc-accept-encoding"]).to.equal("identity,deflate,gzip");
    });

    it("is refused if it is not what its encoding says, and if it unpacks to too much.", async () => {
      const broken = await ask(lying(REQUEST, { flag: 1 }), { "grpc-encoding": "gzip" });
      expect([broken.status, broken.message]).to.deep.equal([
        "3",
        "the request is not valid gRPC: a message is not valid gzip",
      ]);
      const bomb = gzipSync(Buffer.alloc(50 * MAX_BODY_BYTES));
      expect(bomb.length).to.be.below(MAX_BODY_BYTES);
      expect((await ask(lying(bomb, { flag: 1 }), { "grpc-encoding": "gzip" })).status).to.equal("8");
    });
  });

  it("is answered with 415 if it is not gRPC.", async () => {
    for (const type of ["application/json", "text/plain", "", "application/grpc-web", "application/grpc+json"]) {
      expect((await ask(framed(REQUEST), { "content-type": type })).http).to.equal(415);
    }
    for (const type of ["application/grpc+proto", "application/grpc;charset=utf-8", "APPLICATION/GRPC"]) {
      expect((await ask(framed(REQUEST), { "content-type": type })).status).to.equal("0");
    }
  });

  it("is refused at a timeout that has passed or cannot be read.", async () => {
    const before = harness.seen.length;
    expect((await ask(framed(REQUEST), { "grpc-timeout": "0n" })).status).to.equal("4");
    for (const timeout of ["1", "-1S", "999999999S", "1x", "1S, 1S"]) {
      expect((await ask(framed(REQUEST), { "grpc-timeout": timeout })).status).to.equal("3");
    }
    expect(harness.seen.length).to.equal(before);
  });

  it("ends at its deadline while its message is still to come.", async () => {
    const call = open({ "grpc-timeout": "200m" });
    call.write(framed(REQUEST).subarray(0, 8));
    expect((await endOf(call)).status).to.equal("4");
  });

  it("that has too large headers is refused alone.", async () => {
    for (const headers of [
      { "x-large": "x".repeat(20_000) },
      Object.fromEntries(Array.from({ length: 200 }, (_, index) => [`x-${index}`, "x"])),
    ]) {
      const ended = await ask(framed(REQUEST), headers).catch((error: NodeJS.ErrnoException) => error.code);
      expect(ended).to.equal("ERR_HTTP2_STREAM_ERROR");
    }
    await assertServes();
  });

  it("that resets its calls as fast as it opens them loses its connection, and no other caller notices.", async () => {
    const { socket } = await raw();
    const closed = closeOf(socket);
    const before = harness.seen.length;
    for (let stream = 1; stream < 20_000 && !socket.destroyed; stream += 2) {
      socket.write(Buffer.concat([grpcHeaders(stream, PATH, { "x-api-key": ADMIN_KEY }), resetFrame(stream)]));
      if (stream % 1_000 === 1) await new Promise((resolve) => setImmediate(resolve));
    }
    await closed;
    expect(harness.seen.length).to.equal(before);
    await assertServes();
  });

  for (const [name, bytes] of [
    ["settings", settingsFrame()],
    ["pings", pingFrame()],
  ] as const) {
    it(`that floods with ${name} and reads nothing loses its connection, and no other caller notices.`, async () => {
      const { socket } = await raw();
      socket.pause();
      const flood = Buffer.concat(Array.from({ length: 1_000 }, () => bytes));
      const closed = closeOf(socket);
      const write = (): void => {
        if (!socket.destroyed) socket.write(flood, () => setImmediate(write));
      };
      write();
      await assertServes();
      // A closed connection is noticed once what it sent is read.
      const reading = setInterval(() => socket.resume(), 500);
      await closed;
      clearInterval(reading);
      await assertServes();
    });
  }

  it("with a window of nothing gets its headers and waits for its answer, which later windows let through.", async () => {
    const { socket, received } = await raw(settingsFrame(0));
    const call = [grpcHeaders(1, PATH, { "x-api-key": ADMIN_KEY }), dataFrame(1, framed(REQUEST), true)];
    const before = harness.seen.length;
    socket.write(Buffer.concat(call));
    await until(() => harness.seen.length > before);
    await assertServes();
    expect(received().includes("dec_agt_1")).to.equal(false);
    socket.write(settingsFrame(65_535));
    await until(() => received().includes("dec_agt_1"));
  });

  it("that answers no ping is cut off, and one that answers is not.", async () => {
    const { pipeline, health } = harness;
    const operators = { assertAllowed: async () => undefined };
    const server = createGrpcServer({ pipeline, health, operators, maxBodyBytes: MAX_BODY_BYTES, keepaliveMs: 100 });
    const port = await server.listen("127.0.0.1", 0);
    const answering = http2Connect(`http://127.0.0.1:${port}`);
    const silent = connect(port, "127.0.0.1")
      .on("error", () => undefined)
      .resume();
    const closed = closeOf(silent);
    silent.write(Buffer.concat([PREFACE, settingsFrame()]));
    await once(answering, "ping");
    await closed;
    expect(answering.destroyed).to.equal(false);
    answering.destroy();
    await server.close(1_000);
  });

  it("that keeps a call open is cut off when the server closes, after the grace.", async () => {
    const { pipeline, health } = harness;
    const operators = { assertAllowed: async () => undefined };
    const server = createGrpcServer({ pipeline, health, operators, maxBodyBytes: MAX_BODY_BYTES });
    const port = await server.listen("127.0.0.1", 0);
    const caller = http2Connect(`http://127.0.0.1:${port}`).on("error", () => undefined);
    const call = caller.request({ ...GRPC, ":path": PATH, ...KEY }).on("error", () => undefined);
    const before = harness.logged.length;
    call.write(framed(REQUEST).subarray(0, 8));
    await once(caller, "remoteSettings");
    const goaway = once(caller, "goaway");
    server.drain();
    await goaway;
    const closed = once(caller, "close");
    await server.close(100);
    await closed;
    expect(harness.logged.slice(before).join()).not.to.contain("INTERNAL");
  });

  it("that sends HTTP/1.1 or noise is closed.", async () => {
    for (const text of ["GET / HTTP/1.1\r\nhost: x\r\n\r\n", "\0".repeat(100)]) {
      const socket = connect(harness.grpcPort, "127.0.0.1");
      socket.on("error", () => undefined).resume();
      socket.write(text);
      await closeOf(socket);
    }
    await assertServes();
  });

  it("cannot open more calls on a connection than its settings say.", async () => {
    const { socket } = await raw();
    const closed = closeOf(socket);
    for (let stream = 1; stream < 20_000 && !socket.destroyed; stream += 2) {
      socket.write(grpcHeaders(stream, "/grpc.health.v1.Health/Check", {}));
      if (stream % 1_000 === 1) await new Promise((resolve) => setImmediate(resolve));
    }
    await closed;
    await assertServes();
  });
});
