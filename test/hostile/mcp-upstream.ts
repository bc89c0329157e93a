/* MCP servers of both generations that keep every message as it arrives: one for each path. They speak HTTP by hand. */
import { createServer, type IncomingHttpHeaders, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";

/** A generation of the protocol. */
export type Generation = "stateful" | "stateless";

/** A request of HTTP as it arrives. */
export interface Arrival {
  readonly generation: Generation;
  readonly headers: IncomingHttpHeaders;
  /** Undefined for a request that is no POST. */
  readonly message: Arrived | undefined;
}

/** A message of JSON-RPC. */
export interface Arrived {
  readonly id?: unknown;
  readonly method?: string;
  readonly params?: Readonly<Record<string, unknown>>;
  readonly [member: string]: unknown;
}

/** The servers. */
export interface McpUpstream {
  /** The address of a server. */
  urlOf(name: string, generation: Generation): string;
  /** Arrivals at a server, without those of connecting and listing. */
  arrivedAt(name: string): Arrival[];
  /** Sessions that were opened and not ended. */
  readonly sessions: ReadonlySet<string>;
  close(): Promise<void>;
}

/** A tool that repeats `amount` in a header. */
const PAY = {
  type: "object",
  properties: { amount: { type: "number", "x-mcp-header": "Amount" }, note: { type: "string" } },
};
/** Tools of each server. */
const TOOLS = [
  { name: "pay", inputSchema: PAY },
  ...["read", "shred", "wire", "task"].map((name) => ({ name, inputSchema: { type: "object" } })),
];
const CAPABILITIES = { tools: {}, resources: { subscribe: true }, prompts: {}, completions: {}, tasks: {} };
const serverInfo = { name: "recording", version: "1" };
const COMPLETE = { resultType: "complete" };
/** Requests of the gateway's own: connecting and listing. */
const CONNECTING = new Set([
  "initialize",
  "notifications/initialized",
  "server/discover",
  "tools/list",
  "prompts/list",
  "resources/list",
  "resources/templates/list",
]);
/** Lists of each server beside its tools. Clients may use prompts and resources that stand in none. */
const LISTS: Readonly<Record<string, object>> = {
  "prompts/list": { prompts: [{ name: "greet" }] },
  "resources/list": { resources: [] },
  "resources/templates/list": { resourceTemplates: [] },
};

/** The result of a request. A call of `task` makes a task of the id that its arguments name. */
function resultOf({ method, params = {} }: Arrived, generation: Generation): object {
  const isStateless = generation === "stateless";
  const task = (taskId: unknown) => ({ taskId, status: "working", ttl: 1, createdAt: "", lastUpdatedAt: "" });
  if (method === "tools/list") return { tools: TOOLS, ...(isStateless ? COMPLETE : {}) };
  const listed = LISTS[method ?? ""];
  if (listed !== undefined) return { ...listed, ...(isStateless ? COMPLETE : {}) };
  if (method === "server/discover") {
    return { ...COMPLETE, supportedVersions: ["2026-07-28"], capabilities: CAPABILITIES, serverInfo };
  }
  if (method === "initialize") return { protocolVersion: "2025-11-25", capabilities: CAPABILITIES, serverInfo };
  if (method === "tools/call" && params.name === "task") {
    const { taskId } = params.arguments as { taskId?: unknown };
    return isStateless ? { resultType: "task", ...task(taskId) } : { task: task(taskId) };
  }
  if (method?.startsWith("tasks/")) return { ...COMPLETE, ...task(params.taskId), tasks: [] };
  return { ...COMPLETE, content: [{ type: "text", text: "fine" }], contents: [], messages: [] };
}

/** Starts the servers. */
export async function startMcpUpstream(): Promise<McpUpstream> {
  const arrivals = new Map<string, Arrival[]>();
  const sessions = new Set<string>();
  let lastSession = 0;
  const arrivedAt = (name: string): Arrival[] => {
    const known = arrivals.get(name) ?? [];
    arrivals.set(name, known);
    return known;
  };
  const respond = (response: ServerResponse, message: Arrived, generation: Generation): void => {
    const { id, method = "" } = message;
    const isForeign = method === (generation === "stateless" ? "initialize" : "server/discover");
    const session = `session-${++lastSession}`;
    if (method === "initialize" && !isForeign) sessions.add(session);
    const own = method === "initialize" && !isForeign ? { "mcp-session-id": session } : {};
    const rest = isForeign ? { error: { code: -32_022, message: "another generation" } } : undefined;
    response.writeHead(isForeign ? 400 : 200, { "content-type": "application/json", ...own });
    response.end(JSON.stringify({ jsonrpc: "2.0", id, ...(rest ?? { result: resultOf(message, generation) }) }));
  };
  const http = createServer(async (request, response) => {
    const [, name = "", generation = ""] = (request.url ?? "").split("/");
    const { headers, method } = request;
    const body = await text(request);
    if (method === "DELETE") sessions.delete(String(headers["mcp-session-id"]));
    const message = method === "POST" ? (JSON.parse(body) as Arrived) : undefined;
    if (!CONNECTING.has(message?.method ?? "") && method !== "DELETE" && method !== "GET") {
      arrivedAt(name).push({ generation: generation as Generation, headers, message });
    }
    if (message === undefined) return void response.writeHead(method === "DELETE" ? 200 : 405).end();
    if (message.id === undefined || message.method === undefined) return void response.writeHead(202).end();
    respond(response, message, generation as Generation);
  });
  await new Promise<void>((resolve) => http.listen(0, "127.0.0.1", resolve));
  const { port } = http.address() as AddressInfo;
  return {
    urlOf: (name, generation) => `http://127.0.0.1:${port}/${name}/${generation}`,
    arrivedAt,
    sessions,
    close: () =>
      new Promise((resolve) => {
        http.close(() => resolve());
        http.closeAllConnections();
      }),
  };
}
