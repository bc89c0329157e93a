import type { IncomingMessage } from "node:http";
import type { JsonObject } from "@bufbuild/protobuf";
import { isJsonObject, ownValue } from "../policy/json-value.ts";
import { type TracePlace, traceContextFrom } from "../tracing/trace-context.ts";
import type { Generation } from "./endpoint.ts";
import { disagreement, headerOf, parameterHeaders, passedHeaders, standardHeaders } from "./headers.ts";
import { isRequest, RPC_CODES, type RpcId, type RpcMessage, rpcMessageFrom } from "./messages.ts";

/** A client's message as it came, before anything is known about its caller's session. */
export interface Incoming {
  readonly message: RpcMessage;
  readonly generation: Generation;
  /** Headers for the upstream server. */
  readonly headers: Readonly<Record<string, string>>;
  /** Headers in which the client repeats arguments of a call. */
  readonly parameters: Readonly<Record<string, string>>;
}

/** Response to a body that is no usable message. */
export interface Refusal {
  readonly status: number;
  readonly body: object;
}

/** Reads the message of a request from its parsed body, and compares the request's headers with it. */
export async function incomingFrom(request: IncomingMessage, value: unknown): Promise<Incoming | Refusal> {
  if (Array.isArray(value)) return invalid("batches are not supported; send one message per request");
  const message = rpcMessageFrom(value);
  if (message === undefined) return invalid("the body is not a JSON-RPC 2.0 message");
  const id = isRequest(message) ? message.id : null;
  // Loaded with the first server: a process without any does not hold it.
  const { classifyInboundRequest } = await import("@modelcontextprotocol/server");
  const outcome = classifyInboundRequest({ httpMethod: "POST", ...standardHeaders(request), body: value });
  if (outcome.kind === "reject") {
    const { httpStatus, code, message: text, data } = outcome;
    return { status: httpStatus, body: errorBody(code, text, data as JsonObject | undefined, id) };
  }
  const disagreeing = disagreement(request, message);
  if (disagreeing !== undefined) {
    return { status: 400, body: errorBody(RPC_CODES.headerMismatch, disagreeing, undefined, id) };
  }
  return {
    message,
    generation: outcome.kind === "modern" ? "stateless" : "stateful",
    headers: passedHeaders(request, message),
    parameters: parameterHeaders(request),
  };
}

/** Returns the trace context of a message: that of its `_meta`, else that of its HTTP request. Undefined if there is none. */
export function traceOf(request: IncomingMessage, { message }: Pick<Incoming, "message">): TracePlace | undefined {
  const meta = "method" in message ? ownValue(message.params ?? {}, "_meta") : undefined;
  const ofMessage = isJsonObject(meta)
    ? traceContextFrom(ownValue(meta, "traceparent"), ownValue(meta, "tracestate"))
    : undefined;
  return ofMessage ?? traceContextFrom(headerOf(request, "traceparent"), headerOf(request, "tracestate"));
}

/** Creates an error, as a rule without the id of a request. */
export function errorBody(code: number, message: string, data?: JsonObject, id: RpcId | null = null): object {
  return { jsonrpc: "2.0", id, error: { code, message, ...(data === undefined ? {} : { data }) } };
}

const invalid = (text: string): Refusal => ({ status: 400, body: errorBody(RPC_CODES.invalidRequest, text) });
