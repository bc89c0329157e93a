import { LRUCache } from "lru-cache";
import { ControlPlaneError, ErrorReason, invalidField, notFound } from "../errors.ts";
import type { ChangeScope } from "../log/changes.ts";
import type { WorkspaceLogs } from "../log/workspace-logs.ts";
import type { WorkspaceLog } from "../log/writer.ts";
import type { ControlChange, SealedMcpServer } from "../state/control-changes.ts";
import { type Database, stored } from "../store/database.ts";
import type { Encryptor } from "../store/encryptor.ts";
import { McpDefinitionEntity, McpServerEntity, type McpServerRow } from "../store/entities.ts";
import { forgetMcpTasks } from "../store/sql/mcp-tasks.ts";
import { readerWithin } from "../store/transaction.ts";
import { checkedText } from "./checked-text.ts";
import { driftFrom, driftSecondsOf, driftText } from "./mcp-drift.ts";
import { putMethodTools } from "./mcp-method-tools.ts";
import { checkedPassMeta, checkedPassMethods, checkedScrub, type McpPassing } from "./mcp-passing.ts";
import { nameTest } from "./name-search.ts";
import { type Page, type PageRequest, pageFrom } from "./page.ts";
import { maskedArguments, maskedUrl } from "./secret-masks.ts";
import { isSameOrigin } from "./url-origin.ts";

/** Treatment of new and changed tools: in force at once, or only once a person has accepted them. */
export type McpServerMode = "open" | "quarantine";

/** Values by name: headers, or environment variables. */
export type NamedSecrets = Readonly<Record<string, string>>;

/** An MCP server behind the gateway, with its secrets. */
export interface McpServer extends McpPassing {
  readonly workspaceId: string;
  readonly name: string;
  /** Streamable HTTP endpoint; null for a command. */
  readonly url: string | null;
  /** Program that speaks MCP over its standard streams; null for a URL. */
  readonly command: string | null;
  readonly args: readonly string[];
  readonly env: NamedSecrets;
  /** Headers of every request, by their lower-case names. */
  readonly headers: NamedSecrets;
  readonly mode: McpServerMode;
  /** Maximum age of the listing of definitions on which a call relies; 0 for a listing at each call. */
  readonly driftSeconds: number;
  /** The seconds that the registration names; null for the default of the mode. */
  readonly ownDriftSeconds: number | null;
  /** Seconds without a call and without an open stream after which a command is ended. */
  readonly idleSeconds: number;
  /** Increases with every change. */
  readonly revision: number;
  readonly createdAtMs: number;
  readonly updatedAtMs: number;
}

/** A new MCP server. */
export interface McpServerDraft {
  readonly name: string;
  readonly url: string | undefined;
  readonly command: string | undefined;
  readonly args: readonly string[];
  readonly env: readonly NamedSecret[];
  readonly headers: readonly NamedSecret[];
  readonly mode: McpServerMode;
  readonly passMethods: readonly string[];
  readonly passMeta: readonly string[];
  /** `each_call`, or seconds; undefined or empty for the default of the mode. */
  readonly drift: string | undefined;
  /** Default: 300. */
  readonly idleSeconds: number | undefined;
  readonly scrub: readonly string[];
}

/** A value with its name. */
export interface NamedSecret {
  readonly name: string;
  readonly value: string;
}

/** Changes of an MCP server; undefined members stay. */
export interface McpServerUpdate {
  readonly url: string | undefined;
  /** New values; an empty one removes its header. */
  readonly headers: readonly NamedSecret[];
  readonly mode: McpServerMode | undefined;
  readonly passMethods: readonly string[] | undefined;
  readonly passMeta: readonly string[] | undefined;
  /** `each_call`, or seconds; empty for the default of the mode. */
  readonly drift: string | undefined;
  readonly idleSeconds: number | undefined;
  readonly scrub: readonly string[] | undefined;
}

/** A server after an update. */
export interface UpdatedMcpServer {
  readonly server: McpServer;
  /** Names of the stored headers that a new origin of the URL dropped, sorted. */
  readonly droppedHeaders: readonly string[];
  /** Number of definitions in force that a new origin of the URL returned to quarantine. */
  readonly quarantined: number;
}

/** Parts of `McpServers`. */
export interface McpServersOptions {
  readonly database: Pick<Database, "orm">;
  readonly logs: Pick<WorkspaceLogs, "of">;
  readonly encryptor: Encryptor;
  /** Kinds of personal values that `scrub` may name. */
  readonly scrubKinds: readonly string[];
}

const MAX_SERVERS = 500;
/** Workspaces whose servers are in memory, and milliseconds after the last use. */
const CACHED_WORKSPACES = 1_000;
/** Characters of the cached servers. */
const CACHED_CHARACTERS = 33_554_432;
const CACHE_MS = 600_000;
const IDLE_SECONDS = 300;
const HEADER_NAME = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/;
const HEADER_VALUE = /^[\t\x20-\x7e\x80-\xff]*$/;
const ENV_NAME = /^[A-Za-z_][A-Za-z0-9_]*$/;
/** Headers that the gateway sets itself. */
const OWN_HEADERS =
  /^(host|connection|content-length|content-type|transfer-encoding|accept|upgrade|te|trailer|mcp-.*)$/;

/** Changes after which the cached servers of a workspace are stale. */
const CHANGES: ReadonlySet<ControlChange["type"]> = new Set([
  "mcp_server_created",
  "mcp_server_updated",
  "mcp_server_deleted",
]);

interface Cached {
  readonly servers: Promise<ReadonlyMap<string, McpServer>>;
  readonly unsubscribe: () => void;
}

/** Builds MCP_SERVER_NOT_FOUND. */
export const mcpServerNotFound = (name: string): ControlPlaneError =>
  notFound(ErrorReason.MCP_SERVER_NOT_FOUND, "MCP server", { server: name });

/** The MCP servers of every workspace. */
export class McpServers {
  readonly #orm: Database["orm"];
  readonly #logs: McpServersOptions["logs"];
  readonly #encryptor: Encryptor;
  readonly #scrubKinds: readonly string[];
  readonly #cache = new LRUCache<string, Cached>({
    max: CACHED_WORKSPACES,
    maxSize: CACHED_CHARACTERS,
    ttl: CACHE_MS,
    updateAgeOnGet: true,
    ttlAutopurge: true,
    dispose: ({ unsubscribe }) => unsubscribe(),
  });

  constructor({ database, logs, encryptor, scrubKinds }: McpServersOptions) {
    this.#orm = database.orm;
    this.#logs = logs;
    this.#encryptor = encryptor;
    this.#scrubKinds = scrubKinds;
  }

  /** Clears the cache, so that logs can be closed. */
  close(): void {
    this.#cache.clear();
  }

  /** Finds a server by its name in any case. */
  async find(workspaceId: string, name: string): Promise<McpServer | undefined> {
    const log = await this.#logs.of(workspaceId);
    const cached = this.#cache.get(workspaceId) ?? this.#read(log);
    return (await cached.servers).get(name.toLowerCase());
  }

  /** Returns a server. Rejects with MCP_SERVER_NOT_FOUND. */
  async get(workspaceId: string, name: string): Promise<McpServer> {
    const server = await this.find(workspaceId, name);
    if (server === undefined) throw mcpServerNotFound(name);
    return server;
  }

  /** Tests whether any workspace has a server. */
  async areRegistered(): Promise<boolean> {
    return (await stored(this.#orm.em.fork().find(McpServerEntity, {}, { limit: 1 }))).length > 0;
  }

  /** Lists the servers by name. */
  async list(workspaceId: string, search: string, page: PageRequest<string>): Promise<Page<McpServer, string>> {
    const { size, after } = page;
    const where = { workspaceId, ...(after === undefined ? {} : { name: { $gt: after } }) };
    const limit = search === "" ? size + 1 : MAX_SERVERS;
    const options = { orderBy: { name: "asc" as const }, limit };
    const rows = await stored(this.#orm.em.fork().find(McpServerEntity, where, options));
    const isWanted = nameTest(search);
    const found = rows.filter(({ name }) => isWanted(name)).slice(0, size + 1);
    return pageFrom(
      found.map((row) => this.#serverFrom(row)),
      size,
      ({ name }) => name,
    );
  }

  /** Registers a server. Rejects with INVALID_FIELD and MCP_SERVER_EXISTS. The URL MUST have been checked. */
  async create(workspaceId: string, by: string, draft: McpServerDraft): Promise<McpServer> {
    const checked = checkedDraft(draft, this.#scrubKinds);
    const log = await this.#logs.of(workspaceId);
    return log.change(by, async (scope) => {
      const { transaction, nowMs, seal } = scope;
      const { name } = draft;
      const existing = await transaction.count(McpServerEntity, { workspaceId });
      if (existing >= MAX_SERVERS)
        throw invalidField("name", `is one too many: a workspace has at most ${MAX_SERVERS} servers`);
      if ((await transaction.findOne(McpServerEntity, { workspaceId, name })) !== null) {
        throw new ControlPlaneError(ErrorReason.MCP_SERVER_EXISTS, `an MCP server \`${name}\` exists`, {
          server: name,
        });
      }
      const row = this.#rowFrom({ ...checked, workspaceId, revision: 1, createdAtMs: nowMs, updatedAtMs: nowMs });
      await transaction.insert(McpServerEntity, { ...row });
      seal({ type: "mcp_server_created", mcp_server: sealedFrom(row) });
      // A rule about a method may be written before the first use.
      await putMethodTools(scope, row);
      return this.#serverFrom(row);
    });
  }

  /**
   * Changes a server. A new origin of its URL drops the stored headers that the update does not name, and returns its definitions
   * to quarantine, also those of an `open` server unless the update itself says `open`. Rejects with MCP_SERVER_NOT_FOUND and
   * INVALID_FIELD. The URL MUST have been checked.
   */
  async update(workspaceId: string, by: string, name: string, update: McpServerUpdate): Promise<UpdatedMcpServer> {
    const log = await this.#logs.of(workspaceId);
    return log.change(by, async (scope) => {
      const { transaction, nowMs, seal } = scope;
      const before = this.#serverFrom(await getRow(scope, name));
      const { url = before.url } = update;
      if (update.url !== undefined && before.url === null) throw invalidField("url", "is for a server that has a URL");
      const hasMoved = url !== null && before.url !== null && !isSameOrigin(url, before.url);
      // A person who can name an origin must not be sent what was stored for another one, nor inherit its accepted definitions.
      const kept = hasMoved ? {} : before.headers;
      const headers = headersAfter(before, kept, update.headers);
      const mode = update.mode ?? (hasMoved ? "quarantine" : before.mode);
      const changed = {
        ...limitsAfter(before, { ...update, mode }, this.#scrubKinds),
        url,
        headers,
        revision: before.revision + 1,
        updatedAtMs: nowMs,
      };
      const row = this.#rowFrom({ ...before, ...changed });
      await transaction.nativeUpdate(McpServerEntity, { workspaceId, name: before.name }, { ...row });
      const server = this.#serverFrom(row);
      const mcp_server = sealedFrom(row);
      if (!hasMoved) {
        seal({ type: "mcp_server_updated", mcp_server });
        return { server, droppedHeaders: [], quarantined: 0 };
      }
      const named = new Set(update.headers.map((header) => header.name.toLowerCase()));
      const droppedHeaders = Object.keys(before.headers)
        .filter((header) => !named.has(header))
        .sort();
      const quarantined = mode === "quarantine" ? await quarantineDefinitions(scope, before.name) : 0;
      const new_origin = { dropped_headers: droppedHeaders, quarantined };
      seal({ type: "mcp_server_updated", mcp_server, new_origin });
      return { server, droppedHeaders, quarantined };
    });
  }

  /** Deletes a server with its pinned definitions, and returns it. Rejects with MCP_SERVER_NOT_FOUND. */
  async delete(workspaceId: string, by: string, name: string): Promise<McpServer> {
    const log = await this.#logs.of(workspaceId);
    return log.change(by, async (scope) => {
      const { transaction, seal } = scope;
      const row = await getRow(scope, name);
      await transaction.nativeDelete(McpServerEntity, { workspaceId, name: row.name });
      await transaction.nativeDelete(McpDefinitionEntity, { workspaceId, server: row.name });
      await readerWithin(transaction).query({ text: forgetMcpTasks, values: [workspaceId, row.name] });
      seal({ type: "mcp_server_deleted", name: row.name });
      return this.#serverFrom(row);
    });
  }

  #read(log: WorkspaceLog): Cached {
    const { workspaceId } = log;
    const forget = () => this.#cache.delete(workspaceId);
    const unsubscribe = log.subscribe((events) => {
      if (events.some((event) => event.kind === "change" && CHANGES.has(event.change.type))) forget();
    });
    const servers = stored(this.#orm.em.fork().find(McpServerEntity, { workspaceId })).then(
      (rows) => new Map(rows.map((row) => [row.name, this.#serverFrom(row)] as const)),
    );
    const cached = { servers, unsubscribe };
    this.#cache.set(workspaceId, cached, { size: 1 });
    servers.then((known) => {
      if (this.#cache.peek(workspaceId) !== cached) return;
      const size = 1 + JSON.stringify([...known.values()]).length;
      this.#cache.set(workspaceId, { ...cached }, { size, noDisposeOnSet: true });
    }, forget);
    return cached;
  }

  #serverFrom(row: McpServerRow): McpServer {
    const { workspaceId, name, url = null, command = null, args, quarantine, revision, createdAtMs, updatedAtMs } = row;
    const { passMethods, passMeta, driftSeconds: ownDriftSeconds = null, idleSeconds, scrub } = row;
    const mode = quarantine ? "quarantine" : "open";
    const open = (column: string, sealed: Uint8Array): NamedSecrets =>
      JSON.parse(this.#encryptor.decrypt(workspaceId, `mcp_server.${column} ${name}`, sealed));
    return {
      workspaceId,
      name,
      url,
      command,
      args,
      revision,
      createdAtMs,
      updatedAtMs,
      env: open("sealed_env", row.sealedEnv),
      headers: open("sealed_headers", row.sealedHeaders),
      mode,
      passMethods,
      passMeta,
      ownDriftSeconds,
      driftSeconds: driftSecondsOf(ownDriftSeconds, mode),
      idleSeconds,
      scrub,
    };
  }

  #rowFrom({ env, headers, mode, ownDriftSeconds, ...rest }: McpServer): McpServerRow {
    const seal = (column: string, values: NamedSecrets): Buffer =>
      this.#encryptor.encrypt(rest.workspaceId, `mcp_server.${column} ${rest.name}`, JSON.stringify(values));
    return {
      ...rest,
      args: [...rest.args],
      envNames: Object.keys(env).sort(),
      sealedEnv: seal("sealed_env", env),
      headerNames: Object.keys(headers).sort(),
      sealedHeaders: seal("sealed_headers", headers),
      quarantine: mode === "quarantine",
      passMethods: [...rest.passMethods],
      passMeta: [...rest.passMeta],
      driftSeconds: ownDriftSeconds,
      scrub: [...rest.scrub],
    } as McpServerRow;
  }
}

/** Takes every definition of a server out of force, and returns the number of those that were in force. */
async function quarantineDefinitions({ transaction, state }: ChangeScope, server: string): Promise<number> {
  const where = { workspaceId: state.workspaceId, server, acceptedAtMs: { $ne: null } };
  const accepted = await transaction.find(McpDefinitionEntity, where, { fields: ["kind", "name"] });
  await transaction.nativeUpdate(McpDefinitionEntity, where, { acceptedBy: null, acceptedAtMs: null });
  return new Set(accepted.map(({ kind, name }) => `${kind} ${name}`)).size;
}

async function getRow({ transaction, state }: ChangeScope, name: string): Promise<McpServerRow> {
  const where = { workspaceId: state.workspaceId, name: name.toLowerCase() };
  const row = await transaction.findOne(McpServerEntity, where);
  if (row === null) throw mcpServerNotFound(name);
  return row;
}

/** Builds the sealed form. The log has no place for secrets, so a URL and arguments are masked. */
function sealedFrom(row: McpServerRow): SealedMcpServer {
  const { name, url = null, command = null, args, envNames, headerNames, quarantine } = row;
  const mode = quarantine ? "quarantine" : "open";
  return {
    name,
    url: url === null ? null : maskedUrl(url),
    command,
    args: maskedArguments(args),
    env_names: envNames,
    header_names: headerNames,
    mode,
    pass_methods: row.passMethods,
    pass_meta: row.passMeta,
    drift: driftText(driftSecondsOf(row.driftSeconds ?? null, mode)),
    idle_seconds: command === null ? null : row.idleSeconds,
    scrub: row.scrub,
  };
}

/** Checks the fields that need no state. Throws INVALID_FIELD. */
function checkedDraft(
  draft: McpServerDraft,
  scrubKinds: readonly string[],
): Omit<McpServer, "workspaceId" | "revision" | "createdAtMs" | "updatedAtMs"> {
  const { name, url, command, args, mode, idleSeconds } = draft;
  if ((url === undefined) === (command === undefined)) {
    throw invalidField("url", "or `command` must be given, and not both: a server is reached by one of them");
  }
  if (command !== undefined) {
    if (checkedText("command", command).trim() === "") throw invalidField("command", "must not be blank");
    for (const [index, arg] of args.entries()) checkedText(`args[${index}]`, arg);
  } else if (args.length > 0) throw invalidField("args", "go with a `command` only");
  if (command === undefined && draft.env.length > 0) throw invalidField("env", "goes with a `command` only");
  if (url === undefined && draft.headers.length > 0) throw invalidField("headers", "go with a `url` only");
  if (command === undefined && idleSeconds !== undefined)
    throw invalidField("idle_seconds", "goes with a `command` only");
  const ownDriftSeconds = driftFrom(draft.drift ?? "");
  return {
    name,
    url: url ?? null,
    command: command ?? null,
    args,
    env: secretsFrom("env", draft.env, checkedVariable),
    headers: secretsFrom("headers", draft.headers, checkedHeader),
    mode,
    passMethods: checkedPassMethods(draft.passMethods),
    passMeta: checkedPassMeta(draft.passMeta),
    ownDriftSeconds,
    driftSeconds: driftSecondsOf(ownDriftSeconds, mode),
    idleSeconds: idleSeconds ?? IDLE_SECONDS,
    scrub: checkedScrub(draft.scrub, scrubKinds),
  };
}

/** Returns mode, times and lists after an update. Throws INVALID_FIELD. */
function limitsAfter(before: McpServer, update: McpServerUpdate, scrubKinds: readonly string[]) {
  const { passMethods, passMeta, drift, idleSeconds, scrub } = update;
  if (idleSeconds !== undefined && before.command === null)
    throw invalidField("idle_seconds", "goes with a `command` only");
  const mode = update.mode ?? before.mode;
  const ownDriftSeconds = drift === undefined ? before.ownDriftSeconds : driftFrom(drift);
  return {
    mode,
    passMethods: passMethods === undefined ? before.passMethods : checkedPassMethods(passMethods),
    passMeta: passMeta === undefined ? before.passMeta : checkedPassMeta(passMeta),
    ownDriftSeconds,
    driftSeconds: driftSecondsOf(ownDriftSeconds, mode),
    idleSeconds: idleSeconds ?? before.idleSeconds,
    scrub: scrub === undefined ? before.scrub : checkedScrub(scrub, scrubKinds),
  };
}

function secretsFrom(
  field: string,
  given: readonly NamedSecret[],
  check: (field: string, secret: NamedSecret) => string,
): NamedSecrets {
  const values = new Map<string, string>();
  given.forEach((secret, index) => {
    const name = check(`${field}[${index}]`, secret);
    if (values.has(name)) throw invalidField(`${field}[${index}].name`, "is given more than once");
    values.set(name, secret.value);
  });
  return Object.fromEntries(values);
}

function checkedVariable(field: string, { name, value }: NamedSecret): string {
  if (!ENV_NAME.test(name))
    throw invalidField(`${field}.name`, "must be letters, digits and `_`, not beginning with a digit");
  if (value.includes("\u0000")) throw invalidField(`${field}.value`, "must not hold U+0000");
  return name;
}

function checkedHeader(field: string, { name, value }: NamedSecret): string {
  const lower = name.toLowerCase();
  if (!HEADER_NAME.test(name)) throw invalidField(`${field}.name`, "must be the name of an HTTP header");
  if (OWN_HEADERS.test(lower)) throw invalidField(`${field}.name`, "is a header that the gateway sets itself");
  if (!HEADER_VALUE.test(value))
    throw invalidField(`${field}.value`, "must be a value of an HTTP header: one line of Latin-1");
  return lower;
}

/** Returns the headers after an update. `kept`: the stored ones that stay unless they are named. */
function headersAfter({ url }: McpServer, kept: NamedSecrets, given: readonly NamedSecret[]): NamedSecrets {
  if (given.length > 0 && url === null) throw invalidField("headers", "go with a `url` only");
  const changed = secretsFrom("headers", given, checkedHeader);
  return Object.fromEntries(Object.entries({ ...kept, ...changed }).filter(([, value]) => value !== ""));
}
