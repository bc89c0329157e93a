import type { JsonObject, JsonValue } from "@bufbuild/protobuf";
import { LRUCache } from "lru-cache";
import { ToolSource } from "../../gen/agentcontrol/v1/tool_service_pb.js";
import { nextTurn } from "../async/turns.ts";
import { ControlPlaneError, ErrorReason, notFound } from "../errors.ts";
import type { ChangeScope } from "../log/changes.ts";
import type { WorkspaceLogs } from "../log/workspace-logs.ts";
import type { WorkspaceLog } from "../log/writer.ts";
import { isJsonObject, ownValue } from "../policy/json-value.ts";
import { toolKey, toolNameFault } from "../policy/names.ts";
import type { ControlChange } from "../state/control-changes.ts";
import { type Database, stored } from "../store/database.ts";
import { McpToolEntity, type McpToolRow } from "../store/entities.ts";
import {
  type McpToolDefinitionRow,
  type McpToolVersionRow,
  readMcpToolDefinitions,
  readMcpToolPins,
  readNamedMcpToolPins,
} from "../store/sql/read-mcp-tools.ts";
import { readerWithin, type Transaction } from "../store/transaction.ts";
import { canonicalJson, digestOf } from "../tree/canonical.ts";
import { isStorableJson } from "./checked-text.ts";
import { definitionChanges, printable } from "./mcp-changes.ts";
import { reservedNameFault } from "./mcp-method-tools.ts";
import { type RepeatedParameter, repeatedParametersOf } from "./mcp-parameters.ts";
import type { McpServer } from "./mcp-servers.ts";
import { type Page, type PageRequest, readPage } from "./page.ts";
import { isToolDescription, putToolVersion, schemaFault, type ToolDraft } from "./tools.ts";

/** A tool as a server lists it. */
export type McpTool = JsonObject & { readonly name: string };

/** A listed tool after its comparison with the pinned definitions. */
export interface ReviewedTool {
  /** Name as its server knows it. */
  readonly name: string;
  /** Name under which its calls are decided: `server.name`. */
  readonly registeredName: string;
  /** Digest of its definition; empty for an unusable tool. */
  readonly digest: string;
  /** Version of its definition; 0 for an unusable tool. */
  readonly version: number;
  readonly status: "active" | "quarantined" | "unusable";
  /** Reason why it is unusable. */
  readonly reason?: string;
  /** Arguments that clients repeat in headers. */
  readonly repeated: readonly RepeatedParameter[];
}

/** One version of a definition as it is shown. */
export interface McpToolVersion {
  readonly version: number;
  readonly definition: JsonObject;
  readonly digest: string;
  readonly firstSeenAtMs: number;
  readonly acceptedBy: string | null;
  readonly acceptedAtMs: number | null;
  /** Differences from the version that was accepted before; empty if there was none. */
  readonly changes: readonly string[];
}

/** A tool as it is shown: its definition in force and the one that waits. */
export interface PinnedTool {
  readonly name: string;
  readonly registeredName: string;
  readonly active: McpToolVersion | undefined;
  readonly pending: McpToolVersion | undefined;
}

/** Parts of `McpDefinitions`. */
export interface McpDefinitionsOptions {
  readonly database: Pick<Database, "orm">;
  readonly logs: Pick<WorkspaceLogs, "of">;
}

/** A version of a definition in memory. */
type Pin = Pick<McpToolRow, "version" | "digest"> & { readonly isAccepted: boolean };

/** The versions of one tool that matter: the latest accepted one and the latest. */
interface Pins {
  readonly active: Pin | undefined;
  readonly latest: Pin;
}

/** A listed tool whose definition is to be recorded. */
interface Candidate {
  readonly name: string;
  readonly registeredName: string;
  readonly definition: JsonObject;
  readonly text: string;
  readonly digest: string;
  readonly schemaDigest: string;
}

/** Members of a tool that are pinned. A model does not see others, such as `_meta`. */
const PINNED = ["name", "title", "description", "inputSchema", "outputSchema", "annotations"] as const;
const MAX_DEFINITION_BYTES = 262_144;
const MAX_DEPTH = 64;
/** Number of tools that are compared in one turn of the event loop. */
const TURN = 100;
/** Maximum number of definitions that one change of the log pins: others wait for it. */
const CHUNK = 25;
const CACHED_SERVERS = 2_000;
/** Maximum number of tools of the cached servers, of some 300 bytes each. */
const CACHED_TOOLS = 100_000;
const CACHE_MS = 600_000;

/** Changes after which the cached tools of a server are stale. */
const CHANGES: ReadonlySet<ControlChange["type"]> = new Set([
  "mcp_tool_changed",
  "mcp_tool_accepted",
  // A new origin returns definitions to quarantine.
  "mcp_server_updated",
  "mcp_server_deleted",
]);

interface Cached {
  readonly pins: Promise<ReadonlyMap<string, Pins>>;
  readonly unsubscribe: () => void;
}

/** The pinned definitions of the tools of MCP servers. */
export class McpDefinitions {
  readonly #orm: Database["orm"];
  readonly #logs: McpDefinitionsOptions["logs"];
  readonly #cache = new LRUCache<string, Cached>({
    max: CACHED_SERVERS,
    maxSize: CACHED_TOOLS,
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
   * Compares listed tools with the pinned definitions, and pins new and changed ones: in force at once where the server is
   * `open`, else waiting for a person. A listing without changes costs no query and no entry. A name that is listed twice,
   * ignoring case, is unusable. `by`: the caller's key.
   */
  async review(server: McpServer, tools: readonly McpTool[], by: string): Promise<ReadonlyMap<string, ReviewedTool>> {
    const log = await this.#logs.of(server.workspaceId);
    const pins = await this.#pinsOf(log, server.name);
    const reviewed = new Map<string, ReviewedTool>();
    const seen = new Map<string, string>();
    const candidates: Candidate[] = [];
    for (const [index, tool] of tools.entries()) {
      if (index % TURN === TURN - 1) await nextTurn();
      const found = candidateFrom(server, tool);
      const key = toolKey(found.registeredName);
      const twin = seen.get(key);
      if (twin !== undefined) {
        for (const name of [twin, found.name]) {
          reviewed.set(name, unusable(server, name, "its name is that of another tool of the server"));
        }
        continue;
      }
      seen.set(key, found.name);
      if ("fault" in found) reviewed.set(found.name, unusable(server, found.name, found.fault));
      else {
        const known = statusOf(found, pins.get(found.name));
        if (known === undefined) candidates.push(found);
        else reviewed.set(found.name, known);
      }
    }
    const isUsable = ({ name }: Candidate): boolean => reviewed.get(name)?.status !== "unusable";
    const news = candidates.filter(isUsable);
    for (let at = 0; at < news.length; at += CHUNK) {
      const recorded = await this.#record(log, server, news.slice(at, at + CHUNK), by);
      for (const tool of recorded) reviewed.set(tool.name, tool);
    }
    return reviewed;
  }

  /** Lists the pinned tools of a server by name. */
  async list(
    { workspaceId, name: server }: McpServer,
    { size, after }: PageRequest<string>,
  ): Promise<Page<PinnedTool, string>> {
    const em = this.#orm.em.fork();
    const read = async ({ size: more, after: last }: PageRequest<string>): Promise<readonly PinnedTool[]> => {
      const where = { workspaceId, server, version: 1, ...(last === undefined ? {} : { name: { $gt: last } }) };
      const options = { fields: ["name"], orderBy: { name: "asc" }, limit: more + 1 } as const;
      const names = (await stored(em.find(McpToolEntity, where, options))).map(({ name }) => name);
      const rows = await definitionRows(em, workspaceId, server, names);
      return names.map((name) =>
        pinnedFrom(
          server,
          rows.filter((row) => row.name === name),
        ),
      );
    };
    return readPage({ size, after }, ({ name }) => name, read);
  }

  /**
   * Accepts the waiting definition: it is in force from now on, and its schema is the tool's version. Rejects with
   * MCP_TOOL_NOT_FOUND, and with MCP_TOOL_CHANGED unless this version waits.
   */
  async accept(server: McpServer, name: string, version: number, by: string): Promise<PinnedTool> {
    const { workspaceId } = server;
    const log = await this.#logs.of(workspaceId);
    const where = { workspaceId, server: server.name, name };
    await log.change(by, async (scope) => {
      const { transaction, nowMs, seal } = scope;
      const [latest] = await transaction.find(McpToolEntity, where, { orderBy: { version: "desc" }, limit: 1 });
      if (latest === undefined) throw toolNotFound(server, name);
      if (latest.version !== version || (latest.acceptedAtMs ?? null) !== null) throw toolChanged(server, latest);
      await transaction.nativeUpdate(McpToolEntity, { ...where, version }, { acceptedBy: by, acceptedAtMs: nowMs });
      await registerSchema(scope, server, JSON.parse(latest.definition) as JsonObject);
      seal({ type: "mcp_tool_accepted", mcp_tool: { server: server.name, name, version, digest: latest.digest } });
    });
    return pinnedFrom(server.name, await definitionRows(this.#orm.em.fork(), workspaceId, server.name, [name]));
  }

  /** Pins definitions that differ from the pinned ones. Another replica may have pinned them meanwhile. */
  async #record(
    log: WorkspaceLog,
    server: McpServer,
    candidates: readonly Candidate[],
    by: string,
  ): Promise<readonly ReviewedTool[]> {
    const { workspaceId, name: of, mode } = server;
    return log.change(by, async (scope) => {
      const { transaction, nowMs, seal } = scope;
      const names = candidates.map(({ name }) => name);
      const values = [workspaceId, of, JSON.stringify(names)];
      const { rows } = await readerWithin(transaction).query<McpToolVersionRow>({ text: readNamedMcpToolPins, values });
      const pins = pinsFrom(rows);
      const inForce = mode === "open";
      const recorded: ReviewedTool[] = [];
      for (const candidate of candidates) {
        const { name, text, digest, definition } = candidate;
        const known = statusOf(candidate, pins.get(name));
        if (known !== undefined) {
          recorded.push(known);
          continue;
        }
        const version = (pins.get(name)?.latest.version ?? 0) + 1;
        const accepted = inForce ? { acceptedBy: by, acceptedAtMs: nowMs } : { acceptedBy: null, acceptedAtMs: null };
        const row = {
          workspaceId,
          server: of,
          name,
          version,
          definition: text,
          digest,
          firstSeenAtMs: nowMs,
          ...accepted,
        };
        await transaction.insert(McpToolEntity, row);
        if (inForce) await registerSchema(scope, server, definition, candidate.schemaDigest);
        seal({ type: "mcp_tool_changed", mcp_tool: { server: of, name, version, digest }, in_force: inForce });
        recorded.push(reviewedFrom(candidate, version, inForce ? "active" : "quarantined"));
      }
      return recorded;
    });
  }

  async #pinsOf(log: WorkspaceLog, server: string): Promise<ReadonlyMap<string, Pins>> {
    const key = `${log.workspaceId} ${server}`;
    const known = this.#cache.get(key);
    if (known !== undefined) return known.pins;
    const forget = () => this.#cache.delete(key);
    const unsubscribe = log.subscribe((events) => {
      if (events.some((event) => event.kind === "change" && CHANGES.has(event.change.type))) forget();
    });
    const { workspaceId } = log;
    const reader = readerWithin(this.#orm.em.fork());
    const query = { text: readMcpToolPins, values: [workspaceId, server] };
    const pins = stored(reader.query<McpToolVersionRow>(query)).then(({ rows }) => pinsFrom(rows));
    const cached = { pins, unsubscribe };
    this.#cache.set(key, cached, { size: 1 });
    pins.then((known) => {
      if (this.#cache.peek(key) !== cached) return;
      this.#cache.set(key, { ...cached }, { size: 1 + known.size, noDisposeOnSet: true });
    }, forget);
    return pins;
  }
}

/** Builds the pins from versions in ascending order. */
function pinsFrom(rows: readonly McpToolVersionRow[]): Map<string, Pins> {
  const pins = new Map<string, Pins>();
  for (const { name, version, digest, acceptedAtMs } of rows) {
    const latest = { version, digest, isAccepted: acceptedAtMs !== null };
    pins.set(name, { latest, active: latest.isAccepted ? latest : pins.get(name)?.active });
  }
  return pins;
}

async function definitionRows(
  em: Transaction,
  workspaceId: string,
  server: string,
  names: readonly string[],
): Promise<readonly McpToolDefinitionRow[]> {
  const query = { text: readMcpToolDefinitions, values: [workspaceId, server, JSON.stringify(names)] };
  return (await stored(readerWithin(em).query<McpToolDefinitionRow & {}>(query))).rows;
}

/** Returns the status of a listed tool that is pinned as it is; undefined for one that is new or changed. */
function statusOf(candidate: Candidate, pins: Pins | undefined): ReviewedTool | undefined {
  if (pins === undefined) return undefined;
  const { active, latest } = pins;
  if (active?.digest === candidate.digest) return reviewedFrom(candidate, active.version, "active");
  if (latest.digest === candidate.digest && !latest.isAccepted) {
    return reviewedFrom(candidate, latest.version, "quarantined");
  }
  return undefined;
}

function reviewedFrom(
  { name, registeredName, digest, definition }: Candidate,
  version: number,
  status: "active" | "quarantined",
): ReviewedTool {
  return { name, registeredName, digest, version, status, repeated: repeatedParametersOf(schemaOf(definition)) };
}

const unusable = (server: McpServer, name: string, reason: string): ReviewedTool => ({
  name,
  registeredName: `${server.name}.${name}`,
  digest: "",
  version: 0,
  status: "unusable",
  reason,
  repeated: [],
});

/** Reads a listed tool, or the reason why it cannot be registered. */
function candidateFrom(
  server: McpServer,
  tool: McpTool,
): Candidate | { readonly name: string; readonly registeredName: string; readonly fault: string } {
  const name = typeof tool.name === "string" ? tool.name : "";
  const registeredName = `${server.name}.${name}`;
  const fault = reservedNameFault(name) ?? nameFault(name, registeredName) ?? shapeFault(tool);
  if (fault !== undefined) return { name, registeredName, fault };
  const definition: JsonObject = {};
  for (const member of PINNED) {
    const value = ownValue(tool, member);
    if (value !== undefined) definition[member] = value;
  }
  const text = canonicalJson(definition);
  if (Buffer.byteLength(text) > MAX_DEFINITION_BYTES) {
    return { name, registeredName, fault: `its definition has more than ${MAX_DEFINITION_BYTES} bytes` };
  }
  const schema = schemaOf(definition);
  const candidate = { name, registeredName, definition, text, digest: digestOf(definition) };
  return { ...candidate, schemaDigest: digestOf(schema) };
}

function nameFault(name: string, registeredName: string): string | undefined {
  if (name !== name.trim()) return "its name begins or ends with white space";
  const fault = toolNameFault(registeredName);
  return fault === undefined ? undefined : `its name ${fault}`;
}

function shapeFault(tool: McpTool): string | undefined {
  if (isDeeper(tool, MAX_DEPTH)) return `its definition nests more than ${MAX_DEPTH} levels deep`;
  if (!isStorableJson(tool)) return "its definition holds U+0000 or half of a surrogate pair";
  const { title, description, inputSchema, outputSchema, annotations } = tool;
  for (const [member, value] of Object.entries({ title, description })) {
    if (value !== undefined && typeof value !== "string") return `its \`${member}\` is not a string`;
  }
  for (const [member, value] of Object.entries({ outputSchema, annotations })) {
    if (value !== undefined && !isJsonObject(value)) return `its \`${member}\` is not an object`;
  }
  if (!isJsonObject(inputSchema)) return "its `inputSchema` is not an object";
  return schemaFault(inputSchema);
}

function isDeeper(value: JsonValue | undefined, levels: number): boolean {
  if (typeof value !== "object" || value === null) return false;
  if (levels === 0) return true;
  return Object.values(value).some((each) => isDeeper(each, levels - 1));
}

const schemaOf = (definition: JsonObject): JsonObject => (ownValue(definition, "inputSchema") ?? {}) as JsonObject;

/** Registers the schema of a definition that comes into force, as the tool's next version if it differs. */
async function registerSchema(
  scope: ChangeScope,
  server: McpServer,
  definition: JsonObject,
  digest: string = digestOf(schemaOf(definition)),
): Promise<void> {
  const description = ownValue(definition, "description");
  const isFit = typeof description === "string" && isToolDescription(description);
  const draft: ToolDraft = {
    name: `${server.name}.${ownValue(definition, "name") as string}`,
    description: isFit ? description : undefined,
    inputSchema: schemaOf(definition),
    source: ToolSource.GATEWAY,
  };
  await putToolVersion(scope, draft, digest);
}

/** Builds a tool from the versions that decide about it, in ascending order. */
function pinnedFrom(server: string, rows: readonly McpToolDefinitionRow[]): PinnedTool {
  const latest = rows.length - 1;
  const active = rows.findLastIndex(isAccepted);
  const name = rows[0]?.name ?? "";
  const pending = latest === active ? undefined : versionAt(rows, latest);
  return { name, registeredName: `${server}.${name}`, active: versionAt(rows, active), pending };
}

const isAccepted = ({ acceptedAtMs }: McpToolDefinitionRow): boolean => acceptedAtMs !== null;

function versionAt(rows: readonly McpToolDefinitionRow[], index: number): McpToolVersion | undefined {
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

function toolNotFound(server: McpServer, name: string): ControlPlaneError {
  return notFound(ErrorReason.MCP_TOOL_NOT_FOUND, "pinned tool", { tool: printable(name, 256), server: server.name });
}

function toolChanged({ name: server }: McpServer, { name, version, acceptedAtMs }: McpToolRow): ControlPlaneError {
  const isWaiting = (acceptedAtMs ?? null) === null;
  const waits = `waits to be accepted for tool \`${printable(name, 256)}\``;
  const message = isWaiting ? `version ${version} ${waits}; review it first` : `no version ${waits}`;
  const metadata = { server, tool: printable(name, 256), version: String(version) };
  return new ControlPlaneError(ErrorReason.MCP_TOOL_CHANGED, message, metadata);
}
