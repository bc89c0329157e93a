import type { JsonObject } from "@bufbuild/protobuf";
import { LRUCache } from "lru-cache";
import { ToolSource } from "../../gen/agentcontrol/v1/tool_service_pb.js";
import { Turns } from "../async/turns.ts";
import { ControlPlaneError, ErrorReason, notFound } from "../errors.ts";
import type { ChangeScope } from "../log/changes.ts";
import type { WorkspaceLogs } from "../log/workspace-logs.ts";
import type { WorkspaceLog } from "../log/writer.ts";
import { ownValue } from "../policy/json-value.ts";
import type { ControlChange } from "../state/control-changes.ts";
import { type Database, stored } from "../store/database.ts";
import { McpDefinitionEntity, type McpDefinitionRow } from "../store/entities.ts";
import { forgetMcpVersions } from "../store/sql/forget-mcp-versions.ts";
import {
  countWaitingMcpDefinitions,
  type McpDefinitionVersionRow,
  type McpVersionRow,
  readMcpDefinitions,
  readMcpPins,
  readNamedMcpPins,
} from "../store/sql/read-mcp-definitions.ts";
import { readerWithin, type Transaction } from "../store/transaction.ts";
import { digestOf } from "../tree/canonical.ts";
import {
  candidateFrom,
  MCP_DEFINITION_KINDS,
  type McpCandidate,
  type McpDefinitionKind,
  partialDigest,
  statelessDigest,
} from "./mcp-candidate.ts";
import { definitionChanges, printable } from "./mcp-changes.ts";
import { type RepeatedParameter, repeatedParametersOf } from "./mcp-parameters.ts";
import type { McpServer } from "./mcp-servers.ts";
import { type Page, type PageRequest, readPage } from "./page.ts";
import { isToolDescription, putToolVersion, type ToolDraft } from "./tools.ts";

/** Definitions of one kind as a server lists them. */
export interface McpListing {
  readonly items: readonly JsonObject[];
  /** Digest of their text. */
  readonly digest: string;
}

/** A listed definition after its comparison with the pinned ones. */
export interface ReviewedDefinition {
  /** Name as its server knows it: of a tool or prompt, a URI, a URI template; empty for instructions. */
  readonly name: string;
  /** Digest; empty for an unusable definition. */
  readonly digest: string;
  /** Version; 0 for an unusable definition. */
  readonly version: number;
  readonly status: "active" | "quarantined" | "unusable";
  /** Reason why it is unusable. */
  readonly reason?: string;
}

/** A listed tool after its comparison with the pinned definitions. */
export interface ReviewedTool extends ReviewedDefinition {
  /** Name under which its calls are decided: `server.name`. */
  readonly registeredName: string;
  /** Arguments that clients repeat in headers. */
  readonly repeated: readonly RepeatedParameter[];
}

/** The definitions of one listing by name. */
export type Reviewed<K extends McpDefinitionKind = McpDefinitionKind> = ReadonlyMap<
  string,
  K extends "tool" ? ReviewedTool : ReviewedDefinition
>;

/** One version of a definition as it is shown. */
export interface McpDefinitionVersion {
  readonly version: number;
  readonly definition: JsonObject;
  readonly digest: string;
  readonly firstSeenAtMs: number;
  readonly acceptedBy: string | null;
  readonly acceptedAtMs: number | null;
  /** Differences from the version that was accepted before; empty if there was none. */
  readonly changes: readonly string[];
}

/** A definition as it is shown: the version in force and the one that waits. */
export interface PinnedDefinition {
  readonly kind: McpDefinitionKind;
  readonly name: string;
  readonly active: McpDefinitionVersion | undefined;
  readonly pending: McpDefinitionVersion | undefined;
}

/** Numbers of definitions of a server that wait for a person. */
export interface WaitingDefinitions {
  /** Those of which no version was ever accepted. */
  readonly fresh: number;
  /** Those with a version in force. */
  readonly changed: number;
}

/** A definition of a server. */
export interface McpDefinitionId {
  readonly kind: McpDefinitionKind;
  readonly name: string;
}

/** Parts of `McpDefinitions`. */
export interface McpDefinitionsOptions {
  readonly database: Pick<Database, "orm">;
  readonly logs: Pick<WorkspaceLogs, "of">;
}

/** A version of a definition in memory. */
type Pin = Pick<McpVersionRow, "version" | "digest" | "isWhole" | "statelessDigest" | "acceptedBy" | "acceptedAtMs">;

/** The versions of one definition that matter: the latest accepted one and the latest. */
interface Pins {
  readonly active: Pin | undefined;
  readonly latest: Pin;
}

/** Maximum number of definitions that one change of the log pins: others wait for it. */
const CHUNK = 25;
/** Newest versions of a definition that are kept, whoever accepted them. */
const MAX_VERSIONS = 20;
const CACHED_SERVERS = 2_000;
/** Maximum number of definitions in the cached pins and reviews, of some 300 bytes each. */
const CACHED_DEFINITIONS = 200_000;
const CACHE_MS = 600_000;
/** Maximum number of cached reviews of a server's listings of one kind, whose sessions may see different ones, and of definitions in them. */
const CACHED_REVIEWS = 64;
const CACHED_IN_REVIEWS = 20_000;

interface Cached {
  readonly pins: Promise<ReadonlyMap<string, Pins>>;
  /** Reviews by these pins, by the listing's digest. */
  readonly reviews: LRUCache<string, Reviewed>;
  readonly unsubscribe: () => void;
}

/** The pinned definitions of MCP servers: tools, prompts, resources, resource templates, and instructions. */
export class McpDefinitions {
  readonly #orm: Database["orm"];
  readonly #logs: McpDefinitionsOptions["logs"];
  readonly #cache = new LRUCache<string, Cached>({
    max: CACHED_SERVERS,
    maxSize: CACHED_DEFINITIONS,
    ttl: CACHE_MS,
    updateAgeOnGet: true,
    ttlAutopurge: true,
    dispose: ({ unsubscribe }) => unsubscribe(),
  });

  constructor({ database, logs }: McpDefinitionsOptions) {
    this.#orm = database.orm;
    this.#logs = logs;
  }

  /** Clears the cache, so that logs can be closed. */
  close(): void {
    this.#cache.clear();
  }

  /**
   * Compares a listing with the pinned definitions, and pins new and changed ones: in force at once where the server is `open`,
   * else waiting for a person. A listing that was compared before, with the same pins, costs nothing. A name that is listed
   * twice, of tools ignoring case, is unusable. `by`: the caller's key.
   */
  async review<K extends McpDefinitionKind>(
    server: McpServer,
    kind: K,
    listing: McpListing,
    by: string,
  ): Promise<Reviewed<K>> {
    const log = await this.#logs.of(server.workspaceId);
    const cached = this.#cached(log, server.name, kind);
    const known = cached.reviews.get(listing.digest);
    if (known !== undefined) return known as Reviewed<K>;
    const reviewed = await this.#compare(log, server, kind, { items: listing.items, pins: await cached.pins, by });
    cached.reviews.set(listing.digest, reviewed);
    this.#resize(keyOf(server, kind), cached);
    return reviewed as Reviewed<K>;
  }

  /** Tests whether a review still holds: no definition of its kind has been pinned or accepted since. */
  isCurrent(server: McpServer, kind: McpDefinitionKind, reviewed: Reviewed): boolean {
    const reviews = this.#cache.get(keyOf(server, kind))?.reviews;
    return reviews !== undefined && [...reviews.values()].includes(reviewed);
  }

  async #compare(
    log: WorkspaceLog,
    server: McpServer,
    kind: McpDefinitionKind,
    { items, pins, by }: Pick<McpListing, "items"> & { pins: ReadonlyMap<string, Pins>; by: string },
  ): Promise<Reviewed> {
    const reviewed = new Map<string, ReviewedDefinition>();
    const seen = new Map<string, string>();
    const candidates: McpCandidate[] = [];
    const turns = new Turns();
    // Listings that are compared at the same time would otherwise all begin in one turn.
    await turns.next();
    for (const item of items) {
      await turns.giveWay();
      const found = candidateFrom(server.name, kind, item);
      const twin = seen.get(found.key);
      if (twin !== undefined) {
        const what = kind === "tool" ? "its name is that of another tool of the server" : "the server lists it twice";
        for (const name of [twin, found.name]) reviewed.set(name, unusable(server, name, what));
        continue;
      }
      seen.set(found.key, found.name);
      if ("fault" in found) reviewed.set(found.name, unusable(server, found.name, found.fault));
      else {
        const known = statusOf(server, found, pins.get(found.name));
        if (known === undefined) candidates.push(found);
        else reviewed.set(found.name, known);
      }
    }
    const news = candidates.filter(({ name }) => reviewed.get(name)?.status !== "unusable");
    for (let at = 0; at < news.length; at += CHUNK) {
      const recorded = await this.#record(log, server, kind, { news: news.slice(at, at + CHUNK), by });
      for (const definition of recorded) reviewed.set(definition.name, definition);
    }
    return reviewed as Reviewed;
  }

  /** Lists the pinned definitions of a server, of one kind or all, by kind and name. The position is both. */
  async list(
    { workspaceId, name: server }: McpServer,
    kind: McpDefinitionKind | undefined,
    { size, after }: PageRequest<string>,
  ): Promise<Page<PinnedDefinition, string>> {
    const em = this.#orm.em.fork();
    const kinds = kind === undefined ? MCP_DEFINITION_KINDS : [kind];
    const read = async (page: PageRequest<string>): Promise<readonly PinnedDefinition[]> => {
      const found: PinnedDefinition[] = [];
      const last = page.after === undefined ? undefined : idFrom(page.after);
      for (const each of last === undefined ? kinds : kinds.slice(kinds.indexOf(last.kind))) {
        const missing = page.size + 1 - found.length;
        if (missing <= 0) break;
        const from = each === last?.kind ? { name: { $gt: last.name } } : {};
        const where = { workspaceId, server, kind: each, version: 1, ...from };
        const options = { fields: ["name"], orderBy: { name: "asc" }, limit: missing } as const;
        const names = (await stored(em.find(McpDefinitionEntity, where, options))).map(({ name }) => name);
        const rows = await definitionRows(em, { workspaceId, server, kind: each, names });
        for (const name of names) {
          found.push(
            pinnedFrom(
              { kind: each, name },
              rows.filter((row) => row.name === name),
            ),
          );
        }
      }
      return found;
    };
    return readPage({ size, after }, ({ kind: of, name }) => `${of} ${name}`, read);
  }

  /** Counts the definitions that wait for a person, by server. Servers without any are left out. */
  async waiting(workspaceId: string, servers: readonly string[]): Promise<ReadonlyMap<string, WaitingDefinitions>> {
    const reader = readerWithin(this.#orm.em.fork());
    const query = { text: countWaitingMcpDefinitions, values: [workspaceId, JSON.stringify(servers)] };
    const { rows } = await stored(reader.query<WaitingDefinitions & { readonly server: string }>(query));
    return new Map(rows.map(({ server, ...counts }) => [server, counts]));
  }

  /**
   * Accepts the waiting version of a definition: it is in force from now on, and the schema of a tool is the tool's version.
   * Rejects with MCP_TOOL_NOT_FOUND or MCP_DEFINITION_NOT_FOUND, and unless this version waits with MCP_TOOL_CHANGED or
   * MCP_DEFINITION_CHANGED; those of a tool as a tool's.
   */
  async accept(server: McpServer, id: McpDefinitionId, version: number, by: string): Promise<PinnedDefinition> {
    const { workspaceId } = server;
    const { kind, name } = id;
    const log = await this.#logs.of(workspaceId);
    const where = { workspaceId, server: server.name, kind, name };
    await log.change(by, async (scope) => {
      const { transaction, nowMs, seal } = scope;
      const [latest] = await transaction.find(McpDefinitionEntity, where, { orderBy: { version: "desc" }, limit: 1 });
      if (latest === undefined) throw definitionNotFound(server, id);
      if (latest.version !== version || (latest.acceptedAtMs ?? null) !== null) throw notWaiting(server, latest);
      // A person has seen this version as it is stored: a fuller one that the server lists must wait.
      const accepted = { acceptedBy: by, acceptedAtMs: nowMs, isWhole: true };
      await transaction.nativeUpdate(McpDefinitionEntity, { ...where, version }, accepted);
      if (kind === "tool") await registerSchema(scope, server, JSON.parse(latest.definition) as JsonObject);
      seal(acceptedChange(server.name, id, latest));
    });
    const rows = await definitionRows(this.#orm.em.fork(), { workspaceId, server: server.name, kind, names: [name] });
    return pinnedFrom(id, rows);
  }

  /** Pins definitions that differ from the pinned ones. Another replica may have pinned them meanwhile. */
  async #record(
    log: WorkspaceLog,
    server: McpServer,
    kind: McpDefinitionKind,
    { news, by }: { readonly news: readonly McpCandidate[]; readonly by: string },
  ): Promise<readonly ReviewedDefinition[]> {
    const { workspaceId, name: of, mode } = server;
    const recorded = await log.change(by, async (scope) => {
      const { transaction, nowMs, seal } = scope;
      const names = news.map(({ name }) => name);
      const values = [workspaceId, of, kind, JSON.stringify(names)];
      const { rows } = await readerWithin(transaction).query<McpVersionRow & {}>({ text: readNamedMcpPins, values });
      const pins = pinsFrom(rows);
      const results: ReviewedDefinition[] = [];
      for (const candidate of news) {
        const { name, text, digest } = candidate;
        const before = pins.get(name);
        const known = statusOf(server, candidate, before);
        if (known !== undefined) {
          results.push(known);
          continue;
        }
        const active = before?.active;
        if (active?.digest === digest) {
          // Pinned before whole definitions were, and whole nevertheless.
          const where = { workspaceId, server: of, kind, name, version: active.version };
          await transaction.nativeUpdate(McpDefinitionEntity, where, { isWhole: true });
          results.push(reviewedFrom(server, candidate, active.version, "active"));
          continue;
        }
        const version = (before?.latest.version ?? 0) + 1;
        const completes = active !== undefined && isCompletion(candidate, active);
        const inForce = mode === "open" || completes;
        const acceptedBy = completes ? active.acceptedBy : by;
        const accepted = inForce ? { acceptedBy, acceptedAtMs: nowMs } : { acceptedBy: null, acceptedAtMs: null };
        const key = { workspaceId, server: of, kind, name, version };
        const kept = { definition: text, digest, statelessDigest: statelessDigest(candidate) ?? null, isWhole: true };
        await transaction.insert(McpDefinitionEntity, { ...key, ...kept, firstSeenAtMs: nowMs, ...accepted });
        if (version > MAX_VERSIONS) {
          const values = [workspaceId, of, kind, name, MAX_VERSIONS];
          await readerWithin(transaction).query({ text: forgetMcpVersions, values });
        }
        if (kind === "tool" && inForce) await registerSchema(scope, server, candidate.definition);
        seal(changedChange(of, candidate, { version, digest, inForce }));
        results.push(reviewedFrom(server, candidate, version, inForce ? "active" : "quarantined"));
      }
      return results;
    });
    // The change of a pin that seals nothing is announced to nobody.
    this.#cache.delete(keyOf(server, kind));
    return recorded;
  }

  #cached(log: WorkspaceLog, server: string, kind: McpDefinitionKind): Cached {
    const { workspaceId } = log;
    const key = keyOf({ workspaceId, name: server }, kind);
    const known = this.#cache.get(key);
    if (known !== undefined) return known;
    const forget = () => this.#cache.delete(key);
    const unsubscribe = log.subscribe((events) => {
      if (events.some((event) => event.kind === "change" && concerns(event.change, server))) forget();
    });
    const reader = readerWithin(this.#orm.em.fork());
    const query = { text: readMcpPins, values: [workspaceId, server, kind] };
    const pins = stored(reader.query<McpVersionRow & {}>(query)).then(({ rows }) => pinsFrom(rows));
    const reviews = new LRUCache<string, Reviewed>({
      max: CACHED_REVIEWS,
      maxSize: CACHED_IN_REVIEWS,
      sizeCalculation: ({ size }) => 1 + size,
    });
    const cached = { pins, reviews, unsubscribe };
    this.#cache.set(key, cached, { size: 1 });
    pins.then(() => this.#resize(key, cached), forget);
    return cached;
  }

  /** Counts the definitions of a cached server, unless it has been forgotten. */
  async #resize(key: string, { pins, reviews }: Cached): Promise<void> {
    const cached = this.#cache.peek(key);
    if (cached?.pins !== pins) return;
    const size = 1 + (await pins).size + reviews.calculatedSize;
    if (this.#cache.peek(key) === cached) this.#cache.set(key, { ...cached }, { size, noDisposeOnSet: true });
  }
}

const keyOf = ({ workspaceId, name }: Pick<McpServer, "workspaceId" | "name">, kind: McpDefinitionKind): string =>
  `${workspaceId} ${name} ${kind}`;

/** Tests whether the cached definitions of a server are stale after a change. */
function concerns(change: ControlChange, server: string): boolean {
  switch (change.type) {
    case "mcp_tool_changed":
    case "mcp_tool_accepted":
      return change.mcp_tool.server === server;
    case "mcp_definition_changed":
    case "mcp_definition_accepted":
      return change.mcp_definition.server === server;
    case "mcp_server_updated":
      return change.mcp_server.name === server;
    case "mcp_server_deleted":
      return change.name === server;
    default:
      return false;
  }
}

/** Builds the entry of a new or changed definition. */
function changedChange(
  server: string,
  { kind, name }: McpDefinitionId,
  { version, digest, inForce }: { readonly version: number; readonly digest: string; readonly inForce: boolean },
): ControlChange {
  if (kind === "tool") {
    return { type: "mcp_tool_changed", mcp_tool: { server, name, version, digest }, in_force: inForce };
  }
  const mcp_definition = { server, kind, name, version, digest };
  return { type: "mcp_definition_changed", mcp_definition, in_force: inForce };
}

/** Builds the entry of an accepted definition. */
function acceptedChange(
  server: string,
  { kind, name }: McpDefinitionId,
  { version, digest }: Pick<McpDefinitionRow, "version" | "digest">,
): ControlChange {
  if (kind === "tool") return { type: "mcp_tool_accepted", mcp_tool: { server, name, version, digest } };
  return { type: "mcp_definition_accepted", mcp_definition: { server, kind, name, version, digest } };
}

/** Builds the pins from versions in ascending order. */
function pinsFrom(rows: readonly McpVersionRow[]): Map<string, Pins> {
  const pins = new Map<string, Pins>();
  for (const { name, ...latest } of rows) {
    pins.set(name, { latest, active: latest.acceptedAtMs !== null ? latest : pins.get(name)?.active });
  }
  return pins;
}

interface DefinitionsWanted {
  readonly workspaceId: string;
  readonly server: string;
  readonly kind: McpDefinitionKind;
  readonly names: readonly string[];
}

async function definitionRows(
  em: Transaction,
  { workspaceId, server, kind, names }: DefinitionsWanted,
): Promise<readonly McpDefinitionVersionRow[]> {
  const query = { text: readMcpDefinitions, values: [workspaceId, server, kind, JSON.stringify(names)] };
  return (await stored(readerWithin(em).query<McpDefinitionVersionRow & {}>(query))).rows;
}

/** Returns the status of a listed definition that is pinned as it is; undefined for one that is new or changed. */
function statusOf(server: McpServer, candidate: McpCandidate, pins: Pins | undefined): ReviewedDefinition | undefined {
  if (pins === undefined) return undefined;
  const { active, latest } = pins;
  const { digest } = candidate;
  if (active !== undefined && isAsPinned(active, digest)) {
    return active.isWhole ? reviewedFrom(server, candidate, active.version, "active") : undefined;
  }
  if (isAsPinned(latest, digest) && latest.acceptedAtMs === null) {
    return reviewedFrom(server, candidate, latest.version, "quarantined");
  }
  return undefined;
}

const isAsPinned = (pin: Pin, digest: string): boolean => pin.digest === digest || pin.statelessDigest === digest;

/**
 * Tests whether a tool differs from an accepted version only by members that were not pinned when it was accepted: the first
 * listing after the upgrade completes the version.
 */
const isCompletion = (candidate: McpCandidate, active: Pin): boolean =>
  candidate.kind === "tool" && !active.isWhole && active.digest === partialDigest(candidate);

function reviewedFrom(
  server: McpServer,
  { kind, name, digest, definition }: McpCandidate,
  version: number,
  status: "active" | "quarantined",
): ReviewedDefinition {
  const reviewed = { name, digest, version, status };
  if (kind !== "tool") return reviewed;
  const tool: ReviewedTool = {
    ...reviewed,
    registeredName: `${server.name}.${name}`,
    repeated: repeatedParametersOf(schemaOf(definition)),
  };
  return tool;
}

function unusable(server: McpServer, name: string, reason: string): ReviewedTool {
  const registeredName = `${server.name}.${name}`;
  return { name, registeredName, digest: "", version: 0, status: "unusable", reason, repeated: [] };
}

const schemaOf = (definition: JsonObject): JsonObject => (ownValue(definition, "inputSchema") ?? {}) as JsonObject;

/** Registers the schema of a tool that comes into force, as the tool's next version if it differs. */
async function registerSchema(scope: ChangeScope, server: McpServer, definition: JsonObject): Promise<void> {
  const description = ownValue(definition, "description");
  const isFit = typeof description === "string" && isToolDescription(description);
  const draft: ToolDraft = {
    name: `${server.name}.${ownValue(definition, "name") as string}`,
    description: isFit ? description : undefined,
    inputSchema: schemaOf(definition),
    source: ToolSource.GATEWAY,
  };
  await putToolVersion(scope, draft, digestOf(schemaOf(definition)));
}

/** Reads a position in the list of definitions of every kind. */
function idFrom(position: string): McpDefinitionId {
  const at = position.indexOf(" ");
  return { kind: position.slice(0, at) as McpDefinitionKind, name: position.slice(at + 1) };
}

/** Builds a definition from the versions that decide about it, in ascending order. */
function pinnedFrom({ kind, name }: McpDefinitionId, rows: readonly McpDefinitionVersionRow[]): PinnedDefinition {
  const latest = rows.length - 1;
  const active = rows.findLastIndex(isAccepted);
  const pending = latest === active ? undefined : versionAt(rows, latest);
  return { kind, name, active: versionAt(rows, active), pending };
}

const isAccepted = ({ acceptedAtMs }: McpVersionRow): boolean => acceptedAtMs !== null;

function versionAt(rows: readonly McpDefinitionVersionRow[], index: number): McpDefinitionVersion | undefined {
  const row = rows[index];
  if (row === undefined) return undefined;
  // Compared with the version in force: a change must not hide behind another that nobody accepted.
  const before = rows.slice(0, index).findLast(isAccepted);
  const definition = JSON.parse(row.definition) as JsonObject;
  const changes =
    before === undefined ? [] : definitionChanges(JSON.parse(before.definition) as JsonObject, definition);
  const { version, digest, firstSeenAtMs, acceptedBy, acceptedAtMs } = row;
  return { version, definition, digest, firstSeenAtMs, acceptedBy, acceptedAtMs, changes };
}

const SHOWN_NAME = 256;
const WORDS = {
  tool: "tool",
  prompt: "prompt",
  resource: "resource",
  resource_template: "resource template",
  instructions: "instructions",
} as const;

function definitionNotFound(server: McpServer, { kind, name }: McpDefinitionId): ControlPlaneError {
  const shown = printable(name, SHOWN_NAME);
  if (kind === "tool") {
    return notFound(ErrorReason.MCP_TOOL_NOT_FOUND, "pinned tool", { tool: shown, server: server.name });
  }
  const what = `pinned ${WORDS[kind]}`;
  return notFound(ErrorReason.MCP_DEFINITION_NOT_FOUND, what, { name: shown, kind, server: server.name });
}

function notWaiting({ name: server }: McpServer, latest: McpDefinitionRow): ControlPlaneError {
  const { kind, name, version, acceptedAtMs } = latest as McpDefinitionRow & McpDefinitionId;
  const shown = printable(name, SHOWN_NAME);
  const isWaiting = (acceptedAtMs ?? null) === null;
  const which = kind === "instructions" ? "instructions" : `${WORDS[kind]} \`${shown}\``;
  const waits = `waits to be accepted for ${which}`;
  const message = isWaiting ? `version ${version} ${waits}; review it first` : `no version ${waits}`;
  const reason = kind === "tool" ? ErrorReason.MCP_TOOL_CHANGED : ErrorReason.MCP_DEFINITION_CHANGED;
  const named = kind === "tool" ? { tool: shown } : { name: shown, kind };
  return new ControlPlaneError(reason, message, { server, ...named, version: String(version) });
}
