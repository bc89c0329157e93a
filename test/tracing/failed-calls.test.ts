import { connect } from "node:http2";
import { expect } from "chai";
import { GENERATIONS, openRaw } from "../gateway/raw-client.ts";
import { type RecordingServer, startRecordingServer } from "../gateway/recording-server.ts";
import { named, newTrace, startTraced, type Traced, traceparentIn } from "./harness.ts";

const METHOD = "agentcontrol.v1.EnforcementService/Intercept";
const SECRET = "DE89370400440532013000";

describe("spans of calls that fail", () => {
  let service: Traced;
  let mcp: RecordingServer;
  before(async () => {
    service = await startTraced();
    mcp = await startRecordingServer();
    mcp.tools = [{ name: "pay", inputSchema: { type: "object" } }];
    await service.gateway.add("shop", { url: mcp.url });
  });
  after(async () => {
    await service?.stop();
    await mcp?.close();
  });

  /** Posts an empty message of gRPC over HTTP/2. */
  async function overHttp2(headers: Readonly<Record<string, string>>): Promise<void> {
    const session = connect(`http://${service.gateway.grpc}`);
    const stream = session.request({
      ":method": "POST",
      ":path": `/${METHOD}`,
      "content-type": "application/grpc",
      te: "trailers",
      ...headers,
    });
    stream.end(Buffer.alloc(5));
    for await (const _ of stream);
    session.close();
  }

  /** Posts an empty message to the port of HTTP. */
  async function overHttp(path: string, type: string, headers: Readonly<Record<string, string>>): Promise<void> {
    const body = type === "application/json" ? "{}" : Buffer.alloc(5);
    const init = { method: "POST", headers: { "content-type": type, ...headers }, body };
    await (await fetch(service.gateway.http + path, init)).arrayBuffer();
  }

  type Headers = Readonly<Record<string, string>>;
  const WIRES: readonly [string, string, Headers, (headers: Headers) => Promise<void>][] = [
    [
      "rest",
      "DEADLINE_EXCEEDED",
      { "x-request-timeout-ms": "0" },
      (headers) => overHttp("/v1/enforce/intercept", "application/json", headers),
    ],
    [
      "connectrpc",
      "deadline_exceeded",
      { "connect-timeout-ms": "0" },
      (headers) => overHttp(`/${METHOD}`, "application/json", headers),
    ],
    [
      "grpc",
      "DEADLINE_EXCEEDED",
      { "grpc-timeout": "1n" },
      (headers) => overHttp(`/${METHOD}`, "application/grpc-web+proto", headers),
    ],
    ["grpc", "DEADLINE_EXCEEDED", { "grpc-timeout": "1n" }, overHttp2],
  ];
  for (const [index, [system, status, timeout, call]] of WIRES.entries()) {
    it(`name the status that is at fault: ${system}, ${index}.`, async () => {
      const traceId = newTrace();
      await call({ "x-api-key": service.gateway.adminKey, traceparent: traceparentIn(traceId), ...timeout });
      const span = named(await service.spansOf(traceId, METHOD), METHOD);
      const wanted = { "rpc.system.name": system, "rpc.method": METHOD, "rpc.status_code": status };
      expect(span.attributes).to.deep.include({ ...wanted, "error.type": status });
      expect(span.isError).to.equal(true);
    });
  }

  for (const generation of GENERATIONS) {
    describe(`to an MCP server, ${generation}`, () => {
      const FAILURES: readonly [string, RecordingServer["answer"], Record<string, string>][] = [
        ["an error", () => ({ error: { code: -32_000, message: SECRET } }), codes("-32000")],
        [
          "a result that is an error",
          () => ({ result: { resultType: "complete", isError: true, content: [{ type: "text", text: SECRET }] } }),
          { "error.type": "tool_error" },
        ],
      ];
      for (const [what, answer, wanted] of FAILURES) {
        it(`name the tool and ${what}, on both sides of the gateway.`, async () => {
          const traceId = newTrace();
          const client = await openRaw(service.gateway, "shop", generation);
          mcp.answer = answer;
          await client.ask("tools/call", { name: "pay", arguments: { iban: SECRET } }, headersIn(traceId));
          const spans = await spansOfBoth(traceId);
          for (const span of spans) {
            expect(span.name).to.equal("tools/call pay");
            expect(span.isError).to.equal(true);
            const tool = { "gen_ai.tool.name": "pay", "gen_ai.operation.name": "execute_tool" };
            expect(span.attributes).to.deep.include({ "mcp.method.name": "tools/call", ...tool, ...wanted });
          }
          expect(service.hasSent(SECRET)).to.equal(false);
        });
      }

      it("name the status of a server that answers with an error of HTTP.", async () => {
        const traceId = newTrace();
        const client = await openRaw(service.gateway, "shop", generation);
        mcp.refuse = (response) => response.writeHead(503, { "content-type": "text/plain" }).end(SECRET);
        await client.ask("tools/call", { name: "pay", arguments: {} }, headersIn(traceId));
        mcp.refuse = undefined;
        // Between two generations the gateway makes an error of JSON-RPC from it.
        const wanted = generation === "stateless" ? codes("-32603") : { "error.type": "503" };
        for (const span of await spansOfBoth(traceId)) {
          expect(span.attributes).to.include({ "gen_ai.tool.name": "pay", ...wanted });
        }
        expect(service.hasSent(SECRET)).to.equal(false);
      });

      it("name the reason for a server that breaks off.", async () => {
        const traceId = newTrace();
        const client = await openRaw(service.gateway, "shop", generation);
        mcp.refuse = (response) => response.destroy();
        await client.ask("tools/call", { name: "pay", arguments: {} }, headersIn(traceId));
        mcp.refuse = undefined;
        const spans = await spansOfBoth(traceId);
        const types = Object.fromEntries(spans.map(({ kind, attributes }) => [kind, attributes["error.type"]]));
        const bridged = { client: "-32603", server: "-32603" };
        const direct = { client: "MCP_UPSTREAM_UNAVAILABLE", server: "-32000" };
        expect(types).to.deep.equal(generation === "stateless" ? bridged : direct);
      });

      it("name no tool that is not in force, and the refusal.", async () => {
        const traceId = newTrace();
        const client = await openRaw(service.gateway, "shop", generation);
        await client.ask("tools/call", { name: SECRET, arguments: {} }, headersIn(traceId));
        const span = named(await service.spansOf(traceId, "tools/call"), "tools/call");
        expect(span).to.deep.include({ name: "tools/call", kind: "server" });
        expect(span.attributes).to.include({ "error.type": "tool_error" });
        expect(span.attributes).to.not.have.property("gen_ai.tool.name");
        expect(service.hasSent(SECRET)).to.equal(false);
      });
    });
  }

  const headersIn = (traceId: string) => ({ traceparent: traceparentIn(traceId) });

  /** The spans of the message of a client, and of the request to the server. */
  async function spansOfBoth(traceId: string) {
    await service.spansOf(traceId, "tools/call");
    const both = () =>
      service.collector.spans.filter((span) => span.traceId === traceId && span.name.startsWith("tools"));
    for (let tries = 0; both().length < 2 && tries < 500; tries += 1) await new Promise((done) => setTimeout(done, 10));
    expect(both().map(({ kind }) => kind)).to.have.members(["client", "server"]);
    return both();
  }
});

function codes(code: string): Record<string, string> {
  return { "error.type": code, "rpc.status_code": code };
}
