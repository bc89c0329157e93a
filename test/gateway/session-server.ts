/* An MCP server of the generation with sessions, whose tools ask their client for input. */
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { Server } from "@modelcontextprotocol/sdk/server/index.js";
import { StreamableHTTPServerTransport } from "@modelcontextprotocol/sdk/server/streamableHttp.js";
import type { Transport } from "@modelcontextprotocol/sdk/shared/transport.js";
import { CallToolRequestSchema, ListToolsRequestSchema } from "@modelcontextprotocol/sdk/types.js";

/** The server. */
export interface SessionServer {
  readonly url: string;
  /** Names of the tools that were called, in their order. */
  readonly calls: string[];
  /** Number of calls of `slow` that run. */
  slow: number;
  /** Names of the tools whose calls were cancelled, in their order. */
  readonly cancelled: string[];
  close(): Promise<void>;
}

const said = (text: string) => ({ content: [{ type: "text" as const, text }] });
const NAME = { type: "object" as const, properties: { name: { type: "string" as const } }, required: ["name"] };

export async function startSessionServer(): Promise<SessionServer> {
  const sessions = new Map<string, StreamableHTTPServerTransport>();
  const asksFor = async (server: Server, message: string): Promise<string> => {
    const { action, content } = await server.elicitInput({ message, requestedSchema: NAME });
    return action === "accept" ? String(content?.name) : action;
  };
  const create = (): Server => {
    const server = new Server({ name: "asking", version: "1" }, { capabilities: { tools: {} } });
    type Args = Readonly<Record<string, unknown>>;
    const tools: Readonly<Record<string, (args: Args, signal: AbortSignal) => Promise<string>>> = {
      hello: async () => "hello",
      name: async ({ title = "" }) => `hello, ${title}${await asksFor(server, "Who?")}`,
      pair: async () => `${await asksFor(server, "First?")} and ${await asksFor(server, "Second?")}`,
      both: async () => (await Promise.all([asksFor(server, "First?"), asksFor(server, "Second?")])).join(" and "),
      slow: async (_args, signal) => {
        await asksFor(server, "Who?");
        served.slow += 1;
        await once(signal, "abort");
        return "cancelled";
      },
      sample: async () => {
        const messages = [{ role: "user" as const, content: { type: "text" as const, text: "a word" } }];
        const { content } = await server.createMessage({ messages, maxTokens: 10 });
        return JSON.stringify(content);
      },
      roots: async () => (await server.listRoots()).roots.map(({ uri }) => uri).join(),
    };
    server.setRequestHandler(ListToolsRequestSchema, () => {
      const { elicitation, sampling, roots } = server.getClientCapabilities() ?? {};
      const listed = [
        "hello",
        ...(elicitation === undefined ? [] : ["name", "pair", "both", "slow"]),
        ...(sampling === undefined ? [] : ["sample"]),
        ...(roots === undefined ? [] : ["roots"]),
      ];
      return { tools: listed.map((name) => ({ name, inputSchema: { type: "object" as const } })) };
    });
    server.setRequestHandler(CallToolRequestSchema, async ({ params }, { signal }) => {
      served.calls.push(params.name);
      signal.addEventListener("abort", () => served.cancelled.push(params.name));
      return said((await tools[params.name]?.(params.arguments ?? {}, signal)) ?? "no such tool");
    });
    return server;
  };
  const web = createServer(async (request, response) => {
    const known = sessions.get(String(request.headers["mcp-session-id"]));
    if (known !== undefined) return known.handleRequest(request, response);
    const transport: StreamableHTTPServerTransport = new StreamableHTTPServerTransport({
      sessionIdGenerator: () => randomUUID(),
      onsessioninitialized: (id) => void sessions.set(id, transport),
    });
    await create().connect(transport as Transport);
    return transport.handleRequest(request, response);
  });
  await new Promise<void>((resolve) => web.listen(0, "127.0.0.1", resolve));
  const { port } = web.address() as AddressInfo;
  const served: SessionServer = {
    url: `http://127.0.0.1:${port}/mcp`,
    calls: [],
    slow: 0,
    cancelled: [],
    close: () =>
      new Promise((resolve) => {
        web.close(() => resolve());
        web.closeAllConnections();
      }),
  };
  return served;
}
