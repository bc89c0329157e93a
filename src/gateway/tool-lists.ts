import type { JsonObject, JsonValue } from "@bufbuild/protobuf";
import type { WorkspaceLogs } from "../log/workspace-logs.ts";
import { isJsonObject, ownValue } from "../policy/json-value.ts";
import { normaliseName } from "../policy/names.ts";
import type { McpDefinitions, McpTool, ReviewedTool } from "../registry/mcp-definitions.ts";
import type { McpServer } from "../registry/mcp-servers.ts";
import type { Action } from "../state/types.ts";
import { createId } from "../store/ids.ts";
import { alwaysBlockedFor } from "./always-blocked.ts";
import { type Exchange, envelopeOf } from "./exchange.ts";
import { listTools } from "./listing.ts";
import type { RpcRequest, RpcResponse } from "./messages.ts";

/** Parts of `ToolLists`. */
export interface ToolListsOptions {
  readonly definitions: Pick<McpDefinitions, "review">;
  readonly logs: WorkspaceLogs;
}

/** Milliseconds for which a client may cache a list, unless its server says how long. */
const LIST_TTL_MS = 0;

type Reviewed = ReadonlyMap<string, ReviewedTool>;

/** A listing that begins when the previous one has ended, and is aborted when its last caller has left. */
class Listing {
  readonly #ending = new AbortController();
  readonly #result: Promise<Reviewed>;
  #hasBegun = false;
  #waiting = 0;

  constructor(before: Listing | undefined, list: (signal: AbortSignal) => Promise<Reviewed>) {
    const begin = (): Promise<Reviewed> => {
      this.#hasBegun = true;
      return list(this.#ending.signal);
    };
    this.#result = before === undefined ? begin() : before.#result.then(begin, begin);
    // Every caller may have left.
    this.#result.catch(() => undefined);
  }

  /** True while further callers may join, because the listing has not begun. */
  get isJoinable(): boolean {
    return !this.#hasBegun && !this.#ending.signal.aborted;
  }

  /** Returns the tools. Rejects with the signal's reason once it aborts. */
  until(signal: AbortSignal): Promise<Reviewed> {
    this.#waiting += 1;
    return new Promise((resolve, reject) => {
      const leave = (): void => {
        this.#waiting -= 1;
        if (this.#waiting === 0) this.#ending.abort(signal.reason);
        reject(signal.reason);
      };
      if (signal.aborted) return leave();
      signal.addEventListener("abort", leave, { once: true });
      const stay = (): void => signal.removeEventListener("abort", leave);
      this.#result.finally(stay).then(resolve, reject);
    });
  }
}

/** Lists the tools of upstream servers and compares them with the pinned definitions. */
export class ToolLists {
  readonly #definitions: ToolListsOptions["definitions"];
  readonly #logs: WorkspaceLogs;
  /** Last review of each server's tools. */
  readonly #reviewed = new WeakMap<McpServer, Reviewed>();
  /** The latest listing of each session or endpoint. */
  readonly #listings = new WeakMap<object, Listing>();

  constructor({ definitions, logs }: ToolListsOptions) {
    this.#definitions = definitions;
    this.#logs = logs;
  }

  /** Returns the last review of a tool; undefined before the first one. */
  lastReviewed(server: McpServer, tool: string): ReviewedTool | undefined {
    return this.#reviewed.get(server)?.get(tool);
  }

  /**
   * Lists and reviews the tools now. Callers that wait for the same listing to begin share it. Rejects when the exchange ends.
   */
  async review(exchange: Exchange, params: JsonObject): Promise<Reviewed> {
    const { server, caller, session, headers, endpoint, ending, generation } = exchange;
    const key: object = session ?? endpoint;
    const before = this.#listings.get(key);
    const meta = generation === "stateless" ? envelopeOf(params) : undefined;
    const { "mcp-name": _, "mcp-method": __, ...own } = headers;
    const list = async (signal: AbortSignal) => {
      const tools = await listTools({ server: server.name, endpoint, headers: own, meta }, signal);
      const reviewed = await this.#definitions.review(server, tools, caller.keyId);
      this.#reviewed.set(server, reviewed);
      return reviewed;
    };
    // A listing that began before the call proves nothing about the tool at the time of the call.
    const listing = before?.isJoinable === true ? before : new Listing(before, list);
    this.#listings.set(key, listing);
    return listing.until(ending.signal);
  }

  /**
   * Creates the change to the response to `tools/list`: tools that may not be called are left out, and the others have a fixed
   * order.
   */
  filter(exchange: Exchange, request: RpcRequest): (response: RpcResponse) => Promise<RpcResponse> {
    return async (response) => {
      const { server, caller, generation } = exchange;
      const tools = ownValue(response.result ?? {}, "tools");
      if (response.result === undefined || !Array.isArray(tools)) return response;
      const isWhole =
        ownValue(request.params ?? {}, "cursor") === undefined && ownValue(response.result, "nextCursor") === undefined;
      const given = tools.filter((tool) => isJsonObject(tool)) as McpTool[];
      const reviewed = await this.#definitions.review(server, given, caller.keyId);
      if (isWhole) this.#reviewed.set(server, reviewed);
      const log = await this.#logs.of(caller.workspaceId);
      const isBlocked = alwaysBlockedFor(await log.caughtUp(), caller.agentId, log.nowMs);
      const shown = given
        .filter(({ name }) => {
          const tool = reviewed.get(name);
          return tool?.status === "active" && !isBlocked(probeOf(exchange, tool.registeredName));
        })
        .sort((a, b) => (a.name < b.name ? -1 : 1));
      const result: JsonObject = { ...response.result, tools: shown as readonly JsonObject[] as JsonValue };
      const ttl = ownValue(result, "ttlMs");
      const cache = { ttlMs: typeof ttl === "number" ? ttl : LIST_TTL_MS, cacheScope: "private" };
      return { ...response, result: generation === "stateless" ? { ...result, ...cache } : result };
    };
  }
}

/** Returns the action of a tool call without arguments. */
export function probeOf({ caller, server, session }: Exchange, tool: string): Action {
  const metadata = { mcp_server: server.name };
  return {
    decisionId: createId("dec"),
    isRetryable: false,
    agentId: caller.agentId,
    actionType: tool,
    tool,
    metadata,
    normalisedType: normaliseName(tool),
    actionContent: "",
    metadataText: "",
    sessionId: session?.id,
    onBehalfOf: undefined,
    grantId: undefined,
    intentContractId: undefined,
    escalationId: undefined,
    keyId: caller.keyId,
    isKeyBound: caller.isKeyBound,
  };
}
