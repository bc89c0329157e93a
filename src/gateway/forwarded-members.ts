import type { JsonObject, JsonValue } from "@bufbuild/protobuf";
import { doInTurns, type Work } from "../async/work.ts";
import { isJsonObject, ownValue } from "../policy/json-value.ts";
import type { McpServer } from "../registry/mcp-servers.ts";
import { mayPassOn } from "../tracing/trace-context.ts";
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

/** Leaves out the members of `_meta` that neither the specification nor the server names, and a trace context that is malformed. */
function withoutMeta(params: JsonObject, { passMeta }: MetaRules): JsonObject {
  const meta = ownValue(params, "_meta");
  if (meta === undefined) return params;
  const { _meta, ...rest } = params;
  if (!isJsonObject(meta)) return rest;
  // Which belongs to the place in the trace.
  const hasPlace = mayPassOn("traceparent", ownValue(meta, "traceparent"));
  const passes = (name: string): boolean =>
    !isOwn(name) &&
    (name !== "tracestate" || hasPlace) &&
    (META.has(name) || name.startsWith(META_PREFIX) || passMeta.includes(name));
  return {
    ...rest,
    _meta: Object.fromEntries(Object.entries(meta).filter(([name, value]) => passes(name) && mayPassOn(name, value))),
  };
}

/**
 * Computes the digest of the forwarded members that rules cannot read, such as `requestState`; undefined if there are none.
 * `read` are the members that rules read.
 */
export function boundDigest(params: JsonObject, read: readonly string[]): string | undefined {
  const bound: [string, JsonValue][] = Object.entries(params).filter(
    ([name]) => name !== "_meta" && !read.includes(name),
  );
  const meta = ownValue(params, "_meta");
  const other = isJsonObject(meta) ? Object.entries(meta).filter(([name]) => !FRAMING.has(name)) : [];
  if (other.length > 0) bound.push(["_meta", Object.fromEntries(other)]);
  return bound.length === 0 ? undefined : digestOf(Object.fromEntries(bound));
}

/**
 * Removes the members of every `_meta` under the gateway's own prefix from a server's message or other JSON, at any depth, so that
 * only the gateway speaks of decisions.
 */
export async function withoutOwnMeta<T>(json: T): Promise<T> {
  return (await doInTurns(removingOwnMeta(json as JsonValue))) as T;
}

/** Does as `withoutOwnMeta`, as work that may pause. */
export function* removingOwnMeta(json: JsonValue): Work<JsonValue> {
  return (yield* searching(json)) ? yield* stripping(json, { values: 0 }) : json;
}

/** Values after which the work may pause. */
const PAUSE = 512;

/** Tests for a member under the gateway's own prefix. Few messages have one, and only those are built anew. */
function* searching(json: JsonValue): Work<boolean> {
  const open = [json];
  for (let seen = 1; open.length > 0; seen++) {
    if (seen % PAUSE === 0) yield;
    const value = open.pop() as JsonValue;
    if (Array.isArray(value)) {
      for (const each of value) if (!isScalar(each)) open.push(each);
    } else if (isJsonObject(value)) {
      for (const [name, each] of Object.entries(value)) {
        if (name === "_meta" && isJsonObject(each) && Object.keys(each).some(isOwn)) return true;
        if (!isScalar(each)) open.push(each);
      }
    }
  }
  return false;
}

function* stripping(value: JsonValue, seen: { values: number }): Work<JsonValue> {
  seen.values += 1;
  if (seen.values % PAUSE === 0) yield;
  if (Array.isArray(value)) {
    const items: JsonValue[] = [];
    for (const each of value) items.push(isScalar(each) ? each : yield* stripping(each, seen));
    return items;
  }
  if (!isJsonObject(value)) return value;
  const members: [string, JsonValue][] = [];
  for (const [name, each] of Object.entries(value)) {
    const inner = isScalar(each) ? each : yield* stripping(each, seen);
    members.push([name, name === "_meta" && isJsonObject(inner) ? withoutOwn(inner) : inner]);
  }
  return Object.fromEntries(members);
}

const isScalar = (value: JsonValue): boolean => typeof value !== "object" || value === null;

const isOwn = (name: string): boolean => OWN_PREFIX.test(name);

const withoutOwn = (meta: JsonObject): JsonObject =>
  Object.fromEntries(Object.entries(meta).filter(([name]) => !isOwn(name)));
