import { connect as http2Connect } from "node:http2";
import { connect, type Socket } from "node:net";
import { create, toBinary } from "@bufbuild/protobuf";
import { expect } from "chai";
import { Role } from "../../gen/agentcontrol/v1/access_pb.js";
import { EnforcementService } from "../../gen/agentcontrol/v1/enforcement_service_pb.js";
import type { Caller } from "../../src/api/context.ts";
import { GOOD, grpcPath, type Harness, startHarness, type TestWire, WIRES } from "./harness.ts";

const INTERCEPT = EnforcementService.method.intercept;
/** More than the buffers of a connection take. */
const SIZE = 16_000_000;
/** One workspace alone has half, a second one half of the rest, and a third one half of that. */
const MAX_ANSWER_BYTES = 8.4 * SIZE;

/** A call whose caller reads no more than the beginning of its answer. */
interface Unread {
  /** The beginning of the answer, with its headers. */
  readonly text: string;
  leave(): void;
}

const REQUEST = toBinary(INTERCEPT.input, create(INTERCEPT.input, GOOD));
const framed = (): Buffer => {
  const head = Buffer.alloc(5);
  head.writeUInt32BE(REQUEST.length, 1);
  return Buffer.concat([head, REQUEST]);
};
const JSON_BODY = Buffer.from(JSON.stringify({ action_type: "send", agent_id: "agt_1" }));
const CONNECT_JSON = Buffer.from(JSON.stringify({ actionType: "send", agentId: "agt_1" }));
const FORMS: Readonly<Record<Exclude<TestWire, "grpc">, readonly [path: string, type: string, body: Buffer]>> = {
  rest: ["/v1/enforce/intercept", "application/json", JSON_BODY],
  connect: [grpcPath(INTERCEPT), "application/proto", Buffer.from(REQUEST)],
  "connect-json": [grpcPath(INTERCEPT), "application/json", CONNECT_JSON],
  "grpc-web": [grpcPath(INTERCEPT), "application/grpc-web+proto", framed()],
};

/** Asks over HTTP/1.1, and stops reading at the first piece of the body that is no header. */
function askHttp(port: number, wire: Exclude<TestWire, "grpc">, key: string): Promise<Unread> {
  const [path, type, body] = FORMS[wire];
  const socket: Socket = connect(port, "127.0.0.1");
  const head = `POST ${path} HTTP/1.1\r\nhost: x\r\nx-api-key: ${key}\r\ncontent-type: ${type}\r\ncontent-length: ${body.length}\r\nconnect-protocol-version: 1\r\n\r\n`;
  socket.write(Buffer.concat([Buffer.from(head), body]));
  return new Promise((resolve, reject) => {
    let text = "";
    socket.once("error", reject);
    socket.on("data", (chunk: Buffer) => {
      text += chunk.toString("latin1");
      const end = text.indexOf("\r\n\r\n");
      if (end === -1 || end + 4 === text.length) return;
      socket.pause();
      resolve({ text: text.replaceAll("%20", " "), leave: () => void socket.destroy() });
    });
  });
}

/** Asks over HTTP/2, and reads nothing but the headers. */
function askGrpc(port: number, key: string): Promise<Unread> {
  const session = http2Connect(`http://127.0.0.1:${port}`);
  const pseudo = { ":method": "POST", ":path": grpcPath(INTERCEPT) };
  const call = session.request({ ...pseudo, "content-type": "application/grpc", te: "trailers", "x-api-key": key });
  call.pause();
  call.end(framed());
  return new Promise((resolve, reject) => {
    call.once("error", reject);
    call.once("response", (headers) => {
      resolve({ text: decodeURIComponent(String(headers["grpc-message"] ?? "")), leave: () => void session.destroy() });
    });
  });
}

describe("answers that their callers do not read", () => {
  let harness: Harness;
  before(async () => {
    const authenticate = (key: string): Caller => ({ keyId: key, workspaceId: key, role: Role.ADMIN, agentId: null });
    harness = await startHarness({
      pipeline: { maxAnswerBytes: MAX_ANSWER_BYTES, authenticate },
      enforcement: { intercept: async () => ({ policyName: "x".repeat(SIZE) }) },
    });
  });
  after(() => harness.stop());

  const ask = (wire: TestWire, key: string): Promise<Unread> =>
    wire === "grpc" ? askGrpc(harness.grpcPort, key) : askHttp(harness.httpPort, wire, key);

  for (const wire of WIRES) {
    it(`are a share over ${wire}: two workspaces fill theirs, a third is answered, and leaving makes room.`, async () => {
      const open: Unread[] = [];
      /** Asks until it is refused. Returns how many answers are held, and the refusal. */
      const fill = async (key: string) => {
        for (let held = 0; ; held++) {
          const answer = await ask(wire, key);
          open.push(answer);
          if (/answers that are not read/.test(answer.text)) return { held, text: answer.text };
        }
      };
      const first = await fill("first");
      expect(first.held).to.equal(4);
      expect(first.text).to.contain("the workspace holds").and.contain("the request may have taken effect");
      expect((await fill("second")).held).to.equal(2);
      expect((await fill("third")).held).to.equal(1);
      for (const { leave } of open) leave();
      let held = 0;
      // The service learns of the closed connections a moment later.
      while (held < 4) {
        const again = open.length;
        held = (await fill("first")).held;
        for (const { leave } of open.slice(again)) leave();
      }
    });
  }
});
