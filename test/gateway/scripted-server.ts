/* An MCP server of the generation with sessions whose every answer is written by the test, byte by byte. */
import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";

/** A message as it arrives. */
export interface Received {
  readonly id?: string | number;
  readonly method?: string;
  readonly params?: Readonly<Record<string, unknown>>;
}

/** The server. */
export interface ScriptedServer {
  readonly url: string;
  /** What `tools/list` answers. */
  tools: readonly object[];
  /** Members of the response to `initialize`, beside the usual ones. */
  about: object;
  /** Answers the gateway's own requests for lists of anything but tools. */
  answerList: (received: Received, response: ServerResponse) => void;
  /** Answers any other request. */
  answer: (received: Received, response: ServerResponse) => void;
  /** Sends a message on the stream of the server's own messages; undefined until a client has opened it. */
  sendOwn: ((message: object) => void) | undefined;
  close(): Promise<void>;
}

/** Sends a value as JSON. */
export function sendJson(response: ServerResponse, value: unknown, status = 200): void {
  response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(value));
}

/** Begins a stream of events. */
export function beginStream(response: ServerResponse): (message: object) => void {
  response.writeHead(200, { "content-type": "text/event-stream" });
  response.flushHeaders();
  return (message) => response.write(`data: ${JSON.stringify(message)}\n\n`);
}

export async function startScriptedServer(): Promise<ScriptedServer> {
  const http = createServer(async (request, response) => {
    if (request.method === "GET") {
      server.sendOwn = beginStream(response);
      return;
    }
    if (request.method !== "POST") return void response.writeHead(405).end();
    const received = JSON.parse(await text(request)) as Received;
    const { id, method } = received;
    const reply = (result: object) => sendJson(response, { jsonrpc: "2.0", id, result });
    if (id === undefined) response.writeHead(202).end();
    else if (method === "initialize") {
      const capabilities = { tools: {}, prompts: {}, resources: {}, completions: {}, logging: {} };
      const serverInfo = { name: "scripted", version: "1.2.3.4" };
      reply({ protocolVersion: "2025-11-25", capabilities, serverInfo, ...server.about });
    } else if (method === "tools/list") reply({ tools: server.tools });
    else if (String(id).startsWith("gateway-")) server.answerList(received, response);
    else server.answer(received, response);
  });
  await new Promise<void>((resolve) => http.listen(0, "127.0.0.1", resolve));
  const server: ScriptedServer = {
    url: `http://127.0.0.1:${(http.address() as AddressInfo).port}/mcp`,
    tools: [{ name: "read", inputSchema: { type: "object" } }],
    about: {},
    answerList: ({ id }, response) =>
      sendJson(response, { jsonrpc: "2.0", id, error: { code: -32_601, message: "no such list" } }),
    answer: ({ id }, response) => sendJson(response, { jsonrpc: "2.0", id, result: {} }),
    sendOwn: undefined,
    close: () =>
      new Promise((resolve) => {
        http.close(() => resolve());
        http.closeAllConnections();
      }),
  };
  return server;
}
