import { randomUUID } from "node:crypto";
import type { JsonObject, JsonValue } from "@bufbuild/protobuf";
import { isJsonObject, ownValue } from "../policy/json-value.ts";
import { printable } from "../registry/mcp-changes.ts";
import type { McpTool } from "../registry/mcp-definitions.ts";
import { type Endpoint, upstreamUnavailable } from "./endpoint.ts";
import {
  isResponse,
  type RpcMessage,
  type RpcRequest,
  type RpcResponse,
  rpcMessageFrom,
  SseReader,
} from "./messages.ts";

/** Bounds of a whole listing. */
const MAX_TOOLS = 10_000;
const MAX_PAGES = 1_000;
const MAX_LISTING_BYTES = 8_388_608;
/** Maximum characters of a server's error in our message. */
const MAX_MESSAGE = 300;
/** Milliseconds for a whole listing. */
const LISTING_MS = 15_000;

/** Connection of the gateway to an upstream server on behalf of an exchange. */
export interface UpstreamLink {
  /** The server's name, for errors. */
  readonly server: string;
  readonly endpoint: Endpoint;
  /** Headers of the session or of the generation. */
  readonly headers: Readonly<Record<string, string>>;
  /** `_meta` of a stateless request, with version and capabilities; undefined with a session. */
  readonly meta: JsonObject | undefined;
}

/** Lists all tools of a server. Rejects with MCP_UPSTREAM_UNAVAILABLE, also if the listing exceeds its bounds. */
export async function listTools(link: UpstreamLink, signal: AbortSignal): Promise<readonly McpTool[]> {
  const within = AbortSignal.any([signal, AbortSignal.timeout(LISTING_MS)]);
  const tools: McpTool[] = [];
  let bytes = 0;
  let cursor: string | undefined;
  for (let page = 0; page < MAX_PAGES; page++) {
    const params = { ...(cursor === undefined ? {} : { cursor }) };
    const { response, size } = await ask(link, "tools/list", params, within, MAX_LISTING_BYTES - bytes);
    bytes += size;
    const listed = ownValue(response.result ?? {}, "tools");
    if (response.error?.code === -32_601) return tools;
    if (response.error !== undefined) {
      throw upstreamUnavailable(
        link.server,
        `does not list its tools: ${printable(response.error.message, MAX_MESSAGE)}`,
      );
    }
    if (!Array.isArray(listed)) throw upstreamUnavailable(link.server, "did not return a list of its tools");
    for (const each of listed) if (isJsonObject(each)) tools.push(each as McpTool);
    if (tools.length > MAX_TOOLS) throw upstreamUnavailable(link.server, `lists more than ${MAX_TOOLS} tools`);
    const next = ownValue(response.result ?? {}, "nextCursor");
    if (typeof next !== "string") return tools;
    cursor = next;
  }
  throw upstreamUnavailable(link.server, `lists its tools on more than ${MAX_PAGES} pages`);
}

/** Sends one request of the gateway's own and returns its response. */
async function ask(
  { server, endpoint, headers, meta }: UpstreamLink,
  method: string,
  params: JsonObject,
  signal: AbortSignal,
  maxBytes: number,
): Promise<{ readonly response: RpcResponse; readonly size: number }> {
  const id = `gateway-${randomUUID()}`;
  const withMeta = { ...params, ...(meta === undefined ? {} : { _meta: meta }) };
  const hasParams = Object.keys(withMeta).length > 0;
  const request: RpcRequest = { jsonrpc: "2.0", id, method, ...(hasParams ? { params: withMeta } : {}) };
  const ending = new AbortController();
  try {
    const answer = await endpoint.fetch({
      method: "POST",
      headers: { ...headers, ...(meta === undefined ? {} : { "mcp-method": method }) },
      body: JSON.stringify(request),
      signal: AbortSignal.any([signal, ending.signal]),
    });
    return await readResponse(server, answer, id, maxBytes);
  } catch (error) {
    if (error instanceof DOMException && error.name === "TimeoutError") {
      throw upstreamUnavailable(server, `did not list its tools within ${LISTING_MS / 1000} s`, error);
    }
    throw error;
  } finally {
    // Anything after the response is ignored.
    ending.abort();
  }
}

async function readResponse(
  server: string,
  answer: Response,
  id: string,
  maxBytes: number,
): Promise<{ readonly response: RpcResponse; readonly size: number }> {
  const isStream = (answer.headers.get("content-type") ?? "").toLowerCase().startsWith("text/event-stream");
  const reader = new SseReader(maxBytes);
  const decoder = new TextDecoder();
  let size = 0;
  let text = "";
  try {
    for await (const chunk of answer.body ?? []) {
      size += chunk.byteLength;
      if (size > maxBytes) throw new RangeError("the listing is too long");
      if (!isStream) {
        text += decoder.decode(chunk, { stream: true });
        continue;
      }
      for (const { data } of reader.next(chunk)) {
        const message = parsed(data);
        if (message !== undefined && isResponse(message) && message.id === id) return { response: message, size };
      }
    }
  } catch (error) {
    if (error instanceof RangeError) {
      throw upstreamUnavailable(server, `lists tools of more than ${MAX_LISTING_BYTES} bytes`, error);
    }
    throw error;
  }
  const message = isStream ? undefined : parsed(text);
  if (message !== undefined && isResponse(message) && message.id === id) return { response: message, size };
  throw upstreamUnavailable(server, `did not answer the request for its tools (HTTP ${answer.status})`);
}

/** Parses one message; undefined for other text. */
export function parsed(text: string): RpcMessage | undefined {
  try {
    return rpcMessageFrom(JSON.parse(text) as JsonValue);
  } catch {
    return undefined;
  }
}
