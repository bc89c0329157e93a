import { ElicitRequestSchema } from "@modelcontextprotocol/sdk/types.js";
import { createMcpHandler, inputRequired, McpServer } from "@modelcontextprotocol/server";
import { expect } from "chai";
import { asking, connectStateful, type GatewayService, startGateway } from "./harness.ts";
import { serveWeb, type WebServer } from "./web-server.ts";

type Result = { content: { text: string }[]; isError?: boolean };
const textOf = (result: unknown): string => (result as Result).content[0]?.text ?? "";
const said = (text: string) => ({ content: [{ type: "text" as const, text }] });

/** A server of the stateless generation alone. */
async function startStatelessServer(): Promise<WebServer> {
  const handler = createMcpHandler(
    () => {
      const server = new McpServer({ name: "newer", version: "1" }, { capabilities: { tools: {}, prompts: {} } });
      server.registerTool("hello", { description: "greets" }, async () => said("hello"));
      server.registerTool("slow", { description: "tells how far it is" }, async ({ mcpReq }) => {
        const progressToken = mcpReq._meta?.progressToken;
        const params = { progressToken, progress: 1, total: 2 };
        if (progressToken !== undefined) await mcpReq.notify({ method: "notifications/progress", params } as never);
        return said("done");
      });
      server.registerTool("name", { description: "asks for a name" }, (async ({ mcpReq }: never) => {
        const { inputResponses } = mcpReq as { inputResponses?: Record<string, { content?: { name?: string } }> };
        const name = inputResponses?.who?.content?.name;
        if (name !== undefined) return said(`hello, ${name}`);
        const requestedSchema = {
          type: "object",
          properties: { name: { type: "string" } },
          required: ["name"],
        } as const;
        return inputRequired({
          inputRequests: { who: inputRequired.elicit({ message: "Who?", requestedSchema } as never) },
        });
      }) as never);
      server.registerPrompt("greeting", { description: "a greeting" }, async () => ({
        messages: [{ role: "user", content: { type: "text", text: "hi" } }],
      }));
      return server;
    },
    { legacy: "reject" },
  );
  const web = await serveWeb((request) => handler.fetch(request));
  return {
    url: web.url,
    async close() {
      await handler.close();
      await web.close();
    },
  };
}

describe("a client with sessions in front of a server of both generations", () => {
  it("gets a session, since the probe asks for one with the headers that a stateless server demands.", async () => {
    await using cleanup = new AsyncDisposableStack();
    const gateway = await startGateway();
    cleanup.defer(async () => void (await gateway.stop()));
    const seen: { method: string; client: unknown; repeated: (string | null)[] }[] = [];
    const serverInfo = { name: "both", version: "1" };
    const results: Readonly<Record<string, object>> = {
      "server/discover": { resultType: "complete", supportedVersions: ["2026-07-28"], capabilities: {}, serverInfo },
      initialize: { protocolVersion: "2025-11-25", capabilities: { tools: {} }, serverInfo },
      "tools/list": { tools: [] },
    };
    const upstream = await serveWeb(async (request) => {
      if (request.method !== "POST") return new Response(null, { status: request.method === "DELETE" ? 200 : 405 });
      const { id, method, params } = (await request.json()) as { id?: number; method: string; params?: object };
      if (id === undefined) return new Response(null, { status: 202 });
      const repeated = ["mcp-protocol-version", "mcp-method"].map((name) => request.headers.get(name));
      const client = (params as { clientInfo?: { name?: string } } | undefined)?.clientInfo?.name;
      seen.push({ method, client, repeated });
      // Without them it takes the request for one of neither generation.
      if (client !== "test" && repeated.includes(null)) {
        const error = { code: -32_022, message: "the headers do not name version and method" };
        return Response.json({ jsonrpc: "2.0", id, error }, { status: 400 });
      }
      const session = method === "initialize" ? { "mcp-session-id": "one" } : undefined;
      return Response.json({ jsonrpc: "2.0", id, result: results[method] ?? {} }, session && { headers: session });
    });
    cleanup.defer(() => upstream.close());
    await gateway.add("both", { url: upstream.url });
    const client = await connectStateful(gateway.urlOf("both"), gateway.headers);
    cleanup.defer(() => client.close());
    const initialized = seen.filter(({ method }) => method === "initialize");
    expect(initialized[0]?.repeated).to.deep.equal(["2025-11-25", "initialize"]);
    // The client's own, not that of a bridge between generations.
    expect(initialized.at(-1)?.client).to.equal("test");
  });
});

describe("a client with sessions in front of a server that has none", () => {
  let gateway: GatewayService;
  let upstream: WebServer;
  before(async () => {
    upstream = await startStatelessServer();
    gateway = await startGateway();
    await gateway.add("newer", { url: upstream.url });
    await gateway.rest("POST /v1/enforce/mandates", {
      name: "no prompts of strangers",
      rules: [{ type: "action", decision: "block", conditions: { match_action_types: ["newer.none"] } }],
    });
  });
  after(async () => {
    await gateway?.stop();
    await upstream?.close();
  });

  it("lists, calls and prompts.", async () => {
    const client = await connectStateful(gateway.urlOf("newer"), gateway.headers);
    expect((await client.listTools()).tools.map(({ name }) => name)).to.deep.equal(["hello", "name", "slow"]);
    expect(textOf(await client.callTool({ name: "hello" }))).to.equal("hello");
    expect((await client.listPrompts()).prompts).to.have.length(1);
    await client.close();
  });

  it("hears of progress.", async () => {
    const client = await connectStateful(gateway.urlOf("newer"), gateway.headers);
    const seen: number[] = [];
    const onprogress = ({ progress }: { progress: number }) => seen.push(progress);
    expect(textOf(await client.callTool({ name: "slow" }, undefined, { onprogress }))).to.equal("done");
    expect(seen).to.include(1);
    await client.close();
  });

  it("is asked in its session for what the server requires.", async () => {
    const client = await connectStateful(gateway.urlOf("newer"), gateway.headers, { elicitation: {} });
    client.setRequestHandler(ElicitRequestSchema, () => ({ action: "accept" as const, content: { name: "Ada" } }));
    expect(textOf(await client.callTool({ name: "name" }))).to.equal("hello, Ada");
    await client.close();
  });

  it("gets a plain error where it cannot give what the server requires.", async () => {
    const client = asking(await connectStateful(gateway.urlOf("newer"), gateway.headers));
    const request = { method: "tools/call", params: { name: "name", arguments: {} } };
    const error = await client.request(request).catch((each: Error) => each);
    expect(error).to.be.instanceOf(Error);
    expect((error as Error).message).to.match(/elicitation|capabilit/i);
    await client.close();
  });
});
