import type { JsonObject, JsonValue } from "@bufbuild/protobuf";
import type { EventSourceMessage } from "eventsource-parser";
import { controlPlaneErrorFrom, ErrorReason, httpStatusFromReason } from "../errors.ts";
import { isJsonObject } from "../policy/json-value.ts";

/** Id of a JSON-RPC request. */
export type RpcId = string | number;

/** A JSON-RPC 2.0 request. */
export interface RpcRequest {
  readonly jsonrpc: "2.0";
  readonly id: RpcId;
  readonly method: string;
  readonly params?: JsonObject;
}

/** A JSON-RPC 2.0 notification. */
export interface RpcNotification {
  readonly jsonrpc: "2.0";
  readonly method: string;
  readonly params?: JsonObject;
}

/** A JSON-RPC 2.0 response: a result or an error. */
export interface RpcResponse {
  readonly jsonrpc: "2.0";
  readonly id: RpcId;
  readonly result?: JsonObject;
  readonly error?: { readonly code: number; readonly message: string; readonly data?: JsonValue };
}

/** Any JSON-RPC 2.0 message. */
export type RpcMessage = RpcRequest | RpcNotification | RpcResponse;

/** Error codes of JSON-RPC 2.0 and of MCP. */
export const RPC_CODES = {
  parseError: -32_700,
  invalidRequest: -32_600,
  methodNotFound: -32_601,
  invalidParams: -32_602,
  internal: -32_603,
  server: -32_000,
  headerMismatch: -32_020,
  missingCapability: -32_021,
} as const;

const isId = (value: unknown): value is RpcId =>
  typeof value === "string" || (typeof value === "number" && Number.isSafeInteger(value));

export const isRequest = (message: RpcMessage): message is RpcRequest => "method" in message && "id" in message;
export const isResponse = (message: RpcMessage): message is RpcResponse => !("method" in message);

/** How a request ended, without its contents. */
export interface RpcOutcome {
  /** Code of the error; undefined for a result. */
  readonly code: number | undefined;
  /** True for a result that tells that a tool failed, or that its call was refused. */
  readonly isToolError: boolean;
}

/** Returns how a response says that its request ended. */
export const outcomeOf = ({ error, result }: RpcResponse): RpcOutcome => ({
  code: error?.code,
  isToolError: result?.isError === true,
});

/** Returns the value as a JSON-RPC message; undefined for any other value. */
export function rpcMessageFrom(value: unknown): RpcMessage | undefined {
  if (!isJsonObject(value as JsonValue)) return undefined;
  const { jsonrpc, id, method, params, result, error } = value as Record<string, unknown>;
  if (jsonrpc !== "2.0" || (id !== undefined && !isId(id))) return undefined;
  if (method !== undefined) {
    const isBoth = result !== undefined || error !== undefined;
    const isMeant =
      typeof method === "string" && !isBoth && (params === undefined || isJsonObject(params as JsonValue));
    return isMeant ? (value as unknown as RpcMessage) : undefined;
  }
  if (id === undefined || (result === undefined) === (error === undefined)) return undefined;
  if (result !== undefined) return isJsonObject(result as JsonValue) ? (value as unknown as RpcMessage) : undefined;
  const { code, message } = (isJsonObject(error as JsonValue) ? error : {}) as Record<string, unknown>;
  return Number.isInteger(code) && typeof message === "string" ? (value as unknown as RpcMessage) : undefined;
}

/** Creates a response with a result. */
export const createResult = (id: RpcId, result: JsonObject): RpcResponse => ({ jsonrpc: "2.0", id, result });

/** Creates a response with an error. */
export function createError(id: RpcId, code: number, message: string, data?: JsonObject): RpcResponse {
  return { jsonrpc: "2.0", id, error: { code, message, ...(data === undefined ? {} : { data }) } };
}

/** Creates the response to a failed request from any thrown value. Details of an unexpected fault stay in the log. */
export function errorFromFault(id: RpcId, thrown: unknown): RpcResponse {
  const { reason, message, metadata } = controlPlaneErrorFrom(thrown);
  const status = httpStatusFromReason(reason);
  const code = status === 400 ? RPC_CODES.invalidParams : status === 500 ? RPC_CODES.internal : RPC_CODES.server;
  return createError(id, code, message, { reason: ErrorReason[reason] ?? "INTERNAL", metadata: { ...metadata } });
}

/** One event of a `text/event-stream` (HTML standard §9.2). */
export type SseEvent = EventSourceMessage;

const LINE_END = /\r\n|\r|\n/g;

/** Serialises an event. */
export function sseText({ id, event, data }: Pick<SseEvent, "data"> & Partial<SseEvent>): string {
  const name = event === undefined ? "" : `event: ${event.replaceAll(LINE_END, " ")}\n`;
  const place = id === undefined ? "" : `id: ${id.replaceAll(LINE_END, " ")}\n`;
  // JSON is one line.
  const isOneLine = !data.includes("\n") && !data.includes("\r");
  const lines = isOneLine ? [data] : data.split(LINE_END);
  return `${name}${place}${lines.map((line) => `data: ${line}\n`).join("")}\n`;
}
