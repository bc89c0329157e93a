import { execFileSync } from "node:child_process";
import { once } from "node:events";
import { request as httpRequest, type IncomingMessage } from "node:http";
import { type ClientHttp2Stream, connect as http2Connect } from "node:http2";
import { setTimeout as pause } from "node:timers/promises";
import { create, toBinary } from "@bufbuild/protobuf";
import { expect } from "chai";
import { EscalationService } from "../../gen/agentcontrol/v1/escalation_service_pb.js";
import { startServiceProcess, type TestServiceProcess } from "../support/service.ts";
import { openWires, type Wires } from "../support/wires.ts";
import { grpcPath } from "./wires.ts";

const { watchEscalations } = EscalationService.method;
/** Large escalations that are pending when the watches begin, and that come later. */
const BACKLOG = 30;
const LATER = 10;
const LARGE = 900_000;
/** Unread watches of each wire. */
const WATCHES = 12;
/**
 * Bytes that the process may grow by for each watch: some copies of its page of 256 KiB and one larger entry, of its message,
 * and of what the connection took, and what the collector has not swept.
 */
const BYTES_PER_WATCH = 16_000_000;

/** Bytes of memory that a process has in use. */
const residentBytes = (pid: number): number => Number(execFileSync("ps", ["-o", "rss=", "-p", String(pid)])) * 1024;

describe("watches that nobody reads", () => {
  const cleanup = new AsyncDisposableStack();
  let service: TestServiceProcess;
  let wires: Wires;
  let agentId: string;
  /** The gRPC status that a stream ended with. */
  const statuses = new WeakMap<object, string>();

  before("starts a service with two database connections", async () => {
    service = await startServiceProcess({ env: { ACP_POOL_SIZE: "2", ACP_STREAM_HEARTBEAT_MS: "100" } });
    cleanup.defer(async () => void (await service.stop()));
    wires = openWires(service);
    cleanup.defer(() => wires.close());
    agentId = await service.agent();
    await service.rest("POST /v1/enforce/mandates", {
      name: "escalate everything",
      rules: [{ type: "action", decision: "escalate", conditions: { match_action_types: ["*"] } }],
    });
    for (let count = 0; count < BACKLOG; count++) await escalate(count);
  });
  after("stops it", () => cleanup.disposeAsync());

  const escalate = async (count: number): Promise<void> => {
    const metadata = { count, text: "x".repeat(LARGE) };
    await service.rest("POST /v1/enforce/intercept", { agent_id: agentId, action_type: "pay", metadata });
  };

  /** Opens a watch over HTTP/1.1 whose response is never read. */
  async function unreadHttp(
    path: string,
    init: { key: string; method: string; type: string; body?: Buffer },
  ): Promise<IncomingMessage> {
    const headers = { "x-api-key": init.key, "content-type": init.type };
    const sent = httpRequest(service.http + path, { method: init.method, headers, agent: false });
    sent.end(init.body);
    const [response] = (await once(sent, "response")) as [IncomingMessage];
    cleanup.defer(() => void response.destroy());
    expect(response.statusCode).to.equal(200);
    return response;
  }

  const enveloped = (message: Uint8Array): Buffer => {
    const head = Buffer.alloc(5);
    head.writeUInt32BE(message.byteLength, 1);
    return Buffer.concat([head, message]);
  };

  const unreadRest = (key = service.adminKey) =>
    unreadHttp("/v1/enforce/escalations:watch", { key, method: "GET", type: "application/json" });
  const unreadConnect = (key = service.adminKey) =>
    unreadHttp(grpcPath(watchEscalations), {
      key,
      method: "POST",
      type: "application/connect+json",
      body: enveloped(Buffer.from("{}")),
    });

  /** Opens a watch over gRPC whose reply is never read: grpc-js would read on, plain HTTP/2 does not. */
  async function unreadGrpc(key = service.adminKey): Promise<ClientHttp2Stream> {
    const session = http2Connect(`http://${service.grpc}`);
    cleanup.defer(() => session.destroy());
    const stream = session.request({
      ":method": "POST",
      ":path": grpcPath(watchEscalations),
      te: "trailers",
      "content-type": "application/grpc",
      "x-api-key": key,
    });
    stream.on("error", () => undefined);
    // They may come before anyone reads, when all that was sent lies with this client.
    stream.on("trailers", (trailers) => statuses.set(stream, String(trailers["grpc-status"])));
    stream.end(enveloped(toBinary(watchEscalations.input, create(watchEscalations.input))));
    await once(stream, "response");
    return stream;
  }

  /** Streams that ended with KEY_INVALID, from the metrics. */
  async function endedWithTheirKey(): Promise<number> {
    const text = await (await fetch(`${service.http}/metrics`)).text();
    const lines = text.split("\n").filter((line) => /^acp_calls_total.*WatchEsc.*UNAUTHENTICATED/.test(line));
    return lines.reduce((sum, line) => sum + Number(line.split(" ").at(-1)), 0);
  }

  it("hold a bounded number of bytes and leave the database to other calls; whoever reads on misses nothing.", async () => {
    const before = residentBytes(service.pid);
    const responses: IncomingMessage[] = [];
    for (let count = 0; count < WATCHES; count++) {
      responses.push(await unreadRest());
      await Promise.all([unreadConnect(), unreadGrpc()]);
    }
    for (let count = 0; count < LATER; count++) await escalate(BACKLOG + count);
    for (let count = 0; count < 50; count++) {
      const since = performance.now();
      await service.rest(`GET /v1/enforce/agents/${agentId}`);
      expect(performance.now() - since).to.be.below(2_000);
    }
    const grown = residentBytes(service.pid) - before;
    console.log(`      ${Math.round(grown / 1e6)} MB more for ${3 * WATCHES} watches`);
    expect(grown).to.be.below(3 * WATCHES * BYTES_PER_WATCH);
    const counts: number[] = [];
    let text = "";
    for await (const chunk of responses[0] as IncomingMessage) {
      text += (chunk as Buffer).toString();
      const lines = text.split("\n");
      text = lines.pop() ?? "";
      for (const line of lines) {
        const { escalation } = JSON.parse(line) as { escalation: { metadata: { count: number } } | null };
        if (escalation !== null) counts.push(escalation.metadata.count);
      }
      if (counts.length === BACKLOG + LATER) break;
    }
    expect(counts).to.deep.equal(Array.from({ length: BACKLOG + LATER }, (_, count) => count));
  });

  it("end with their key: who reads on gets what was sent before, and nothing that came after.", async () => {
    const created = await service.rest("POST /v1/admin/keys", { name: "unread", role: "operator" });
    const { key_id: keyId } = created.key as unknown as { key_id: string };
    const secret = created.secret ?? "";
    const open = [await unreadRest(secret), await unreadConnect(secret), await unreadGrpc(secret)];
    await service.rest(`DELETE /v1/admin/keys/${keyId}`);
    while ((await endedWithTheirKey()) < open.length) await pause(20);
    await service.rest("POST /v1/enforce/intercept", { agent_id: agentId, action_type: "came.after" });
    for (const stream of open) {
      const chunks: Buffer[] = [];
      for await (const chunk of stream) chunks.push(chunk as Buffer);
      const text = Buffer.concat(chunks).toString();
      expect(text).not.to.contain("came.after");
      // What the sockets of this machine hold, but far from all that was to be sent.
      expect(text.length).to.be.below((BACKLOG * LARGE) / 2);
      if ("session" in stream) expect(statuses.get(stream)).to.equal("16");
      else expect(text).to.contain("KEY_INVALID");
    }
  });
});
