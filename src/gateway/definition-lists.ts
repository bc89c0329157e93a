import type { JsonObject, JsonValue } from "@bufbuild/protobuf";
import type { SharedPot } from "../async/shared-pot.ts";
import { Turns } from "../async/turns.ts";
import type { WorkspaceLogs } from "../log/workspace-logs.ts";
import { isJsonObject, ownValue } from "../policy/json-value.ts";
import { normaliseName } from "../policy/names.ts";
import { nameOf } from "../registry/mcp-candidate.ts";
import type { McpDefinitions, Reviewed, ReviewedDefinition, ReviewedTool } from "../registry/mcp-definitions.ts";
import type { McpServer } from "../registry/mcp-servers.ts";
import type { Action } from "../state/types.ts";
import { createId } from "../store/ids.ts";
import { alwaysBlockedFor } from "./always-blocked.ts";
import { type Exchange, envelopeOf } from "./exchange.ts";
import { LISTS, type ListedKind, listDefinitions, listingFrom, ttlMsOf } from "./listing.ts";
import { earliestListing, type Look, Looks, type Taken } from "./looks.ts";
import type { RpcRequest, RpcResponse } from "./messages.ts";
import type { UpstreamFaults } from "./upstream-faults.ts";
import { matchesTemplate } from "./uri-template.ts";

/** Parts of `DefinitionLists`. */
export interface DefinitionListsOptions {
  readonly definitions: Pick<McpDefinitions, "review" | "isCurrent">;
  readonly logs: WorkspaceLogs;
  /** Pot of the bytes of servers' messages. */
  readonly answers: SharedPot;
  readonly faults: UpstreamFaults;
}

/** Age of the listing that a call relies on: up to the server's `drift`, or a listing that begins now. */
export type ListingAge = "within drift" | "now";

/** Milliseconds for which a client may cache a list, unless its server says how long. */
const LIST_TTL_MS = 0;
/** Headers of a caller that a listing repeats; the others belong to its own request. */
const LISTING_HEADERS = ["accept", "content-type", "mcp-protocol-version", "mcp-session-id"] as const;
/** Kinds whose lists a notification says have changed. */
const CHANGED: ReadonlyMap<string, readonly ListedKind[]> = new Map([
  ["notifications/tools/list_changed", ["tool"]],
  ["notifications/prompts/list_changed", ["prompt"]],
  ["notifications/resources/list_changed", ["resource", "resource_template"]],
]);
const KIND_BY_METHOD: ReadonlyMap<string, ListedKind> = new Map(
  Object.entries(LISTS).map(([kind, { method }]) => [method, kind as ListedKind]),
);

const PROMPT_WAITS = "the prompt is not listed, or is new or has changed and waits for a person to accept it";
const URI_WAITS = "no resource or template that a person has accepted has this URI";

type Transform = (response: RpcResponse) => Promise<RpcResponse>;

/** Lists the definitions of upstream servers, and compares them with the pinned ones. */
export class DefinitionLists {
  readonly #definitions: DefinitionListsOptions["definitions"];
  readonly #logs: WorkspaceLogs;
  readonly #answers: SharedPot;
  readonly #faults: UpstreamFaults;
  readonly #looks = new Looks();
  /** Sessions for which definitions of a kind have been listed. */
  readonly #begun = new Map<ListedKind, WeakSet<object>>();

  constructor({ definitions, logs, answers, faults }: DefinitionListsOptions) {
    this.#definitions = definitions;
    this.#logs = logs;
    this.#answers = answers;
    this.#faults = faults;
  }

  /** Returns the last review of a tool; undefined before the first one. `params` are those of the caller's request. */
  lastReviewed(exchange: Exchange, params: JsonObject, tool: string): ReviewedTool | undefined {
    return (this.#lookOf(exchange, "tool", params).known as Reviewed<"tool"> | undefined)?.get(tool);
  }

  /**
   * Returns the review of a listing of the age that the server's `drift` allows; of a new one for a session's first call, after a
   * definition was accepted, and if `age` is `now`. Callers that may rely on the same listing share it. Rejects when the exchange
   * ends.
   */
  async review<K extends ListedKind>(
    exchange: Exchange,
    kind: K,
    params: JsonObject,
    age: ListingAge = "within drift",
  ): Promise<Reviewed<K>> {
    const { server, caller, headers, endpoint, ending, session } = exchange;
    const look = this.#lookOf(exchange, kind, params);
    const begun = this.#begunWith(kind);
    // Callers share a listing, so it counts for their workspace alone.
    const holder = { workspaceId: server.workspaceId };
    const list = (signal: AbortSignal): Promise<Taken> =>
      this.#answers.during(holder, async (held) => {
        const link = {
          server: server.name,
          endpoint,
          headers: listingHeaders(headers),
          meta: metaOf(exchange, params),
          isScrubbed: server.scrub.length > 0,
          held,
        };
        const { ttlMs, ...listing } = await this.#faults.listing(server, () => listDefinitions(link, kind, signal));
        return { reviewed: await this.#definitions.review(server, kind, listing, caller.keyId), ttlMs };
      });
    const { taken } = look;
    const isNow =
      age === "now" ||
      (session !== undefined && !begun.has(session)) ||
      (taken !== undefined && !this.#definitions.isCurrent(server, kind, taken.reviewed));
    const time = isNow ? performance.now() : earliestListing(server, taken);
    const { reviewed } = await look.since(time, list, ending.signal);
    if (session !== undefined) begun.add(session);
    return reviewed as Reviewed<K>;
  }

  /**
   * Returns the review of a tool, as `review` does; undefined if the server does not list it. A tool that an older listing lacks is
   * looked for in a new one.
   */
  async tool(
    exchange: Exchange,
    params: JsonObject,
    name: string,
    age?: ListingAge,
  ): Promise<ReviewedTool | undefined> {
    const found = (await this.review(exchange, "tool", params, age)).get(name);
    if (found !== undefined || age === "now" || exchange.server.driftSeconds === 0) return found;
    return (await this.review(exchange, "tool", params, "now")).get(name);
  }

  /** Brings the next look forward, if a server's notification says that definitions have changed. */
  noteNotification(exchange: Exchange, method: string): void {
    for (const kind of CHANGED.get(method) ?? []) this.#looks.noteChange(exchange, kind);
  }

  /** Returns the change to the response of a request that gives definitions to a client; undefined for other requests. */
  filter(exchange: Exchange, request: RpcRequest): Transform | undefined {
    const { method } = request;
    if (method === "initialize" || (method === "server/discover" && exchange.generation === "stateless")) {
      return (response) => this.#withoutUnaccepted(exchange, response);
    }
    const kind = KIND_BY_METHOD.get(method);
    return kind === undefined ? undefined : (response) => this.#filtered(exchange, kind, request, response);
  }

  /**
   * Looks up the prompt or resource that a request names, which pins it. Explains why it may not be used: in quarantine, nobody has
   * accepted its definition. Undefined for a request that may be made. `params` are those of the caller's own request, which may
   * name several.
   */
  async refusalOf(
    exchange: Exchange,
    { method, params: named = {} }: Pick<RpcRequest, "method" | "params">,
    params: JsonObject,
    age: ListingAge = "within drift",
  ): Promise<string | undefined> {
    const used = usedDefinition(method, named);
    if (used === undefined) return undefined;
    const { mode, driftSeconds } = exchange.server;
    const covering = await this.#covering(exchange, used, params, age);
    if (mode === "quarantine") {
      if (covering.some(({ status }) => status === "active")) return undefined;
      return used.kind === "prompt" ? PROMPT_WAITS : URI_WAITS;
    }
    // As with a tool: what an older listing lacks is looked for in a new one.
    if (covering.length === 0 && age !== "now" && driftSeconds > 0) await this.#covering(exchange, used, params, "now");
    return undefined;
  }

  /** Returns the listed definitions that cover the use of a prompt or URI: its own, or templates that can expand to it. */
  async #covering(
    exchange: Exchange,
    { kind, name }: UsedDefinition,
    params: JsonObject,
    age: ListingAge,
  ): Promise<readonly ReviewedDefinition[]> {
    const named = (await this.review(exchange, kind, params, age)).get(name);
    const own = named === undefined ? [] : [named];
    if (kind === "prompt" || named?.status === "active") return own;
    const templates = await this.review(exchange, "resource_template", params, age);
    // A completion names the template itself.
    const fitting = [...templates.values()].filter((each) => each.name === name || matchesTemplate(each.name, name));
    return [...own, ...fitting];
  }

  /** Leaves out definitions that may not be used, and tools that may not be called. Tools have a fixed order. */
  async #filtered(
    exchange: Exchange,
    kind: ListedKind,
    request: RpcRequest,
    response: RpcResponse,
  ): Promise<RpcResponse> {
    const { server, caller, generation } = exchange;
    const { params = {} } = request;
    const { result } = response;
    if (result === undefined) return response;
    const { member } = LISTS[kind];
    const listed = ownValue(result, member);
    const given = (Array.isArray(listed) ? listed : []).filter(isJsonObject);
    const reviewed = await this.#definitions.review(server, kind, await listingFrom(given), caller.keyId);
    const isWhole = ownValue(params, "cursor") === undefined && ownValue(result, "nextCursor") === undefined;
    if (isWhole) this.#lookOf(exchange, kind, params).known = reviewed;
    const usable = given.filter((each) => reviewed.get(nameOf(kind, each))?.status === "active");
    const shown = kind === "tool" ? await this.#callable(exchange, usable) : usable;
    const filtered: JsonObject = { ...result, [member]: shown as readonly JsonObject[] as JsonValue };
    const cache = { ttlMs: cacheMsOf(server, result), cacheScope: "private" };
    return { ...response, result: generation === "stateless" ? { ...filtered, ...cache } : filtered };
  }

  /** Leaves out the tools that are blocked for the agent whatever the arguments, and sorts the others. */
  async #callable(exchange: Exchange, tools: readonly JsonObject[]): Promise<readonly JsonObject[]> {
    const { server, caller } = exchange;
    const log = await this.#logs.of(caller.workspaceId);
    const isBlocked = alwaysBlockedFor(await log.caughtUp(), caller.agentId, log.nowMs);
    const callable: { readonly tool: JsonObject; readonly name: string }[] = [];
    const turns = new Turns();
    for (const tool of tools) {
      const name = nameOf("tool", tool);
      if (!isBlocked(probeOf(exchange, `${server.name}.${name}`))) callable.push({ tool, name });
      await turns.giveWay();
    }
    return callable.sort((a, b) => (a.name < b.name ? -1 : 1)).map(({ tool }) => tool);
  }

  /** Leaves out instructions that may not be used. */
  async #withoutUnaccepted({ server, caller }: Exchange, response: RpcResponse): Promise<RpcResponse> {
    const { result } = response;
    if (result === undefined || !Object.hasOwn(result, "instructions")) return response;
    const { instructions, ...rest } = result;
    if (typeof instructions !== "string") return { ...response, result: rest };
    const listing = await listingFrom([{ instructions }]);
    const reviewed = await this.#definitions.review(server, "instructions", listing, caller.keyId);
    return reviewed.get("")?.status === "active" ? response : { ...response, result: rest };
  }

  #begunWith(kind: ListedKind): WeakSet<object> {
    const begun = this.#begun.get(kind) ?? new WeakSet();
    this.#begun.set(kind, begun);
    return begun;
  }

  #lookOf(exchange: Exchange, kind: ListedKind, params: JsonObject): Look {
    return this.#looks.of(exchange, kind, metaOf(exchange, params));
  }
}

/** A prompt or URI that a request uses. */
interface UsedDefinition {
  readonly kind: "prompt" | "resource";
  readonly name: string;
}

/** Finds the prompt or URI that a request uses. A missing name is empty, which names no accepted definition. */
function usedDefinition(method: string, params: JsonObject): UsedDefinition | undefined {
  const textAt = (object: JsonObject, member: string): string => {
    const value = ownValue(object, member);
    return typeof value === "string" ? value : "";
  };
  if (method === "prompts/get") return { kind: "prompt", name: textAt(params, "name") };
  if (method === "resources/read" || method === "resources/subscribe") {
    return { kind: "resource", name: textAt(params, "uri") };
  }
  if (method !== "completion/complete") return undefined;
  const ref = ownValue(params, "ref");
  if (!isJsonObject(ref)) return { kind: "resource", name: "" };
  return ownValue(ref, "type") === "ref/prompt"
    ? { kind: "prompt", name: textAt(ref, "name") }
    : { kind: "resource", name: textAt(ref, "uri") };
}

/** Returns what a stateless request says about its client; undefined with a session. */
const metaOf = ({ generation }: Exchange, params: JsonObject): JsonObject | undefined =>
  generation === "stateless" ? envelopeOf(params) : undefined;

function listingHeaders(headers: Exchange["headers"]): Exchange["headers"] {
  const given = LISTING_HEADERS.map((name) => [name, headers[name]] as const);
  return Object.fromEntries(given.filter(([, value]) => value !== undefined)) as Exchange["headers"];
}

/**
 * Returns the milliseconds for which a client may cache a list: what the server says counts in `open` only, and only up to the
 * server's drift.
 */
function cacheMsOf({ mode, driftSeconds }: McpServer, result: JsonObject): number {
  if (mode !== "open") return LIST_TTL_MS;
  return Math.min(ttlMsOf(result) ?? LIST_TTL_MS, driftSeconds * 1_000);
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
