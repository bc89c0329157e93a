import type { IncomingMessage } from "node:http";
import type { JsonObject } from "@bufbuild/protobuf";
import { isJsonObject, ownValue } from "../policy/json-value.ts";
import { TABLE_METHODS } from "../registry/mcp-methods.ts";
import type { McpServer } from "../registry/mcp-servers.ts";
import { type TracePlace, traceparentOf } from "../tracing/trace-context.ts";
import { errorTypeOf, type Span, type Tracing } from "../tracing/tracing.ts";
import type { Incoming } from "./incoming.ts";
import type { RpcMessage, RpcOutcome } from "./messages.ts";
import type { Reply } from "./reply.ts";

const KNOWN: ReadonlySet<string> = new Set([...TABLE_METHODS, "initialize", "ping"]);

/** Returns the name of a method for spans: callers may send any text as a method. */
const methodOf = (method: string): string => (KNOWN.has(method) ? method : "_OTHER");

/**
 * Serves a message of a client in a span of its own, unless nothing is recorded. `trace` is the place that its client sent. The span
 * tells the error in the reply.
 */
export async function traced(
  tracing: Tracing | undefined,
  { message }: Pick<Incoming, "message">,
  trace: TracePlace | undefined,
  request: IncomingMessage,
  {
    reply,
    serve,
  }: { readonly reply: Reply; readonly serve: (place: TracePlace | undefined, span?: Span) => Promise<void> },
): Promise<void> {
  if (tracing === undefined || !("method" in message)) return serve(trace);
  const method = methodOf(message.method);
  const transport = request.httpVersion;
  const attributes = {
    "mcp.method.name": method,
    "network.transport": "tcp",
    "network.protocol.name": "http",
    "network.protocol.version": transport,
  };
  const span = tracing.start(method, { kind: "server", parent: trace, attributes });
  try {
    await serve(span.isSampled ? span : trace, span);
    const { status, outcome } = reply;
    if (outcome !== undefined) endWithOutcome(span, outcome);
    else span.end(status >= 400 ? String(status) : undefined);
  } catch (error) {
    span.end(errorTypeOf(error));
    throw error;
  }
}

/**
 * Begins the span of a request to a server; undefined if nothing is recorded. A tool is named, because only tools that are in
 * force are called.
 */
export function startRequestSpan(
  tracing: Tracing | undefined,
  { name, url }: McpServer,
  trace: TracePlace | undefined,
  message: RpcMessage,
): Span | undefined {
  if (tracing === undefined || !("method" in message)) return undefined;
  const method = methodOf(message.method);
  const tool = method === "tools/call" ? toolOf(message.params) : undefined;
  const attributes = {
    "mcp.method.name": method,
    "agentcontrol.mcp_server": name,
    "network.transport": url === null ? "pipe" : "tcp",
    "server.address": url === null ? undefined : new URL(url).hostname,
  };
  const span = tracing.start(method, { kind: "client", parent: trace, attributes });
  if (tool !== undefined) nameTool(span, tool);
  return span;
}

/** Names the tool that a call is for, which MUST be in force: callers may send any text as a name. */
export function nameTool(span: Span, tool: string): void {
  span.rename(`tools/call ${tool}`);
  span.set({ "gen_ai.tool.name": tool, "gen_ai.operation.name": "execute_tool" });
}

function toolOf(params: JsonObject | undefined): string | undefined {
  const name = ownValue(params ?? {}, "name");
  return typeof name === "string" ? name : undefined;
}

/** Returns a message and headers in which the span stands in the place of the caller's trace context. */
export function withPlace<T extends RpcMessage>(
  message: T,
  headers: Readonly<Record<string, string>>,
  place: TracePlace | undefined,
): { readonly message: T; readonly headers: Readonly<Record<string, string>> } {
  if (place === undefined || !("method" in message)) return { message, headers };
  const context = {
    traceparent: traceparentOf(place),
    ...(place.state === undefined ? {} : { tracestate: place.state }),
  };
  const params = message.params ?? {};
  const given = ownValue(params, "_meta");
  const { traceparent: _, tracestate: __, ...meta } = isJsonObject(given) ? given : {};
  const { traceparent: ___, tracestate: ____, ...others } = headers;
  return {
    message: { ...message, params: { ...params, _meta: { ...meta, ...context } } },
    headers: { ...others, ...context },
  };
}

/** Ends the span of a request that was answered. */
export function endWithOutcome(span: Span, { code, isToolError }: RpcOutcome): void {
  const status = code === undefined ? undefined : String(code);
  span.set({ "rpc.status_code": status });
  span.end(status ?? (isToolError ? "tool_error" : undefined));
}
