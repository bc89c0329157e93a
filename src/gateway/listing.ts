import { createHash, randomUUID } from "node:crypto";
import type { JsonObject } from "@bufbuild/protobuf";
import type { Portion } from "../async/shared-pot.ts";
import { Turns } from "../async/turns.ts";
import { isJsonObject, ownValue } from "../policy/json-value.ts";
import type { McpDefinitionKind } from "../registry/mcp-candidate.ts";
import { printable } from "../registry/mcp-changes.ts";
import type { McpListing } from "../registry/mcp-definitions.ts";
import { type Endpoint, upstreamUnavailable } from "./endpoint.ts";
import { isResponse, type RpcRequest, type RpcResponse } from "./messages.ts";
import { MessageTooLarge, readMessage, SseReader } from "./reading.ts";

/** Bounds of a whole listing. */
const MAX_ITEMS = 10_000;
const MAX_PAGES = 1_000;
const MAX_LISTING_BYTES = 8_388_608;
/** Maximum characters of a server's error in our message. */
const MAX_MESSAGE = 300;
/** Milliseconds for a whole listing. */
const LISTING_MS = 15_000;

/** Kinds of definitions that are listed. Instructions come with the session. */
export type ListedKind = Exclude<McpDefinitionKind, "instructions">;

/** Method that lists definitions of a kind, the member of its result, and the word for errors. */
export const LISTS: Readonly<Record<ListedKind, { method: string; member: string; word: string }>> = {
  tool: { method: "tools/list", member: "tools", word: "tools" },
  prompt: { method: "prompts/list", member: "prompts", word: "prompts" },
  resource: { method: "resources/list", member: "resources", word: "resources" },
  resource_template: { method: "resources/templates/list", member: "resourceTemplates", word: "resource templates" },
};

/** Connection of the gateway to an upstream server on behalf of an exchange. */
export interface UpstreamLink {
  /** The server's name, for errors. */
  readonly server: string;
  readonly endpoint: Endpoint;
  /** Headers of the session or of the generation. */
  readonly headers: Readonly<Record<string, string>>;
  /** `_meta` of a stateless request, with version and capabilities; undefined with a session. */
  readonly meta: JsonObject | undefined;
  /** True if the server's words may hold personal values: errors then do not quote them. */
  readonly isScrubbed: boolean;
  /** Portion of the bytes of servers' messages. */
  readonly held: Pick<Portion, "add">;
}

/** All definitions of one kind, as a server lists them. */
export interface UpstreamListing extends McpListing {
  /** Smallest time for which a page says that it may be cached, in milliseconds; undefined if no page says a time above 0. */
  readonly ttlMs: number | undefined;
}

/** Makes the listing of definitions that were received, over several turns of the event loop. */
export async function listingFrom(items: readonly JsonObject[]): Promise<McpListing> {
  const turns = new Turns();
  const hash = createHash("sha256");
  for (const item of items) {
    hash.update(`${JSON.stringify(item)}\n`);
    await turns.giveWay();
  }
  return { items, digest: hash.digest("base64") };
}

/** Reads the time for which a result may be cached; undefined unless it is a number above 0. */
export function ttlMsOf(result: JsonObject): number | undefined {
  const ttlMs = ownValue(result, "ttlMs");
  return typeof ttlMs === "number" && ttlMs > 0 ? ttlMs : undefined;
}

/**
 * Lists all definitions of a kind. A server without the method has none. Rejects with MCP_UPSTREAM_UNAVAILABLE, also if the
 * listing exceeds its bounds.
 */
export async function listDefinitions(
  link: UpstreamLink,
  kind: ListedKind,
  signal: AbortSignal,
): Promise<UpstreamListing> {
  const { method, member, word } = LISTS[kind];
  const within = AbortSignal.any([signal, AbortSignal.timeout(LISTING_MS)]);
  const items: JsonObject[] = [];
  const times: number[] = [];
  const listing = async () => ({
    ...(await listingFrom(items)),
    ttlMs: times.length === 0 ? undefined : Math.min(...times),
  });
  let bytes = 0;
  let cursor: string | undefined;
  for (let page = 0; page < MAX_PAGES; page++) {
    const params = { ...(cursor === undefined ? {} : { cursor }) };
    const { response, size } = await ask({ ...link, method, word }, params, within, MAX_LISTING_BYTES - bytes);
    bytes += size;
    const { result = {}, error } = response;
    if (error?.code === -32_601) return listing();
    if (error !== undefined) {
      const why = link.isScrubbed ? `error ${error.code}` : printable(error.message, MAX_MESSAGE);
      throw upstreamUnavailable(link.server, `does not list its ${word}: ${why}`);
    }
    const listed = ownValue(result, member);
    if (!Array.isArray(listed)) throw upstreamUnavailable(link.server, `did not return a list of its ${word}`);
    for (const each of listed) if (isJsonObject(each)) items.push(each);
    if (items.length > MAX_ITEMS) throw upstreamUnavailable(link.server, `lists more than ${MAX_ITEMS} ${word}`);
    const ttlMs = ttlMsOf(result);
    if (ttlMs !== undefined) times.push(ttlMs);
    const next = ownValue(result, "nextCursor");
    if (typeof next !== "string") return listing();
    cursor = next;
  }
  throw upstreamUnavailable(link.server, `lists its ${word} on more than ${MAX_PAGES} pages`);
}

/** A request of the gateway's own for a page. */
interface PageLink extends UpstreamLink {
  readonly method: string;
  readonly word: string;
}

/** Sends one request of the gateway's own and returns its response. */
async function ask(
  { server, endpoint, headers, meta, method, word, held }: PageLink,
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
    return await readResponse({ server, word, held }, answer, id, maxBytes);
  } catch (error) {
    if (error instanceof DOMException && error.name === "TimeoutError") {
      throw upstreamUnavailable(server, `did not list its ${word} within ${LISTING_MS / 1000} s`, error);
    }
    throw error;
  } finally {
    // Anything after the response is ignored.
    ending.abort();
  }
}

/** Reads the response to a request; anything after it is ignored. `word` is what was asked for, for errors. */
export async function readResponse(
  { server, word, held }: Pick<PageLink, "server" | "word" | "held">,
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
      if (size > maxBytes) throw new MessageTooLarge(`more than ${MAX_LISTING_BYTES} bytes`);
      held.add(chunk.byteLength);
      if (!isStream) {
        text += decoder.decode(chunk, { stream: true });
        continue;
      }
      for (const { data } of reader.next(chunk)) {
        const message = await readMessage(data);
        if (message !== undefined && isResponse(message) && message.id === id) return { response: message, size };
      }
    }
    const message = isStream ? undefined : await readMessage(text);
    if (message !== undefined && isResponse(message) && message.id === id) return { response: message, size };
  } catch (error) {
    if (error instanceof MessageTooLarge) throw upstreamUnavailable(server, `lists ${word} of ${error.excess}`, error);
    throw error;
  }
  throw upstreamUnavailable(server, `did not answer the request for its ${word} (HTTP ${answer.status})`);
}
