import type { IncomingMessage } from "node:http";
import type { JsonObject, JsonValue } from "@bufbuild/protobuf";
import { isJsonObject, ownValue } from "../policy/json-value.ts";
import type { RepeatedParameter } from "../registry/mcp-parameters.ts";
import { mayPassOn } from "../tracing/trace-context.ts";
import type { RpcMessage } from "./messages.ts";

type Headers = Readonly<Record<string, string>>;

/** Header with the id of a connection's session. */
export const SESSION_HEADER = "mcp-session-id";
/** Header with the id of the session of the agent in which a client calls, over connections to several servers. */
export const NAMED_SESSION_HEADER = "x-session-id";
const ACCEPT = "application/json, text/event-stream";
/** Headers of a client that are passed to the upstream server. */
const PASSED_HEADERS = ["last-event-id", "mcp-protocol-version", "mcp-method", "mcp-name", "traceparent", "tracestate"];
const PARAMETER_HEADER = /^mcp-param-/;
/** Parameter that `Mcp-Name` repeats, by method. */
const NAMED_BY: Readonly<Record<string, string>> = {
  "tools/call": "name",
  "prompts/get": "name",
  "resources/read": "uri",
  "resources/subscribe": "uri",
  "resources/unsubscribe": "uri",
  "tasks/get": "taskId",
  "tasks/result": "taskId",
  "tasks/update": "taskId",
  "tasks/cancel": "taskId",
};
const BASE64 = /^=\?base64\?(.*)\?=$/;
/** Text that a header carries unencoded: printable ASCII without spaces at its ends. */
const PLAIN = /^[\x21-\x7e]([\x20-\x7e]*[\x21-\x7e])?$/;
const DECIMAL = /^-?\d+(\.\d+)?$/;

/** Returns a header's value; undefined if it is missing or empty. */
export function headerOf({ headers }: IncomingMessage, name: string): string | undefined {
  const value = headers[name];
  return typeof value === "string" && value !== "" ? value : undefined;
}

/** Returns the headers of the protocol as the official packages read them. */
export function standardHeaders(request: IncomingMessage) {
  const protocolVersionHeader = headerOf(request, "mcp-protocol-version");
  const mcpMethodHeader = headerOf(request, "mcp-method");
  const mcpNameHeader = headerOf(request, "mcp-name");
  return {
    ...(protocolVersionHeader === undefined ? {} : { protocolVersionHeader }),
    ...(mcpMethodHeader === undefined ? {} : { mcpMethodHeader }),
    ...(mcpNameHeader === undefined ? {} : { mcpNameHeader }),
  };
}

/** Describes how `Mcp-Method` or `Mcp-Name` contradicts the body, on which alone the gateway decides; undefined if they agree. */
export function disagreement(request: IncomingMessage, message: RpcMessage): string | undefined {
  if (!("method" in message)) return undefined;
  const method = headerOf(request, "mcp-method");
  if (method !== undefined && method !== message.method) {
    return `the header Mcp-Method differs from the body's method \`${message.method}\``;
  }
  const header = headerOf(request, "mcp-name");
  const source = Object.hasOwn(NAMED_BY, message.method) ? NAMED_BY[message.method] : undefined;
  if (header === undefined || source === undefined) return undefined;
  if (decoded(header) === ownValue(message.params ?? {}, source)) return undefined;
  return `the header Mcp-Name differs from the body's \`${source}\``;
}

/**
 * Returns the headers for the upstream server: only headers of the protocol, without the caller's identity, and `Mcp-Name` only
 * where it was compared with the body. `message`: the body of a POST.
 */
export function passedHeaders(request: IncomingMessage, message?: RpcMessage): Headers {
  const headers: Record<string, string> = { accept: ACCEPT };
  if (request.method === "POST") headers["content-type"] = "application/json";
  const isNamed = message !== undefined && "method" in message && Object.hasOwn(NAMED_BY, message.method);
  for (const name of PASSED_HEADERS) {
    if (name === "mcp-name" && !isNamed) continue;
    const value = headerOf(request, name);
    if (value !== undefined && mayPassOn(name, value)) headers[name] = value;
  }
  // It belongs to the place in the trace, which is missing or malformed.
  if (headers.traceparent === undefined) delete headers.tracestate;
  return headers;
}

/** Returns the headers in which a client repeats arguments of a tool. */
export function parameterHeaders(request: IncomingMessage): Headers {
  const names = Object.keys(request.headers).filter((name) => PARAMETER_HEADER.test(name));
  return Object.fromEntries(names.map((name) => [name, headerOf(request, name) ?? ""]));
}

/** Returns the first header that differs from the argument that it repeats. */
export function disagreeingParameter(
  given: Headers,
  repeated: readonly RepeatedParameter[],
  args: JsonObject,
): string | undefined {
  return repeated.find(({ header, path }) => {
    const value = valueAt(args, path);
    const text = given[header];
    if (text === undefined || value === undefined) return false;
    const said = decoded(text);
    const isEqualNumber =
      typeof value === "number" && said !== undefined && DECIMAL.test(said) && Number(said) === value;
    return said !== textOf(value) && !isEqualNumber;
  })?.header;
}

/**
 * Writes the headers that repeat arguments. `given` are the client's headers, and only these are written; undefined means all.
 */
export function repeatedHeaders(
  given: Headers | undefined,
  repeated: readonly RepeatedParameter[],
  args: JsonObject,
): Headers {
  const headers: Record<string, string> = {};
  for (const { header, path } of repeated) {
    const text = textOf(valueAt(args, path));
    if (text !== undefined && (given === undefined || given[header] !== undefined))
      headers[header] = encodedHeader(text);
  }
  return headers;
}

/** Encodes a text as the value of a header, in Base64 unless it is plain. */
export function encodedHeader(text: string): string {
  return PLAIN.test(text) && !BASE64.test(text) ? text : `=?base64?${Buffer.from(text).toString("base64")}?=`;
}

/** Decodes the value of a header; undefined for Base64 that is not canonical or not UTF-8. */
function decoded(value: string): string | undefined {
  const base64 = BASE64.exec(value)?.[1];
  if (base64 === undefined) return value;
  const bytes = Buffer.from(base64, "base64");
  if (bytes.toString("base64") !== base64) return undefined;
  const text = bytes.toString("utf8");
  return Buffer.from(text).equals(bytes) ? text : undefined;
}

function valueAt(args: JsonObject, path: readonly string[]): JsonValue | undefined {
  let value: JsonValue | undefined = args;
  for (const step of path) value = isJsonObject(value) ? ownValue(value, step) : undefined;
  return value ?? undefined;
}

function textOf(value: JsonValue | undefined): string | undefined {
  if (typeof value === "number")
    return Number.isInteger(value) && !Number.isSafeInteger(value) ? undefined : String(value);
  return typeof value === "string" || typeof value === "boolean" ? String(value) : undefined;
}
