import { type ChildProcessByStdio, spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { join } from "node:path";
import { createInterface } from "node:readline";
import type { Readable, Writable } from "node:stream";
import { getCACertificates, setDefaultCACertificates } from "node:tls";
import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import { credentials } from "@grpc/grpc-js";
import { expect } from "chai";
import {
  EnforcementService,
  type InterceptStreamRequest,
  InterceptStreamRequestSchema,
  type InterceptStreamResponse,
  InterceptStreamResponseSchema,
} from "../../gen/agentcontrol/v1/enforcement_service_pb.js";
import type { ControlPlane } from "../../src/client/index.ts";
import { connectStateful } from "../gateway/harness.ts";
import { startToolsServer, type ToolsServer } from "../gateway/tools-server.ts";
import { TEST_TLS } from "../server/tls-pair.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { describeWithPackages } from "../support/debian.ts";
import { startServer, type TestServer } from "../support/server.ts";
import { connect, decisionIdsOf, registerAgent } from "../support/service.ts";
import { metadataWith, openWires, rpcPath, type Wires } from "../support/wires.ts";
import { until } from "../workers/harness.ts";
import { NGINX_PACKAGES, type Nginx, startNginx } from "./nginx.ts";

const ADMIN_KEY = "the-admin-key-behind-the-proxy";
const ENV = {
  ACP_ADMIN_KEY: ADMIN_KEY,
  ACP_ENCRYPTION_KEY: "the-encryption-key-that-both-replicas-have",
  ACP_MCP_ALLOW: "127.0.0.0/8",
};
const LOAD = join(import.meta.dirname, "guarded-load.ts");
/** Decisions before a replica is killed, and after it. */
const MORE = 60;
/** Clients of MCP, each with a key of its own: enough for both replicas to get some. */
const MCP_CLIENTS = 8;

describeWithPackages("nginx as delivered, in front of two replicas", NGINX_PACKAGES, () => {
  const trusted = getCACertificates("default");
  let database: TestDatabase;
  let replicas: [TestServer, TestServer];
  let nginx: Nginx;
  let wires: Wires;
  let admin: ControlPlane;
  let agentId: string;

  before(async () => {
    database = await createTestDatabase();
    const start = () => startServer({ databaseUrl: database.url, env: ENV });
    replicas = [await start(), await start()];
    nginx = await startNginx(replicas);
    setDefaultCACertificates([...trusted, TEST_TLS.cert]);
    const grpc = new URL(nginx.url).host;
    wires = openWires({ http: nginx.url, grpc }, credentials.createSsl(Buffer.from(TEST_TLS.cert)));
    admin = connect({ http: nginx.url, grpc, adminKey: ADMIN_KEY });
    agentId = await registerAgent(admin);
  });
  after(async () => {
    wires?.close();
    admin?.close();
    setDefaultCACertificates(trusted);
    await nginx?.close();
    for (const replica of replicas ?? []) await replica.stop();
    await database?.drop();
  });

  const restHeaders = { "x-api-key": ADMIN_KEY, "content-type": "application/json" };
  const call = async (path: string, body: object): Promise<Record<string, never>> => {
    const response = await fetch(nginx.url + path, {
      method: "POST",
      headers: restHeaders,
      body: JSON.stringify(body),
    });
    const answer = (await response.json()) as Record<string, never>;
    expect(response.status, JSON.stringify(answer)).to.equal(200);
    return answer;
  };
  const action = () => ({ agent_id: agentId, action_type: "note.write", action_content: "behind the proxy" });

  it("takes REST, Connect, gRPC-Web and gRPC on one port.", async () => {
    expect(await call("/v1/enforce/intercept", action())).to.include({ decision: "allow" });
    for (const wire of wires.all) {
      const answer = await wire.unary(EnforcementService.method.intercept, action(), { key: ADMIN_KEY });
      expect(answer, wire.name).to.have.nested.property("body.decision");
      expect(answer.code, wire.name).to.equal("OK");
    }
  });

  it("passes a message of a stream on as it comes, over every wire.", async () => {
    for (const wire of wires.all) {
      const ended = new AbortController();
      const options = { key: ADMIN_KEY, signal: ended.signal };
      const messages = wire.stream(EnforcementService.method.watchDecisions, { agent_id: agentId }, options);
      const iterator = messages[Symbol.asyncIterator]();
      // A watch begins with a heartbeat. The decision is made while the stream is open, and nothing follows it.
      expect((await iterator.next()).done, wire.name).to.equal(false);
      const { decision_id: made } = await call("/v1/enforce/intercept", action());
      for (;;) {
        const { value, done } = await iterator.next();
        expect(done, wire.name).to.not.equal(true);
        if (JSON.stringify(value).includes(made ?? "")) break;
      }
      ended.abort();
      await iterator.return?.().catch(() => undefined);
    }
  });

  it("passes Server-Sent Events on as they come.", async () => {
    const headers = { "x-api-key": ADMIN_KEY, accept: "text/event-stream" };
    const response = await fetch(`${nginx.url}/v1/enforce/decisions:watch`, { headers });
    expect(response.headers.get("content-type")).to.equal("text/event-stream");
    const reader = (response.body as ReadableStream<Uint8Array>).getReader();
    const decoder = new TextDecoder();
    let text = decoder.decode((await reader.read()).value);
    const { decision_id: made } = await call("/v1/enforce/intercept", action());
    while (!text.includes(made ?? "")) {
      const { value, done } = await reader.read();
      expect(done).to.equal(false);
      text += decoder.decode(value);
    }
    await reader.cancel();
  });

  it("answers each message of a two-way gRPC stream before the next is sent, past the size of one request.", async () => {
    const stream = wires.grpc.makeBidiStreamRequest<InterceptStreamRequest, InterceptStreamResponse>(
      rpcPath(EnforcementService.method.interceptStream),
      (message) => Buffer.from(toBinary(InterceptStreamRequestSchema, message)),
      (bytes) => fromBinary(InterceptStreamResponseSchema, bytes),
      metadataWith(ADMIN_KEY),
    );
    stream.on("error", () => undefined);
    const content = "x".repeat(65_536);
    for (let count = 0; count < 40; count++) {
      const requestId = randomUUID();
      const intercept = { requestId, agentId, actionType: "note.write", actionContent: content };
      stream.write(create(InterceptStreamRequestSchema, { intercept }));
      const [reply] = (await once(stream, "data")) as [InterceptStreamResponse];
      expect(reply.requestId).to.equal(requestId);
      expect(reply.result.case, JSON.stringify(reply)).to.equal("response");
    }
    stream.cancel();
  });

  it("keeps each MCP session on the replica that opened it; both get some.", async () => {
    const tools: ToolsServer = await startToolsServer();
    await call("/v1/enforce/mcp-servers", { name: "tools", url: tools.url });
    const clients = await Promise.all(
      Array.from({ length: MCP_CLIENTS }, async (_, index) => {
        const { secret } = await call("/v1/admin/keys", { name: `mcp ${index}`, role: "operator" });
        // Half of the clients send their key as a bearer token.
        const key: Record<string, string> =
          index % 2 ? { "x-api-key": `${secret}` } : { authorization: `Bearer ${secret}` };
        return await connectStateful(new URL(`${nginx.url}/mcp/tools`), { ...key, "x-agent-id": agentId });
      }),
    );
    for (let round = 0; round < 5; round++) {
      await Promise.all(clients.map((client) => client.callTool({ name: "read", arguments: {} })));
    }
    expect(tools.calls).to.have.length(MCP_CLIENTS * 5);
    const sessions = await Promise.all(
      replicas.map(async ({ http }) => {
        const page = await (await fetch(`${http}/metrics`)).text();
        return Number(/^acp_mcp_sessions(?:\{.*\})? (\d+)$/m.exec(page)?.[1]);
      }),
    );
    expect(sessions[0]).to.be.above(0);
    expect(sessions[1]).to.be.above(0);
    await Promise.all(clients.map((client) => client.close()));
    await tools.close();
  });

  it("shows metrics to nobody outside without a key.", async () => {
    expect((await fetch(`${nginx.url}/metrics`)).status).to.equal(401);
    expect((await fetch(`${nginx.url}/metrics`, { headers: { "x-api-key": ADMIN_KEY } })).status).to.equal(200);
  });

  it("refuses calls without TLS in place of redirecting them.", async () => {
    const response = await fetch(`${nginx.plainUrl}/v1/enforce/intercept`, { method: "POST", redirect: "manual" });
    expect(response.status).to.equal(403);
  });

  it("fails no guarded call over HTTPS and gRPC while a replica is killed and comes back; each is decided once.", async () => {
    const callers = [await registerAgent(admin), await registerAgent(admin)] as const;
    const loads = callers.map((caller, index) => startLoad(nginx, index === 1, caller));
    const more = async (): Promise<void> => {
      for (const load of loads) {
        const { length } = load.decided;
        await until("more is decided", () => load.code() !== null || load.decided.length >= length + MORE);
      }
    };
    await more();
    const [killed] = replicas;
    await killed.kill();
    await more();
    // It comes back at its addresses, as a supervisor starts it again.
    const ports = { ACP_HTTP_PORT: new URL(killed.http).port, ACP_GRPC_PORT: killed.grpc.split(":")[1] ?? "" };
    replicas[0] = await startServer({ databaseUrl: database.url, env: { ...ENV, ...ports } });
    await more();
    for (const [index, load] of loads.entries()) {
      expect(await load.end(), load.errors()).to.equal(0);
      const sealed = await decisionIdsOf(admin, callers[index] ?? "");
      expect(new Set(load.decided).size).to.equal(load.decided.length);
      expect(sealed).to.have.members(load.decided);
    }
  });
});

interface Load {
  readonly decided: readonly string[];
  /** Exit code; null while it runs. */
  code(): number | null;
  errors(): string;
  end(): Promise<number | null>;
}

function startLoad({ url, certificate }: Nginx, isGrpc: boolean, agentId: string): Load {
  const env = { ...process.env, NODE_EXTRA_CA_CERTS: certificate, GRPC_DEFAULT_SSL_ROOTS_FILE_PATH: certificate };
  const child: ChildProcessByStdio<Writable, Readable, Readable> = spawn(
    process.execPath,
    [LOAD, url, isGrpc ? url : "", ADMIN_KEY, agentId],
    { env, stdio: ["pipe", "pipe", "pipe"] },
  );
  const ended = once(child, "close");
  const decided: string[] = [];
  let errors = "";
  createInterface(child.stdout).on("line", (line) => void decided.push(line));
  child.stderr.setEncoding("utf8").on("data", (text: string) => {
    errors += text;
  });
  child.stdin.on("error", () => undefined);
  return {
    decided,
    code: () => child.exitCode,
    errors: () => errors,
    async end() {
      child.stdin.end();
      await ended;
      return child.exitCode;
    },
  };
}
