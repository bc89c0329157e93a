/* An MCP server that speaks HTTP by hand, with every kind of definition, each of which a test may change or break. */
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import type { Asked } from "./malicious-server.ts";

/** Methods that list definitions, with the member of their result. */
export const LISTED = {
  "tools/list": "tools",
  "prompts/list": "prompts",
  "resources/list": "resources",
  "resources/templates/list": "resourceTemplates",
} as const;

export type ListMethod = keyof typeof LISTED;

/** The server. */
export interface DefinitionsServer {
  readonly url: string;
  instructions: string | undefined;
  /** What it lists, on one page. */
  readonly lists: Record<ListMethod, object[]>;
  /** Answers a request in place of the list or the result; undefined: it is answered as ever. */
  answer: ((asked: Asked) => object | undefined) | undefined;
  /** Waits before a list is answered. */
  beforeList: () => Promise<void>;
  /** Methods of the requests that arrived, in their order. */
  readonly asked: string[];
  /** Most lists that were asked for at one time. */
  mostLists: number;
  /** True if it keeps sessions. */
  hasSessions: boolean;
  /** Sends a notification on the stream that was opened first. */
  notify(method: string): void;
  /** Number of open streams. */
  readonly streams: number;
  close(): Promise<void>;
}

async function bodyOf(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks).toString();
}

export async function startDefinitionsServer(
  lists: Partial<Record<ListMethod, object[]>> = {},
): Promise<DefinitionsServer> {
  const streams = new Set<ServerResponse>();
  let inFlight = 0;
  let sessions = 0;
  const resultOf = (asked: Asked): object => {
    const { method, params } = asked;
    const own = server.answer?.(asked);
    if (own !== undefined) return own;
    const member = LISTED[method as ListMethod];
    if (member !== undefined) return { [member]: server.lists[method as ListMethod] };
    const text = `${String(params?.name ?? params?.uri)} ran`;
    switch (method) {
      case "initialize":
        return {
          protocolVersion: "2025-11-25",
          capabilities: { tools: { listChanged: true }, prompts: {}, resources: {} },
          serverInfo: { name: "definitions", version: "1" },
          ...(server.instructions === undefined ? {} : { instructions: server.instructions }),
        };
      case "tools/call":
        return { content: [{ type: "text", text }] };
      case "prompts/get":
        return { messages: [{ role: "user", content: { type: "text", text } }] };
      case "resources/read":
        return { contents: [{ uri: params?.uri, text }] };
      default:
        return {};
    }
  };
  const http = createServer(async (request, response) => {
    if (request.method === "GET") {
      response.writeHead(200, { "content-type": "text/event-stream" }).flushHeaders();
      streams.add(response);
      response.once("close", () => streams.delete(response));
      return;
    }
    if (request.method !== "POST") return void response.writeHead(200).end();
    const asked = JSON.parse(await bodyOf(request)) as Asked;
    if (asked.id === undefined) return void response.writeHead(202).end();
    server.asked.push(asked.method);
    const isList = asked.method in LISTED;
    if (isList) {
      inFlight += 1;
      server.mostLists = Math.max(server.mostLists, inFlight);
      await server.beforeList();
      inFlight -= 1;
    }
    if (asked.method === "server/discover") {
      const error = { code: -32_601, message: "none" };
      return void send(response, { jsonrpc: "2.0", id: asked.id, error }, {});
    }
    const session = asked.method === "initialize" && server.hasSessions;
    if (session) sessions += 1;
    const headers = session ? { "mcp-session-id": `session-${sessions}` } : {};
    send(response, { jsonrpc: "2.0", id: asked.id, result: resultOf(asked) }, headers);
  });
  await new Promise<void>((resolve) => http.listen(0, "127.0.0.1", resolve));
  const server: DefinitionsServer = {
    url: `http://127.0.0.1:${(http.address() as AddressInfo).port}/mcp`,
    instructions: undefined,
    lists: {
      "tools/list": [],
      "prompts/list": [],
      "resources/list": [],
      "resources/templates/list": [],
      ...lists,
    },
    answer: undefined,
    beforeList: async () => undefined,
    asked: [],
    mostLists: 0,
    hasSessions: false,
    get streams() {
      return streams.size;
    },
    notify(method) {
      const [stream] = streams;
      stream?.write(`data: ${JSON.stringify({ jsonrpc: "2.0", method })}\n\n`);
    },
    close: () =>
      new Promise((resolve) => {
        http.close(() => resolve());
        http.closeAllConnections();
      }),
  };
  return server;
}

function send(response: ServerResponse, message: object, headers: Readonly<Record<string, string>>): void {
  response.writeHead(200, { "content-type": "application/json", ...headers }).end(JSON.stringify(message));
}
