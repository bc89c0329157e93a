import type { JsonValue } from "@bufbuild/protobuf";
import type { McpServer } from "../registry/mcp-servers.ts";
import type { StoreLog } from "../store/migrate.ts";
import { createError, RPC_CODES, type RpcMessage, type RpcResponse } from "./messages.ts";

/** Scrubs the personal values of some kinds in a JSON value. A value for whose place `isKept` is true passes as it is. */
export type ScrubJson = (
  workspaceId: string,
  kinds: readonly string[],
  value: JsonValue,
  isKept: (path: string, value: JsonValue) => boolean,
) => Promise<JsonValue>;

/** Parts of `MessageScrubber`. */
export interface ScrubbingOptions {
  readonly scrubJson: ScrubJson;
  readonly log: StoreLog;
}

/** Changes a response before it is passed on. */
type Transform = (response: RpcResponse) => RpcResponse | Promise<RpcResponse>;

/** Places whose members are the server's own, so that a name of the protocol means nothing there. */
const FREE = /(^|\.)(structuredContent|input|params\.data|error\.data)([.[]|$)/;
/** Words and marks of the protocol, which clients and servers compare and send back as they are. */
const MARKS = new RegExp(
  [
    "jsonrpc|id|method|error\\.code",
    "params\\.(progressToken|requestId|progress|total)",
    "result\\.(nextCursor|requestState|resultType|ttlMs)",
    "(params|result)\\.((task|tasks\\[\\])\\.)?(taskId|ttl|ttlMs|pollInterval|pollIntervalMs)",
    ".*\\._meta\\.io\\.modelcontextprotocol/related-task\\.taskId",
  ]
    .map((place) => `^(${place})$`)
    .join("|"),
);
const WORD_MEMBER = /(^|\.)(type|role)$/;
const WORDS: ReadonlySet<unknown> = new Set([
  "text",
  "image",
  "audio",
  "resource",
  "resource_link",
  "tool_use",
  "tool_result",
  "user",
  "assistant",
]);
/** Members with bytes, and their form: base64 that is longer than any personal value. */
const BYTES_MEMBER = /(content(\[\])?|contents\[\]|resource)\.(data|blob)$/;
const BYTES = /^[\w+/=-]{64,}$/;
/** Names and schemas by which a client makes its next request. */
const DEFINITIONS: ReadonlyMap<string, RegExp> = new Map([
  ["initialize", /^result\.(protocolVersion|capabilities|serverInfo\.version)$/],
  ["server/discover", /^result\.(supportedVersions|capabilities|serverInfo\.version)$/],
  ["tools/list", /^result\.tools\[\]\.(name|inputSchema|outputSchema)$/],
  ["prompts/list", /^result\.prompts\[\]\.(arguments\[\]\.)?name$/],
  ["sampling/createMessage", /^params\.(tools\[\]\.(name|inputSchema|outputSchema)|toolChoice|modelPreferences)$/],
]);
/** Methods whose responses are compared with pinned definitions as the server wrote them. */
const PINNED: ReadonlySet<string> = new Set([
  "initialize",
  "server/discover",
  "tools/list",
  "prompts/list",
  "resources/list",
  "resources/templates/list",
]);

const isKeptIn = (method: string) => {
  const definitions = DEFINITIONS.get(method);
  return (path: string, value: JsonValue): boolean => {
    if (FREE.test(path)) return false;
    if (MARKS.test(path) || definitions?.test(path) === true) return true;
    if (typeof value !== "string") return false;
    return (WORD_MEMBER.test(path) && WORDS.has(value)) || (BYTES_MEMBER.test(path) && BYTES.test(value));
  };
};

/**
 * Scrubs every message of one server before its client sees it. A message that cannot be scrubbed is withheld: a response becomes
 * an error, and any other message is dropped.
 */
export class MessageScrubber {
  readonly #options: ScrubbingOptions;
  readonly #server: McpServer;

  constructor(server: McpServer, options: ScrubbingOptions) {
    this.#server = server;
    this.#options = options;
  }

  /**
   * Scrubs a response and applies its transform. Definitions are transformed as the server wrote them, since they are pinned so;
   * any other response is scrubbed first, so that whatever keeps it keeps it scrubbed.
   */
  async response(method: string, response: RpcResponse, transform: Transform): Promise<RpcResponse> {
    if (PINNED.has(method)) return this.#response(method, await transform(response));
    return transform(await this.#response(method, response));
  }

  /** Scrubs a request or notification of the server. Undefined for a message that is withheld. */
  async message(message: Exclude<RpcMessage, RpcResponse>): Promise<RpcMessage | undefined> {
    return (await this.#scrub(message.method, message as unknown as JsonValue)) as unknown as RpcMessage | undefined;
  }

  /** Scrubs the body of an HTTP error. */
  async text(text: string): Promise<string> {
    const scrubbed = await this.#scrub("", text);
    return typeof scrubbed === "string" ? scrubbed : this.#withheld();
  }

  async #response(method: string, response: RpcResponse): Promise<RpcResponse> {
    const scrubbed = await this.#scrub(method, response as unknown as JsonValue);
    if (scrubbed !== undefined) return scrubbed as unknown as RpcResponse;
    return createError(response.id, RPC_CODES.server, this.#withheld());
  }

  /** Returns undefined for a value that cannot be scrubbed. */
  async #scrub(method: string, value: JsonValue): Promise<JsonValue | undefined> {
    const { workspaceId, name, scrub } = this.#server;
    const { scrubJson, log } = this.#options;
    try {
      return await scrubJson(workspaceId, scrub, value, isKeptIn(method));
    } catch (error) {
      // The cause is named alone: its text may quote what was not scrubbed.
      const cause = error instanceof Error ? error.name : typeof error;
      log.warn({ workspaceId, server: name, cause }, "mcp message not scrubbed and withheld");
      return undefined;
    }
  }

  #withheld(): string {
    return `what MCP server \`${this.#server.name}\` answered could not be scrubbed, and is withheld`;
  }
}
