import type { JsonObject, JsonValue } from "@bufbuild/protobuf";
import { isJsonObject, ownValue } from "../policy/json-value.ts";
import type { McpServer } from "../registry/mcp-servers.ts";
import { digestOf } from "../tree/canonical.ts";
import type { RpcMessage } from "./messages.ts";
import type { Method } from "./methods.ts";

/** Members of `_meta` that the specification defines. */
const META = new Set(["progressToken", "traceparent", "tracestate", "baggage"]);
const META_PREFIX = "io.modelcontextprotocol/";
/** Members of `_meta` that say how a message travels, and nothing about what its receiver does. */
const FRAMING = new Set([
  ...META,
  "io.modelcontextprotocol/protocolVersion",
  "io.modelcontextprotocol/clientInfo",
  "io.modelcontextprotocol/clientCapabilities",
  "io.modelcontextprotocol/logLevel",
]);
/** Prefix of the gateway's own members of `_meta`, which only the gateway writes. */
const OWN_PREFIX = /^agentcontrol[./]/i;
/** Text that may hold such a member, written plainly or with escapes. */
const MAY_BE_OWN = /agentcontrol|\\u00/i;

type MetaRules = Pick<McpServer, "passMeta">;

/**
 * Returns a client's message as its server gets it: the members of JSON-RPC, of `params` the members that the specification
 * defines for the method, and of `_meta` the specification's own and those that the server names. `method` is undefined for a
 * message that passes because its server names the method; its `params` are then passed whole.
 */
export function forwardedMessage(message: RpcMessage, method: Method | undefined, server: MetaRules): RpcMessage {
  if (!("method" in message)) {
    const { jsonrpc, id, result, error } = message;
    if (result === undefined) return { jsonrpc, id, ...(error === undefined ? {} : { error }) };
    return { jsonrpc, id, result: withoutMeta(result, server) };
  }
  const { jsonrpc, params } = message;
  const rest = params === undefined ? {} : { params: withoutMeta(membersOf(params, method), server) };
  return { jsonrpc, ...("id" in message ? { id: message.id } : {}), method: message.method, ...rest };
}

function membersOf(params: JsonObject, method: Method | undefined): JsonObject {
  if (method === undefined) return params;
  const entries = Object.entries(params).filter(([name]) => name === "_meta" || method.members.includes(name));
  return Object.fromEntries(entries);
}

/** Leaves out the members of `_meta` that neither the specification nor the server names. */
function withoutMeta(params: JsonObject, { passMeta }: MetaRules): JsonObject {
  const meta = ownValue(params, "_meta");
  if (meta === undefined) return params;
  const { _meta, ...rest } = params;
  if (!isJsonObject(meta)) return rest;
  const passes = (name: string): boolean =>
    !OWN_PREFIX.test(name) && (META.has(name) || name.startsWith(META_PREFIX) || passMeta.includes(name));
  return { ...rest, _meta: Object.fromEntries(Object.entries(meta).filter(([name]) => passes(name))) };
}

/**
 * Computes the digest of the forwarded members that rules cannot read, such as `requestState`; undefined if there are none.
 * `read` are the members that rules read.
 */
export function boundDigest(params: JsonObject, read: readonly string[]): string | undefined {
  const bound: Record<string, JsonValue> = {};
  for (const [name, value] of Object.entries(params)) {
    if (name !== "_meta" && !read.includes(name)) bound[name] = value;
  }
  const meta = ownValue(params, "_meta");
  const other = isJsonObject(meta) ? Object.entries(meta).filter(([name]) => !FRAMING.has(name)) : [];
  if (other.length > 0) bound._meta = Object.fromEntries(other);
  return Object.keys(bound).length === 0 ? undefined : digestOf(bound);
}

/**
 * Removes the members of every `_meta` under the gateway's own prefix from a server's message, at any depth, so that only the
 * gateway speaks of decisions. `text` is the message as it came.
 */
export function withoutOwnMeta<T extends RpcMessage>(message: T, text: string): T {
  return MAY_BE_OWN.test(text) ? (stripped(message as unknown as JsonValue) as unknown as T) : message;
}

/** Does the same to any other JSON text of a server; undefined if it is no JSON. */
export function strippedJson(text: string): string | undefined {
  try {
    return JSON.stringify(stripped(JSON.parse(text) as JsonValue));
  } catch {
    return undefined;
  }
}

function stripped(value: JsonValue): JsonValue {
  if (Array.isArray(value)) return value.map(stripped);
  if (!isJsonObject(value)) return value;
  const entries = Object.entries(value).map(([name, each]) => {
    const inner = stripped(each);
    return [name, name === "_meta" && isJsonObject(inner) ? withoutOwn(inner) : inner] as const;
  });
  return Object.fromEntries(entries);
}

const withoutOwn = (meta: JsonObject): JsonObject =>
  Object.fromEntries(Object.entries(meta).filter(([name]) => !OWN_PREFIX.test(name)));
