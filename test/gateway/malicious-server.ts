/* An upstream server that breaks the protocol: it speaks HTTP by hand, and counts what it receives. */
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

/** A JSON-RPC request as it arrives. */
export interface Asked {
  readonly id: string | number;
  readonly method: string;
  readonly params?: { readonly name?: string; readonly [member: string]: unknown };
}

/** Answers one request, or leaves it. */
export type Misbehaviour = (asked: Asked, response: ServerResponse) => void;

/** The server. */
export interface MaliciousServer {
  readonly url: string;
  /** What `tools/list` answers. */
  tools: readonly object[];
  /** Answers `tools/call`. */
  misbehave: Misbehaviour;
  /** Answers `tools/list` in place of the list; undefined: the list is answered. */
  onList: Misbehaviour | undefined;
  /** Answers a GET; undefined: there is no stream. */
  onGet: ((response: ServerResponse) => void) | undefined;
  /** Number of calls that arrived. */
  calls: number;
  close(): Promise<void>;
}

/** Sends a value as JSON. */
export function json(response: ServerResponse, value: unknown, status = 200): void {
  response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(value));
}

/** Begins a stream of events. */
export function stream(response: ServerResponse): (data: string) => void {
  response.writeHead(200, { "content-type": "text/event-stream" });
  return (data) => response.write(`data: ${data}\n\n`);
}

/** The result of a call that went well. */
export const fine = (id: unknown) => ({ jsonrpc: "2.0", id, result: { content: [{ type: "text", text: "fine" }] } });

async function bodyOf(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks).toString();
}

export async function startMaliciousServer(): Promise<MaliciousServer> {
  const answerOf = ({ id, method }: Asked): object => {
    const serverInfo = { name: "malicious", version: "1" };
    const capabilities = { tools: {} };
    if (method === "initialize") {
      return { jsonrpc: "2.0", id, result: { protocolVersion: "2025-11-25", capabilities, serverInfo } };
    }
    if (method === "tools/list") return { jsonrpc: "2.0", id, result: { tools: server.tools } };
    return { jsonrpc: "2.0", id, error: { code: -32_601, message: "none" } };
  };
  const http = createServer(async (request, response) => {
    if (request.method === "GET" && server.onGet !== undefined) return server.onGet(response);
    if (request.method !== "POST") return void response.writeHead(405).end();
    const asked = JSON.parse(await bodyOf(request)) as Asked;
    if (asked.id === undefined) response.writeHead(202).end();
    else if (asked.method === "tools/list" && server.onList !== undefined) server.onList(asked, response);
    else if (asked.method !== "tools/call") json(response, answerOf(asked));
    else {
      server.calls += 1;
      server.misbehave(asked, response);
    }
  });
  await new Promise<void>((resolve) => http.listen(0, "127.0.0.1", resolve));
  const server: MaliciousServer = {
    url: `http://127.0.0.1:${(http.address() as AddressInfo).port}/mcp`,
    tools: [],
    misbehave: ({ id }, response) => json(response, fine(id)),
    onList: undefined,
    onGet: undefined,
    calls: 0,
    close: () =>
      new Promise((resolve) => {
        http.close(() => resolve());
        http.closeAllConnections();
      }),
  };
  return server;
}
