/* An MCP server that keeps every message as it arrives, and answers what a test tells it to. It speaks HTTP by hand. */
import { createServer, type IncomingHttpHeaders, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

/** A message as it arrives. */
export interface Arrived {
  readonly id?: string | number;
  readonly method?: string;
  readonly params?: Readonly<Record<string, unknown>>;
  readonly [member: string]: unknown;
}

/** The server. */
export interface RecordingServer {
  readonly url: string;
  /** Messages that arrived, without those of connecting and listing tools. */
  readonly messages: Arrived[];
  /** Headers of every request that arrived. */
  readonly headers: IncomingHttpHeaders[];
  /** Methods of all messages that arrived. */
  readonly methods: string[];
  /** What `tools/list` answers. */
  tools: readonly object[];
  /** The rest of the response to a request: `{ result }` or `{ error }`, with messages that come before it on its stream. */
  answer: (asked: Arrived) => { result?: object; error?: object; before?: readonly object[] };
  /** Ends the HTTP response in the place of `answer`. Default: nothing does. */
  refuse: ((response: ServerResponse) => unknown) | undefined;
  close(): Promise<void>;
}

const CONNECTING = new Set(["initialize", "notifications/initialized", "server/discover", "tools/list"]);
const CAPABILITIES = { tools: {}, resources: { subscribe: true }, prompts: {}, completions: {}, tasks: {} };
const serverInfo = { name: "recording", version: "1" };

/** Tests for a request of the gateway's own, such as for the list of prompts. */
const isGateways = ({ id }: Arrived): boolean => String(id).startsWith("gateway-");

async function bodyOf(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks).toString();
}

/** Starts the server. `isStateless`: it speaks 2026-07-28 instead of the generation with sessions. */
export async function startRecordingServer(isStateless = false): Promise<RecordingServer> {
  const connected = ({ method }: Arrived): object => {
    const complete = isStateless ? { resultType: "complete", ttlMs: 0, cacheScope: "private" } : {};
    if (method === "tools/list") return { tools: server.tools, ...complete };
    return isStateless
      ? { resultType: "complete", supportedVersions: ["2026-07-28"], capabilities: CAPABILITIES, serverInfo }
      : { protocolVersion: "2025-11-25", capabilities: CAPABILITIES, serverInfo };
  };
  const respond = (response: ServerResponse, message: Arrived): void => {
    const { id, method = "" } = message;
    if (server.refuse !== undefined && !CONNECTING.has(method) && !isGateways(message)) {
      return void server.refuse(response);
    }
    const isKnown = method !== (isStateless ? "initialize" : "server/discover");
    const { before = [], ...rest } = CONNECTING.has(method)
      ? isKnown
        ? { result: connected(message) }
        : { error: { code: -32_022, message: "another generation" } }
      : isGateways(message)
        ? { error: { code: -32_601, message: "no such list" } }
        : server.answer(message);
    const headers = method === "initialize" ? { "mcp-session-id": `session-${++sessions}` } : {};
    const answer = { jsonrpc: "2.0", id, ...rest };
    if (before.length === 0) {
      response.writeHead(isKnown ? 200 : 400, { "content-type": "application/json", ...headers });
      return void response.end(JSON.stringify(answer));
    }
    response.writeHead(200, { "content-type": "text/event-stream" });
    for (const each of [...before, answer]) response.write(`data: ${JSON.stringify(each)}\n\n`);
    response.end();
  };
  let sessions = 0;
  const http = createServer(async (request, response) => {
    server.headers.push(request.headers);
    if (request.method !== "POST") return void response.writeHead(request.method === "DELETE" ? 200 : 405).end();
    const message = JSON.parse(await bodyOf(request)) as Arrived;
    server.methods.push(message.method ?? "");
    if (!CONNECTING.has(message.method ?? "") && !isGateways(message)) server.messages.push(message);
    if (message.id === undefined || message.method === undefined) return void response.writeHead(202).end();
    respond(response, message);
  });
  await new Promise<void>((resolve) => http.listen(0, "127.0.0.1", resolve));
  const server: RecordingServer = {
    url: `http://127.0.0.1:${(http.address() as AddressInfo).port}/mcp`,
    messages: [],
    headers: [],
    methods: [],
    tools: [{ name: "pay", inputSchema: { type: "object" } }],
    answer: () => ({ result: { resultType: "complete", content: [{ type: "text", text: "fine" }] } }),
    refuse: undefined,
    close: () =>
      new Promise((resolve) => {
        http.close(() => resolve());
        http.closeAllConnections();
      }),
  };
  return server;
}
