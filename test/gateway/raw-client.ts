/* A client that writes messages by hand, in either generation. */
import { encodedHeader } from "../../src/gateway/headers.ts";
import type { GatewayService } from "./harness.ts";

/** What came back. */
export interface Raw {
  readonly status: number;
  readonly text: string;
  readonly headers: Headers;
  /** The last message of the response. */
  readonly body: {
    readonly id?: unknown;
    readonly result?: Record<string, unknown>;
    readonly error?: { code: number; message: string; data?: Record<string, unknown> };
  };
}

/** A client of one agent. */
export interface RawClient {
  readonly agentId: string;
  /** Sends a text or a value, in the session if there is one. */
  send(body: unknown, headers?: Readonly<Record<string, string>>): Promise<Raw>;
  /** Sends a request. */
  ask(method: string, params?: object, headers?: Readonly<Record<string, string>>): Promise<Raw>;
}

/** The generations, as tests name them. */
export const GENERATIONS = ["with sessions", "stateless"] as const;
/** A generation. */
export type GenerationName = (typeof GENERATIONS)[number];

const ACCEPT = { accept: "application/json, text/event-stream", "content-type": "application/json" };
export const INITIALIZE = {
  jsonrpc: "2.0",
  id: 0,
  method: "initialize",
  params: { protocolVersion: "2025-11-25", capabilities: {}, clientInfo: { name: "test", version: "1" } },
};
export const ENVELOPE = {
  "io.modelcontextprotocol/protocolVersion": "2026-07-28",
  "io.modelcontextprotocol/clientInfo": { name: "test", version: "1" },
  "io.modelcontextprotocol/clientCapabilities": {},
};

/** Posts a body. */
export async function post(url: URL, headers: Readonly<Record<string, string>>, body: unknown): Promise<Raw> {
  const text = typeof body === "string" ? body : JSON.stringify(body);
  const response = await fetch(url, { method: "POST", headers: { ...ACCEPT, ...headers }, body: text });
  const answer = await response.text();
  const last = answer.startsWith("{") ? answer : ([...answer.matchAll(/^data: (.+)$/gm)].at(-1)?.[1] ?? "{}");
  return { status: response.status, text: answer, headers: response.headers, body: JSON.parse(last) };
}

/** Opens a client of a new agent, or of `agentId`. */
export async function openRaw(
  gateway: GatewayService,
  server: string,
  generation: GenerationName,
  agentId?: string,
): Promise<RawClient> {
  const url = gateway.urlOf(server);
  const agent = agentId ?? (await gateway.agent());
  const who = { ...gateway.headers, "x-agent-id": agent };
  let lastId = 0;
  if (generation === "with sessions") {
    const opened = await post(url, who, INITIALIZE);
    const session = { ...who, "mcp-session-id": opened.headers.get("mcp-session-id") ?? "" };
    await post(url, session, { jsonrpc: "2.0", method: "notifications/initialized" });
    const send: RawClient["send"] = (body, headers = {}) => post(url, { ...session, ...headers }, body);
    const ask: RawClient["ask"] = (method, params, headers) =>
      send({ jsonrpc: "2.0", id: ++lastId, method, ...(params === undefined ? {} : { params }) }, headers);
    return { agentId: agent, send, ask };
  }
  const own = { ...who, "mcp-protocol-version": "2026-07-28" };
  const send: RawClient["send"] = (body, headers = {}) => post(url, { ...own, ...headers }, body);
  const ask: RawClient["ask"] = (method, params = {}, headers = {}) => {
    const { name, uri, taskId, _meta } = params as Record<string, unknown>;
    const named = name ?? uri ?? taskId;
    const repeated = typeof named === "string" ? { "mcp-name": encodedHeader(named) } : {};
    const envelope = { ...ENVELOPE, ...(_meta as object | undefined) };
    return send(
      { jsonrpc: "2.0", id: ++lastId, method, params: { ...params, _meta: envelope } },
      { "mcp-method": method, ...repeated, ...headers },
    );
  };
  return { agentId: agent, send, ask };
}

/** The decision in a result or an error. */
export const decisionIn = ({ body }: Raw): Record<string, unknown> | undefined => {
  const { result, error } = body;
  const holder = error === undefined ? (result?._meta as Record<string, unknown> | undefined) : error.data;
  return holder?.["agentcontrol.v1/decision"] as Record<string, unknown> | undefined;
};
