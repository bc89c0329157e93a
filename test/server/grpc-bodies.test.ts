import { type ClientHttp2Session, type ClientHttp2Stream, connect as http2Connect } from "node:http2";
import { create, toBinary } from "@bufbuild/protobuf";
import { expect } from "chai";
import { Role } from "../../gen/agentcontrol/v1/access_pb.js";
import { EnforcementService, type InterceptStreamRequest } from "../../gen/agentcontrol/v1/enforcement_service_pb.js";
import type { Caller } from "../../src/api/context.ts";
import { interceptAll } from "../../src/api/intercept-stream.ts";
import { deferred, GOOD, grpcPath, type Harness, startHarness, streamOf, until } from "./harness.ts";

const { intercept: INTERCEPT, interceptStream: CONVERSE } = EnforcementService.method;
const SIZE = 60_000;
const FITTING = 5;
/** One workspace alone holds half. */
const MAX_HELD_BYTES = 2 * FITTING * (SIZE + 1_000);

/** The head of a message and its first `bytes`. */
function begun(length: number, bytes: number): Buffer {
  const part = Buffer.alloc(5 + bytes, "x");
  part.writeUInt8(0, 0);
  part.writeUInt32BE(length, 1);
  return part;
}

function framed(message: Uint8Array): Buffer {
  const head = Buffer.alloc(5);
  head.writeUInt32BE(message.length, 1);
  return Buffer.concat([head, message]);
}

interface Ended {
  readonly status: string;
  readonly message: string;
}

describe("bodies over gRPC", () => {
  let harness: Harness;
  let session: ClientHttp2Session;
  let gate = deferred();
  let asked = 0;
  before(async () => {
    const authenticate = (key: string): Caller | undefined =>
      key === "wrong" ? undefined : { keyId: key, workspaceId: key, role: Role.ADMIN, agentId: null };
    harness = await startHarness({
      pipeline: { maxHeldBytes: MAX_HELD_BYTES, authenticate },
      enforcement: {
        intercept: async ({ agentId }) => {
          await gate.promise;
          return { decisionId: `dec_${agentId}` };
        },
        interceptStream: (requests) =>
          interceptAll(
            requests,
            streamOf(async () => {
              asked += 1;
              await gate.promise;
              return {};
            }),
          ),
      },
    });
    session = http2Connect(`http://127.0.0.1:${harness.grpcPort}`);
  });
  after(async () => {
    session.destroy();
    await harness.stop();
  });

  function open(key: string, path = grpcPath(INTERCEPT)): { call: ClientHttp2Stream; ended: Promise<Ended> } {
    const pseudo = { ":method": "POST", ":path": path };
    const call = session.request({ ...pseudo, "content-type": "application/grpc", te: "trailers", "x-api-key": key });
    const ended = new Promise<Ended>((resolve) => {
      const read = (headers: Readonly<Record<string, unknown>>): void => {
        if (headers["grpc-status"] === undefined) return;
        const message = decodeURIComponent(String(headers["grpc-message"] ?? ""));
        resolve({ status: String(headers["grpc-status"]), message });
      };
      call.on("response", read);
      call.on("trailers", read);
    });
    call.on("error", () => undefined);
    return { call, ended };
  }

  it("are not read for a wrong key: it is refused while they are still to come.", async () => {
    const { call, ended } = open("wrong");
    call.write(begun(SIZE, 10));
    expect((await ended).status).to.equal("16");
    call.destroy();
    const stream = open("wrong", grpcPath(CONVERSE));
    expect((await stream.ended).status).to.equal("16");
    stream.call.destroy();
  });

  /** Begins bodies of a workspace, which never end, until one is refused. */
  async function beginMany(key: string): Promise<{ calls: ClientHttp2Stream[]; refused: Ended }> {
    const calls: ClientHttp2Stream[] = [];
    for (;;) {
      const { call, ended } = open(key);
      calls.push(call);
      call.write(begun(SIZE + 1_000, SIZE));
      // A call that is refused ends; one that waits for the rest of its body does not.
      const pinged = new Promise<undefined>((resolve) => session.ping(() => session.ping(() => resolve(undefined))));
      const end = await Promise.race([ended, pinged.then(() => ended).catch(() => undefined), later()]);
      if (end !== undefined) return { calls, refused: end };
    }
  }
  const later = (): Promise<undefined> => new Promise((resolve) => setTimeout(() => resolve(undefined), 150));

  it("count as they arrive: unfinished ones of one workspace leave room for those of others.", async () => {
    const first = await beginMany("first");
    expect(first.calls.length - 1).to.equal(FITTING);
    expect(first.refused.status).to.equal("8");
    expect(first.refused.message).to.contain("the workspace holds").and.contain("bytes of requests");
    const second = await beginMany("second");
    expect(second.calls.length - 1).to.equal(2);
    const third = await beginMany("third");
    expect(third.calls.length - 1).to.equal(1);
    for (const call of [...first.calls, ...second.calls, ...third.calls]) call.destroy();
    gate = deferred();
    gate.resolve();
    const whole = create(INTERCEPT.input, { ...GOOD, actionContent: "x".repeat(SIZE) });
    let status = "";
    // The service learns of the broken calls a moment later.
    while (status !== "0") {
      const { call, ended } = open("first");
      call.resume();
      call.end(framed(toBinary(INTERCEPT.input, whole)));
      status = (await ended).status;
      expect(status).to.be.oneOf(["0", "8"]);
    }
  });

  it("of messages on a stream count until they are answered; more are refused one by one, and the stream goes on.", async () => {
    gate = deferred();
    const uuid = (n: number): string => `00000000-0000-4000-8000-${String(n).padStart(12, "0")}`;
    let next = 0;
    const message = (size: number): Buffer => {
      next += 1;
      const intercept = { ...GOOD, requestId: uuid(next), actionContent: "x".repeat(size) };
      return framed(toBinary(CONVERSE.input, create(CONVERSE.input, { intercept }) as InterceptStreamRequest));
    };
    /** Sends messages until one is refused. Returns how many are held. */
    const fill = async (key: string): Promise<{ held: number; call: ClientHttp2Stream; ended: Promise<Ended> }> => {
      const { call, ended } = open(key, grpcPath(CONVERSE));
      let received = "";
      call.on("data", (chunk: Buffer) => {
        received += chunk.toString("latin1");
      });
      for (let held = 0; ; held++) {
        const before = asked;
        call.write(message(SIZE));
        await until(() => asked > before || received.includes("OVERLOADED"));
        if (received.includes("OVERLOADED")) return { held, call, ended };
      }
    };
    const first = await fill("first");
    const second = await fill("second");
    const third = await fill("third");
    expect([first.held, second.held, third.held]).to.deep.equal([FITTING, 2, 1]);
    gate.resolve();
    for (const { call, ended } of [first, second, third]) {
      call.end(message(10));
      expect((await ended).status).to.equal("0");
    }
  });
});
