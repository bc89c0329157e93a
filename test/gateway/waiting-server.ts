/* A small MCP server with sessions, over HTTP and without the official package, so that hundreds of sessions cost little. */
import { randomUUID } from "node:crypto";
import { serveWeb, type WebServer } from "./web-server.ts";

/** The server. Its tool `hello` answers at once, its tool `wait` once it may. */
export interface WaitingServer extends WebServer {
  /** Ids of the sessions that were opened, and of those that were ended. */
  readonly opened: string[];
  readonly ended: string[];
  /** Sessions whose calls of `wait` run. */
  readonly waiting: string[];
  /** Lets every call of `wait` go on, those that come later too until the next `hold`. */
  release(): void;
  hold(): void;
}

interface Message {
  readonly id?: number | string;
  readonly method: string;
  readonly params?: { readonly name?: string };
}

const TOOLS = ["hello", "wait"].map((name) => ({ name, description: name, inputSchema: { type: "object" } }));

export async function startWaitingServer(): Promise<WaitingServer> {
  let gate = Promise.withResolvers<void>();
  const text = (said: string) => ({ content: [{ type: "text", text: said }] });
  const call = async (session: string, name: string | undefined) => {
    if (name !== "wait") return text("hello");
    served.waiting.push(session);
    await gate.promise;
    served.waiting.splice(served.waiting.indexOf(session), 1);
    return text("waited");
  };
  const resultOf = (session: string, { method, params }: Message): object | Promise<object> | undefined => {
    const serverInfo = { name: "waiting", version: "1" };
    if (method === "initialize") return { protocolVersion: "2025-11-25", capabilities: { tools: {} }, serverInfo };
    if (method === "tools/list") return { tools: TOOLS };
    if (method === "tools/call") return call(session, params?.name);
    return method === "ping" ? {} : undefined;
  };
  const web = await serveWeb(async (request) => {
    const given = request.headers.get("mcp-session-id");
    if (request.method === "DELETE") served.ended.push(given ?? "");
    if (request.method !== "POST") return new Response(null, { status: request.method === "DELETE" ? 200 : 405 });
    const message = (await request.json()) as Message;
    if (message.id === undefined) return new Response(null, { status: 202 });
    const session = given ?? randomUUID();
    const result = await resultOf(session, message);
    const error = { code: -32_601, message: "unknown method" };
    const answer = { jsonrpc: "2.0", id: message.id, ...(result === undefined ? { error } : { result }) };
    if (message.method === "initialize") served.opened.push(session);
    return Response.json(answer, { headers: message.method === "initialize" ? { "mcp-session-id": session } : {} });
  });
  const served: WaitingServer = {
    ...web,
    opened: [],
    ended: [],
    waiting: [],
    release: () => gate.resolve(),
    hold() {
      gate = Promise.withResolvers();
    },
  };
  return served;
}
