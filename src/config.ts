import { existsSync, realpathSync } from "node:fs";
import { isIP } from "node:net";
import { homedir } from "node:os";
import { basename, dirname, join, relative, resolve } from "node:path";
import { inspect } from "node:util";
import { RATE_FORM, type Rate, rateFrom } from "./async/rate.ts";
import { readSettingsFile } from "./settings/file.ts";
import { isServiceAddress, judgeName, nearestName, PREFIX } from "./settings/names.ts";

/** Directory of state. Relative to the program, so that each clone has its own data. */
const DEFAULT_DATA_DIR = ".data";
/** Loopback: a first start is not reachable from the network. */
export const DEFAULT_HOST = "127.0.0.1";
/** Port of REST, Connect and gRPC-Web. */
export const DEFAULT_HTTP_PORT = 7080;
/** Port of native gRPC. */
export const DEFAULT_GRPC_PORT = 7090;
const DEFAULT_LOG_LEVEL = "info";
/** Name of the service in checkpoints. Not an address: a log keeps its name when the service moves. */
const DEFAULT_VAULT_ORIGIN = "agent-control-plane";
/** Worker processes. One process decides a workspace fastest; more serve more workspaces and availability. */
const DEFAULT_WORKERS = 1;
/** Database connections per process: appends are batched, so ten keep two cores busy. */
const DEFAULT_POOL_SIZE = 10;
/** Maximum bytes of one request on any wire: far above a tool call, far below what memory allows. */
const DEFAULT_MAX_BODY_BYTES = 1_048_576;
/** Deadline of unary calls that set none, milliseconds. */
const DEFAULT_DEADLINE_MS = 10_000;
/** Interval between heartbeats of a stream, milliseconds: common proxies drop connections that idle for 30 s. */
const DEFAULT_STREAM_HEARTBEAT_MS = 15_000;
/** Time that open streams get after a stop signal, milliseconds: containers are killed after 10 s. */
const DEFAULT_DRAIN_MS = 5_000;
/** Time for which a stopping process on an external database goes on serving, milliseconds: balancers look every few seconds. */
const DEFAULT_LAME_DUCK_MS = 5_000;
/** Deadline of a model's verdict, milliseconds: half of a call's deadline, so that a refusal still arrives. */
const DEFAULT_GUARD_DEADLINE_MS = 5_000;

/** Push services of Chrome, Firefox and Safari. */
const DEFAULT_PUSH_HOSTS = "fcm.googleapis.com,updates.push.services.mozilla.com,web.push.apple.com";
const DEFAULT_SLACK_URL = "https://slack.com/api";

/** Below the 60 s after which many MCP clients drop a call. */
const DEFAULT_MCP_HOLD_MS = 50_000;
const DEFAULT_MCP_ANSWER_MS = 300_000;
const DEFAULT_MCP_MAX_RESULT_BYTES = 8_388_608;
/** Above the accounts of people, below those that names are given to in common distributions. */
const DEFAULT_MCP_UIDS = "61000-61511";
/** Processes and threads: a Node.js program has a dozen threads, a browser some hundred. */
const DEFAULT_MCP_MAX_PROCESSES = 1_024;
const DEFAULT_MCP_MAX_MEMORY_BYTES = 2_147_483_648;
const SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/** Scopes that an issuer is asked for; the groups may need a further one. */
const DEFAULT_OIDC_SCOPE = "openid profile email";
/** Claim that holds a person's groups. */
const DEFAULT_OIDC_GROUPS_CLAIM = "groups";
/** Name of the sign-in on its button. */
const DEFAULT_OIDC_LABEL = "single sign-on";
/** Maximum number of entries in `ACP_OIDC_GROUP_MAP`. */
const MAX_OIDC_GROUPS = 1_000;
/** Maximum number of user ids in `ACP_MCP_UIDS`. */
const MAX_UIDS = 65_536;

const LOG_LEVELS = ["fatal", "error", "warn", "info", "debug", "trace", "silent"] as const;
/** Verbosity of the log, ascending except for `silent`. */
export type LogLevel = (typeof LOG_LEVELS)[number];

/** A secret. Prints as `***`, or as the text given as `shown`; only `reveal()` returns the value. */
export class Secret {
  readonly #value: string;
  readonly #shown: string;

  constructor(value: string, shown = "***") {
    this.#value = value;
    this.#shown = shown;
  }

  reveal(): string {
    return this.#value;
  }

  toString(): string {
    return this.#shown;
  }

  toJSON(): string {
    return this.#shown;
  }

  [inspect.custom](): string {
    return this.#shown;
  }
}

/** Roles that a person may have. */
const PERSON_ROLES = ["admin", "operator", "auditor"] as const;

/** Role that members of a group get in a workspace. */
export interface OidcGroup {
  readonly group: string;
  readonly workspaceId: string;
  readonly role: (typeof PERSON_ROLES)[number];
}

/** Settings of a process, complete after loading: `null` switches a part off. */
export interface Config {
  /** Path of a YAML file of settings; null: none. */
  readonly configFile: string | null;
  /** A `postgresql://` URL, printed without its password; null: the embedded PostgreSQL in `dataDir`. */
  readonly databaseUrl: Secret | null;
  /** A URL that logs in as the owner of the tables; null: another process migrates, or `databaseUrl` does both. */
  readonly databaseOwnerUrl: Secret | null;
  /** Pooler behind `databaseUrl` that gives a connection to one transaction at a time; null: sessions are kept. */
  readonly databasePooler: "transaction" | null;
  /** URL of the login of `databaseUrl` past the pooler; null exactly when `databasePooler` is. */
  readonly databaseDirectUrl: Secret | null;
  /** False: the service refuses a database of an older version. */
  readonly migrates: boolean;
  /** A `redis://` or `rediss://` URL, printed without its password; null: no Redis. */
  readonly redisUrl: Secret | null;
  readonly dataDir: string;
  /** The administrator's key; null: generated on first start. */
  readonly adminKey: Secret | null;
  /** Bearer token that opens `/metrics` and gRPC reflection; null: keys alone do. */
  readonly metricsToken: Secret | null;
  /** ECDSA P-256 private key in PEM, or its file's path; null: generated in `dataDir`. */
  readonly signingKey: Secret | null;
  /** Secret that encrypts personal values and the secrets of webhooks; null: generated in `dataDir`. */
  readonly encryptionKey: Secret | null;
  /** Earlier `encryptionKey`, for reading; the start encrypts anew what it finds under it. Null: none. */
  readonly encryptionKeyOld: Secret | null;
  readonly host: string;
  /** 0: any free port. */
  readonly httpPort: number;
  /** 0: any free port. */
  readonly grpcPort: number;
  /** File with the certificate of both ports and those of its issuers, in PEM; null: the ports speak no TLS. */
  readonly tlsCert: string | null;
  /** File with its private key; null exactly when `tlsCert` is. */
  readonly tlsKey: string | null;
  /** File with the issuers of client certificates, which every connection then needs; null: connections need none. */
  readonly tlsClientCa: string | null;
  readonly logLevel: LogLevel;
  /** Processes that share the two ports. */
  readonly workers: number;
  /** Database connections per process. */
  readonly poolSize: number;
  readonly maxBodyBytes: number;
  readonly defaultDeadlineMs: number;
  readonly streamHeartbeatMs: number;
  readonly drainMs: number;
  /** Milliseconds for which a process that is told to stop says so and goes on serving, before it drains. */
  readonly lameDuckMs: number;
  /** Name of the service in checkpoints. MUST NOT change: a signature under another name belongs to another log. */
  readonly vaultOrigin: string;
  /** File for kept checkpoints; null: none. */
  readonly checkpointFile: string | null;
  /** Receiver of checkpoints over HTTP; null: none. */
  readonly checkpointUrl: Secret | null;
  /** Bearer token for `checkpointUrl`; null: none. */
  readonly checkpointToken: Secret | null;
  /** Address at which browsers reach the service, without a slash at the end; null: that of their requests. */
  readonly publicUrl: string | null;
  /** Origins whose pages may call the API with a key. */
  readonly corsOrigins: readonly string[];
  /** Calls of one key; null: no limit. */
  readonly rateLimitKey: Rate | null;
  /** Calls of one workspace; null: no limit. */
  readonly rateLimitWorkspace: Rate | null;
  /** Calls of the process; null: no limit. */
  readonly rateLimitProcess: Rate | null;
  /** OpenID Connect issuer that people sign in with; null: they sign in with keys alone. */
  readonly oidcIssuer: string | null;
  /** Null exactly when `oidcIssuer` is. */
  readonly oidcClientId: string | null;
  /** Null exactly when `oidcIssuer` is. */
  readonly oidcClientSecret: Secret | null;
  readonly oidcScope: string;
  readonly oidcGroupsClaim: string;
  /** In the order of precedence; empty exactly when `oidcIssuer` is null. */
  readonly oidcGroupMap: readonly OidcGroup[];
  readonly oidcLabel: string;
  /** CIDR blocks of allowed private webhook targets; empty: public targets only. */
  readonly webhookAllow: readonly string[];
  /** Hosts of push services, lower case; `*.x` for every host below x. */
  readonly pushHosts: readonly string[];
  /** Address of Slack's Web API, without a slash at its end. */
  readonly slackUrl: string;
  /** CIDR blocks of allowed private MCP servers; empty: public ones only. */
  readonly mcpAllow: readonly string[];
  /** Host names by which MCP clients reach the service, beside loopback and that of `publicUrl`. */
  readonly mcpHosts: readonly string[];
  /** Milliseconds for which a tool call waits for a person. */
  readonly mcpHoldMs: number;
  /** The same for a client that asked for progress; null: as long as for any other. */
  readonly mcpProgressHoldMs: number | null;
  readonly mcpAnswerMs: number;
  /** Issuer of access tokens that MCP clients may present; null: none. */
  readonly mcpOidcIssuer: string | null;
  /** Audience of these tokens beside the URL of the server; null: none. */
  readonly mcpOidcAudience: string | null;
  readonly mcpOidcAgentClaim: string;
  readonly mcpOidcWorkspace: string;
  /** Scope that these tokens must have; null: none. */
  readonly mcpOidcScope: string | null;
  readonly mcpMaxResultBytes: number;
  /** User ids for running MCP commands, bounds included; used by root. */
  readonly mcpUids: { readonly from: number; readonly to: number };
  /** Runs MCP commands as the service's own user where nothing isolates them. */
  readonly mcpAllowSameUser: boolean;
  /** Folder of the homes of MCP commands; null: the default of the service's user. */
  readonly mcpHomes: string | null;
  /** Search path of MCP commands. */
  readonly mcpPath: string;
  /** Folders that sandboxed MCP commands may read although they lie in hidden places, or may write. */
  readonly mcpFolders: readonly { readonly path: string; readonly isWritable: boolean }[];
  readonly mcpMaxProcesses: number;
  readonly mcpMaxMemoryBytes: number;
  /** Base address of the model service behind the redaction proxy, ends in `/v1`; null: none. */
  readonly llmUrl: string | null;
  readonly llmKey: Secret | null;
  /** Base address of the model service for `semantic` rules, ends in `/v1`; null: none. */
  readonly guardUrl: string | null;
  /** Null exactly when `guardUrl` is. */
  readonly guardModel: string | null;
  readonly guardKey: Secret | null;
  readonly guardDeadlineMs: number;
}

/** One row of the README's table of variables. */
export interface ConfigVariable {
  readonly name: string;
  /** Text as in the environment; null: unset. */
  readonly default: string | null;
  readonly meaning: string;
}

/** All faults of the environment, one line each: the variable and how to correct it. */
export class ConfigError extends Error {
  override readonly name = "ConfigError";
  readonly problems: readonly string[];

  constructor(problems: readonly string[]) {
    super(problems.join("\n"));
    this.problems = problems;
  }
}

/** Reads one value; throws an `Error` whose message continues "NAME …". */
type Read<T> = (text: string) => T;

/** Reads a whole number within inclusive bounds; messages insert `unit` after "number": ` of bytes`. */
function whole(min: number, max: number, unit = ""): Read<number> {
  return (text) => {
    const value = /^\d{1,15}$/.test(text) ? Number(text) : Number.NaN;
    if (value >= min && value <= max) return value;
    throw new Error(`must be a whole number${unit} from ${min} to ${max}, not \`${text}\``);
  };
}

/** Reads one of some words, ignoring case. */
function oneOf<T extends string>(words: readonly T[]): Read<T> {
  return (text) => {
    const word = words.find((known) => known === text.toLowerCase());
    if (word !== undefined) return word;
    throw new Error(`must be one of ${words.join(", ")}, not \`${text}\``);
  };
}

/** Masks passwords in the user info and in query parameters. */
function masked(url: URL): string {
  const copy = new URL(url);
  if (copy.password !== "") copy.password = "***";
  for (const name of copy.searchParams.keys()) {
    if (/pass|key|secret|token/i.test(name)) copy.searchParams.set(name, "***");
  }
  return copy.href;
}

/** Reads a URL as a secret that prints without its password; messages show `form` as an example. */
function secretUrl(protocols: readonly string[], accepts: (url: URL) => boolean, form: string): Read<Secret> {
  return (text) => {
    const url = URL.canParse(text) ? new URL(text) : undefined;
    // The value may contain a password: the message does not repeat it.
    if (!url || !protocols.includes(url.protocol) || !accepts(url)) throw new Error(`must have the form ${form}`);
    return new Secret(text, masked(url));
  };
}

/** Reads an http or https URL of host and path only, ending in `/v1`. */
function modelUrl(text: string): string {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  const isPlain = url !== undefined && `${url.origin}${url.pathname}` === url.href && url.pathname.endsWith("/v1");
  if (isPlain && ["http:", "https:"].includes(url.protocol)) return url.href;
  // The value may contain a password: the message does not repeat it.
  throw new Error("must have the form https://host/v1, without user, query or fragment");
}

/** Reads an address of the service as browsers see it. */
function publicUrl(text: string): string {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  const isPlain =
    url !== undefined && url.pathname === "/" && url.search === "" && url.hash === "" && url.username === "";
  if (isPlain && /^https?:$/.test(url.protocol)) return url.origin;
  throw new Error(`must be an address such as https://acp.example.com, not \`${text}\``);
}

/** Reads an issuer: https, or http on this host. */
function oidcIssuer(text: string): string {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  // A `|` would end the issuer in the names of its people.
  const isAscii = /^https?:[!-{}~]+$/.test(text);
  const isPlain =
    isAscii && url !== undefined && url.search === "" && url.hash === "" && url.username === "" && url.password === "";
  // The issuer that a discovery document names is not checked when its own address is given.
  const isIssuer = isPlain && !url.pathname.includes("/.well-known/");
  if (isIssuer && (url.protocol === "https:" || (url.protocol === "http:" && isLoopback(url.hostname)))) return text;
  // The value may contain a password: the message does not repeat it.
  throw new Error("must be an https address such as https://login.example.com/tenant; http is for this host only");
}

/** True for a host name that leads to this host. */
export const isLoopback = (hostname: string): boolean =>
  hostname === "localhost" || hostname === "[::1]" || (isIP(hostname) === 4 && hostname.startsWith("127."));

/** Reads visible ASCII characters: a client's id, the name of a claim. */
function visibleText(text: string): string {
  if (/^[\x21-\x7e]{1,256}$/.test(text)) return text;
  throw new Error("must be 1 to 256 printable ASCII characters without spaces");
}

/** Reads the scopes of a sign-in. */
function oidcScope(text: string): string {
  const scopes = text.split(/ +/);
  const areScopes = text.length <= 512 && scopes.every((scope) => /^[\x21\x23-\x5b\x5d-\x7e]+$/.test(scope));
  if (areScopes && scopes.includes("openid")) return scopes.join(" ");
  throw new Error(`must be scopes separated by spaces, with \`openid\` among them, not \`${text}\``);
}

/** Reads the name of a button. */
function label(text: string): string {
  if (/^[\p{L}\p{M}\p{N}\p{P}\p{S} ]{1,64}$/u.test(text)) return text;
  throw new Error("must be 1 to 64 letters, digits, signs and spaces");
}

const WORKSPACE_AND_ROLE = /^([a-z][a-z0-9-]{1,62}):([a-z]+)$/;

/** Reads one `group=workspace:role`. */
function oidcGroup(entry: string): OidcGroup {
  const end = entry.lastIndexOf("=");
  const group = decodedGroup(entry.slice(0, Math.max(end, 0)).trim());
  const [, workspaceId = "", word = ""] = WORKSPACE_AND_ROLE.exec(entry.slice(end + 1).trim()) ?? [];
  const role = PERSON_ROLES.find((known) => known === word);
  if (group !== undefined && group !== "" && role !== undefined) return { group, workspaceId, role };
  const form = `group=workspace:role with a role of ${PERSON_ROLES.join(", ")}`;
  throw new Error(`must have the form ${form}, separated by commas; \`${entry.trim()}\` does not`);
}

function decodedGroup(text: string): string | undefined {
  try {
    return decodeURIComponent(text);
  } catch {
    return undefined;
  }
}

/** Reads the roles of groups. */
function oidcGroupMap(text: string): readonly OidcGroup[] {
  const entries = text === "" ? [] : text.split(",");
  if (entries.length > MAX_OIDC_GROUPS) throw new Error(`must have at most ${MAX_OIDC_GROUPS} groups`);
  return entries.map(oidcGroup);
}

/** Reads origins as browsers write them in `Origin`. */
function origins(text: string): readonly string[] {
  const entries = text === "" ? [] : text.split(",").map((entry) => entry.trim());
  return entries.map((entry) => {
    if (entry === "*") {
      throw new Error(
        "must list exact origins, not `*`: keys are credentials, and any page could use one that it came by",
      );
    }
    const url = URL.canParse(entry) ? new URL(entry) : undefined;
    const isHttp = url?.protocol === "https:" || url?.protocol === "http:";
    if (url !== undefined && isHttp && url.origin === entry) return entry;
    const advice = isHttp && url !== undefined ? `; write \`${url.origin}\`` : ", such as https://app.example.com";
    throw new Error(`must list origins as browsers send them, not \`${entry}\`${advice}`);
  });
}

/** Reads calls per second, with the calls that may come at once behind a colon. */
function rateLimit(text: string): Rate {
  const rate = rateFrom(text);
  if (rate !== undefined) return rate;
  throw new Error(`${RATE_FORM}, not \`${text}\``);
}

/** Reads the path of a file with a certificate or a key. */
function pemFile(text: string): string {
  // The message does not repeat the value, which may be the key itself.
  if (/-----|\p{Cc}/u.test(text) || text.length > 4_096)
    throw new Error("must be the path of a file in PEM, not its content");
  return text;
}

/** Reads the name of a model. */
function modelName(text: string): string {
  if (/^[\x21-\x7e]{1,128}$/.test(text)) return text;
  throw new Error(`must be 1 to 128 printable ASCII characters without spaces, not \`${text}\``);
}

/** Reads an API key that is sent in a header. */
function modelKey(text: string): Secret {
  if (/^[\x21-\x7e]{1,4096}$/.test(text)) return new Secret(text);
  throw new Error("must be printable ASCII characters without spaces");
}

/** Reads the secret that encrypts: as long as a key, so as hard to guess. */
function encryptionKey(text: string): Secret {
  if (/^[\x21-\x7e]{32,256}$/.test(text)) return new Secret(text);
  throw new Error("must be 32 to 256 printable ASCII characters without spaces");
}

/** Reads a key or token: long enough not to be guessed. */
function adminKey(text: string): Secret {
  if (/^[\x21-\x7e]{16,256}$/.test(text)) return new Secret(text);
  throw new Error("must be 16 to 256 printable ASCII characters without spaces");
}

/** Reads an IP address or a host name. */
function host(text: string): string {
  if (
    isIP(text) !== 0 ||
    /^(?=.{1,253}$)[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*$/i.test(text)
  ) {
    return text;
  }
  throw new Error(`must be an IP address or a host name, not \`${text}\``);
}

/** Reads a URL without scheme: host name, optional port, optional path. */
function origin(text: string): string {
  if (/^(?=.{1,200}$)[a-z0-9][a-z0-9.-]*(:\d{1,5})?(\/[a-z0-9._~-]+)*$/.test(text)) return text;
  throw new Error(`must be a URL without scheme, such as log.example.com/agents, not \`${text}\``);
}

function isCidr(block: string): boolean {
  const [address = "", bits = "", ...rest] = block.split("/");
  const family = isIP(address);
  return rest.length === 0 && family !== 0 && /^\d{1,3}$/.test(bits) && Number(bits) <= (family === 4 ? 32 : 128);
}

/** Reads comma-separated CIDR blocks. */
function cidrs(text: string): readonly string[] {
  const blocks = text === "" ? [] : text.split(",").map((block) => block.trim());
  const wrong = blocks.find((block) => !isCidr(block));
  if (wrong === undefined) return blocks;
  throw new Error(`must be CIDR blocks separated by commas, such as 10.0.0.0/8,fd00::/8; \`${wrong}\` is not one`);
}

/** Reads comma-separated host names. */
function hosts(text: string): readonly string[] {
  return text === "" ? [] : text.split(",").map((each) => host(each.trim()).toLowerCase());
}

/** Reads host names, each of which may stand for every host below it. */
function pushHosts(text: string): readonly string[] {
  if (text.trim() === "") return [];
  return text.split(",").map((each) => {
    const name = each.trim();
    const isBelow = name.startsWith("*.");
    return (isBelow ? "*." : "") + host(isBelow ? name.slice(2) : name).toLowerCase();
  });
}

/** Reads the address of an API, without a slash at its end. */
function slackUrl(text: string): string {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  const isPlain = url !== undefined && url.search === "" && url.hash === "" && url.username === "";
  if (isPlain && /^https?:$/.test(url.protocol)) return url.href.replace(/\/$/, "");
  throw new Error(`must be an address such as ${DEFAULT_SLACK_URL}, not \`${text}\``);
}

/** Reads a range of user ids. */
function uids(text: string): Config["mcpUids"] {
  const [, from = "", to = ""] = /^(\d{4,10})-(\d{4,10})$/.exec(text) ?? [];
  const range = { from: Number(from), to: Number(to) };
  const isRange = range.from >= 1_000 && range.from <= range.to && range.to < 4_294_967_294;
  if (isRange && range.to - range.from < MAX_UIDS) return range;
  throw new Error(`must be a range of at most ${MAX_UIDS} user ids from 1000 on, such as 61000-61511, not \`${text}\``);
}

/** Reads an absolute path. */
function absolutePath(text: string): string {
  if (text.startsWith("/") && !text.includes("\u0000")) return text;
  throw new Error(`must be an absolute path, not \`${text}\``);
}

/** Reads comma-separated folders; `:rw` behind one lets it be written. */
function folders(text: string): Config["mcpFolders"] {
  const entries = text === "" ? [] : text.split(",").map((each) => each.trim());
  return entries.map((entry) => {
    const isWritable = entry.endsWith(":rw");
    const path = isWritable ? entry.slice(0, -":rw".length) : entry;
    if (!path.includes(":")) return { path: absolutePath(path), isWritable };
    throw new Error(`must be absolute paths, with \`:rw\` behind those that may be written; \`${entry}\` is not one`);
  });
}

/** Reads a search path. */
function searchPath(text: string): string {
  return text.split(":").map(absolutePath).join(":");
}

/** Returns the search path that commands get: that of the service without what npm adds for its scripts. */
function commandPath(path = ""): string {
  const folders = path.split(":").filter((folder) => folder.startsWith("/") && !folder.includes("node_modules"));
  return [...new Set([...folders, ...SYSTEM_PATH.split(":")])].join(":");
}

const hasDatabaseName = (url: URL): boolean => url.pathname.length > 1;
const hasHost = (url: URL): boolean => url.hostname !== "" && /^\/?\d*$/.test(url.pathname);

interface Variable<T> extends ConfigVariable {
  readonly read: Read<T>;
}

function variable<T>(name: string, read: Read<T>, preset: string | number, meaning: string): Variable<T> {
  return { name, read, default: String(preset), meaning };
}

function optional<T>(name: string, read: Read<T>, meaning: string): Variable<T> & { readonly default: null } {
  return { name, read, default: null, meaning };
}

const CONFIG_FILE = "ACP_CONFIG";
const PORT = whole(0, 65_535);
const DATABASE_FORM = "postgresql://user:password@host:5432/database";
const DATABASE_URL = secretUrl(["postgres:", "postgresql:"], hasDatabaseName, DATABASE_FORM);
const VARIABLES = {
  configFile: optional(
    CONFIG_FILE,
    (text) => text,
    "path of a YAML file of these settings, under the same names; a variable of the environment wins over it, even an empty one",
  ),
  databaseUrl: optional(
    "DATABASE_URL",
    DATABASE_URL,
    "PostgreSQL to use, as a login that owns nothing; unset: an embedded one in `ACP_DATA_DIR`",
  ),
  databaseOwnerUrl: optional(
    "ACP_DATABASE_OWNER_URL",
    DATABASE_URL,
    "the same database as the owner of its tables, who migrates and grants the login of `DATABASE_URL` its rights; unset: another process migrates, or `DATABASE_URL` serves both, with a warning",
  ),
  databasePooler: optional(
    "ACP_DATABASE_POOLER",
    oneOf(["transaction"]),
    "`transaction`: `DATABASE_URL` leads to a pooler that gives out connections for one transaction, such as PgBouncer; unset: sessions are kept",
  ),
  databaseDirectUrl: optional(
    "ACP_DATABASE_DIRECT_URL",
    DATABASE_URL,
    "address of the same login past the pooler, for notifications, checks and migrations; required with `ACP_DATABASE_POOLER`",
  ),
  migrates: variable(
    "ACP_MIGRATE",
    (text) => oneOf(["on", "off"])(text) === "on",
    "on",
    "`off` leaves migrating to `agentctl migrate up`: the service then refuses a database of an older version",
  ),
  redisUrl: optional(
    "REDIS_URL",
    secretUrl(["redis:", "rediss:"], hasHost, "redis://user:password@host:6379/0"),
    "Redis that speeds up loading counters and waking other processes; may fail at any time; unset: the database does both",
  ),
  dataDir: variable(
    "ACP_DATA_DIR",
    (text) => text,
    DEFAULT_DATA_DIR,
    "directory of the embedded PostgreSQL and of generated keys, closed to other accounts",
  ),
  adminKey: optional(
    "ACP_ADMIN_KEY",
    adminKey,
    "administrator's API key; unset: generated and printed on first start; required with `DATABASE_URL` while no key exists",
  ),
  metricsToken: optional(
    "ACP_METRICS_TOKEN",
    adminKey,
    "bearer token that opens `/metrics` and gRPC reflection; unset: API keys alone do, and on a loopback `ACP_HOST` requests that no proxy has passed on",
  ),
  signingKey: optional(
    "ACP_SIGNING_KEY",
    (text) => new Secret(text),
    "ECDSA P-256 private key that signs checkpoints, certificates and tokens, PEM or file path; unset: generated in `ACP_DATA_DIR`; required with `DATABASE_URL`",
  ),
  encryptionKey: optional(
    "ACP_ENCRYPTION_KEY",
    encryptionKey,
    "secret that encrypts registered personal values, the secrets of webhooks and MCP servers, and the refresh tokens of people, at least 32 characters; unset: generated in `ACP_DATA_DIR`; required with `DATABASE_URL`",
  ),
  encryptionKeyOld: optional(
    "ACP_ENCRYPTION_KEY_OLD",
    encryptionKey,
    "earlier `ACP_ENCRYPTION_KEY`, under which values can still be read; each start encrypts them under the present one",
  ),
  host: variable("ACP_HOST", host, DEFAULT_HOST, "address to listen on"),
  httpPort: variable("ACP_HTTP_PORT", PORT, DEFAULT_HTTP_PORT, "port of REST, Connect and gRPC-Web; 0: any free port"),
  grpcPort: variable("ACP_GRPC_PORT", PORT, DEFAULT_GRPC_PORT, "port of gRPC; 0: any free port"),
  tlsCert: optional(
    "ACP_TLS_CERT",
    pemFile,
    "file with the certificate of both ports and those of its issuers, in PEM; read again when it changes; unset: no TLS",
  ),
  tlsKey: optional(
    "ACP_TLS_KEY",
    pemFile,
    "file with the private key of that certificate, in PEM without a passphrase",
  ),
  tlsClientCa: optional(
    "ACP_TLS_CLIENT_CA",
    pemFile,
    "file with certificates, in PEM, of which one must have issued the certificate of every client; unset: clients need none",
  ),
  logLevel: variable("ACP_LOG_LEVEL", oneOf(LOG_LEVELS), DEFAULT_LOG_LEVEL, `one of ${LOG_LEVELS.join(", ")}`),
  workers: variable("ACP_WORKERS", whole(1, 128), DEFAULT_WORKERS, "processes that share the two ports"),
  poolSize: variable("ACP_POOL_SIZE", whole(2, 500), DEFAULT_POOL_SIZE, "database connections per process"),
  maxBodyBytes: variable(
    "ACP_MAX_BODY_BYTES",
    whole(1_024, 67_108_864, " of bytes"),
    DEFAULT_MAX_BODY_BYTES,
    "maximum request size in bytes, on every wire",
  ),
  defaultDeadlineMs: variable(
    "ACP_DEFAULT_DEADLINE_MS",
    whole(100, 600_000, " of milliseconds"),
    DEFAULT_DEADLINE_MS,
    "deadline in milliseconds of unary calls that set none",
  ),
  streamHeartbeatMs: variable(
    "ACP_STREAM_HEARTBEAT_MS",
    whole(100, 600_000, " of milliseconds"),
    DEFAULT_STREAM_HEARTBEAT_MS,
    "milliseconds between heartbeats of a stream",
  ),
  drainMs: variable(
    "ACP_DRAIN_MS",
    whole(0, 600_000, " of milliseconds"),
    DEFAULT_DRAIN_MS,
    "milliseconds that open streams get after a stop signal",
  ),
  lameDuckMs: optional(
    "ACP_LAME_DUCK_MS",
    whole(0, 600_000, " of milliseconds"),
    `milliseconds for which a process goes on serving after a stop signal while \`/readyz\` answers 503; then it drains; unset: ${DEFAULT_LAME_DUCK_MS} with \`DATABASE_URL\`, 0 without`,
  ),
  checkpointFile: optional(
    "ACP_CHECKPOINT_FILE",
    absolutePath,
    "file to which the signed checkpoints of all logs are appended each minute, for somebody outside of the service to keep; unset: none",
  ),
  checkpointUrl: optional(
    "ACP_CHECKPOINT_URL",
    secretUrl(["https:", "http:"], (url) => url.username === "" && url.password === "", "https://host/path"),
    "receiver of the same checkpoints, each as the body of a POST in plain text; unset: none",
  ),
  checkpointToken: optional(
    "ACP_CHECKPOINT_TOKEN",
    modelKey,
    "bearer token sent to `ACP_CHECKPOINT_URL`; unset: none is sent",
  ),
  vaultOrigin: variable(
    "ACP_VAULT_ORIGIN",
    origin,
    DEFAULT_VAULT_ORIGIN,
    "name of the service in signed checkpoints, a URL without scheme; never change it",
  ),
  publicUrl: optional(
    "ACP_PUBLIC_URL",
    publicUrl,
    "address at which browsers reach the dashboard, such as https://acp.example.com; unset: as they ask for it",
  ),
  corsOrigins: variable(
    "ACP_CORS_ORIGINS",
    origins,
    "",
    "origins, comma-separated, whose pages may call REST, Connect and gRPC-Web with a key, such as https://app.example.com; never with the dashboard's cookie",
  ),
  rateLimitKey: optional(
    "ACP_RATE_LIMIT_KEY",
    rateLimit,
    "calls per second of one key in one process, such as `100`, or `100:500` for up to 500 at once; unset: no limit",
  ),
  rateLimitWorkspace: optional("ACP_RATE_LIMIT_WORKSPACE", rateLimit, "the same of one workspace; unset: no limit"),
  rateLimitProcess: optional("ACP_RATE_LIMIT_PROCESS", rateLimit, "the same of all callers together; unset: no limit"),
  oidcIssuer: optional(
    "ACP_OIDC_ISSUER",
    oidcIssuer,
    "OpenID Connect issuer with which people sign in to the dashboard; needs `ACP_PUBLIC_URL`, whose `/dashboard/oidc/callback` is the redirect URI; unset: only keys",
  ),
  oidcClientId: optional("ACP_OIDC_CLIENT_ID", visibleText, "client id at that issuer"),
  oidcClientSecret: optional("ACP_OIDC_CLIENT_SECRET", modelKey, "client secret at that issuer"),
  oidcScope: variable(
    "ACP_OIDC_SCOPE",
    oidcScope,
    DEFAULT_OIDC_SCOPE,
    "scopes to ask for; some issuers give groups only with one of their own, such as `groups`, and refresh tokens only with `offline_access`",
  ),
  oidcGroupsClaim: variable(
    "ACP_OIDC_GROUPS_CLAIM",
    visibleText,
    DEFAULT_OIDC_GROUPS_CLAIM,
    "claim of the ID token, or of the issuer's user info, that holds a person's groups",
  ),
  oidcGroupMap: variable(
    "ACP_OIDC_GROUP_MAP",
    oidcGroupMap,
    "",
    "roles of the members of groups, such as `acp-admins=default:admin,finance=pay:operator`; in each workspace the first match counts; `%2C` stands for a comma in a group's name, `%25` for a percent sign",
  ),
  oidcLabel: variable("ACP_OIDC_LABEL", label, DEFAULT_OIDC_LABEL, "name of that sign-in on its button"),
  webhookAllow: variable(
    "ACP_WEBHOOK_ALLOW",
    cidrs,
    "",
    "private addresses that webhooks may reach, comma-separated CIDR blocks",
  ),
  pushHosts: variable(
    "ACP_PUSH_HOSTS",
    pushHosts,
    DEFAULT_PUSH_HOSTS,
    "hosts, comma-separated, of the push services of browsers, which messages of Web Push may reach; `*.example.com` stands for every host below it",
  ),
  slackUrl: variable(
    "ACP_SLACK_URL",
    slackUrl,
    DEFAULT_SLACK_URL,
    "address of Slack's Web API; `https://slack-gov.com/api` for its government cloud",
  ),
  mcpAllow: variable(
    "ACP_MCP_ALLOW",
    cidrs,
    "",
    "private addresses that MCP servers may have, comma-separated CIDR blocks",
  ),
  mcpHosts: variable(
    "ACP_MCP_HOSTS",
    hosts,
    "",
    "host names, comma-separated, by which MCP clients reach the service, beside loopback and that of `ACP_PUBLIC_URL`",
  ),
  mcpHoldMs: variable(
    "ACP_MCP_HOLD_MS",
    whole(0, 3_600_000, " of milliseconds"),
    DEFAULT_MCP_HOLD_MS,
    "milliseconds for which an MCP call waits for a person",
  ),
  mcpProgressHoldMs: optional(
    "ACP_MCP_PROGRESS_HOLD_MS",
    whole(0, 86_400_000, " of milliseconds"),
    "the same for a client that asked for progress; set it only if every such client waits longer than that; unset: the same time",
  ),
  mcpAnswerMs: variable(
    "ACP_MCP_ANSWER_MS",
    whole(1_000, 86_400_000, " of milliseconds"),
    DEFAULT_MCP_ANSWER_MS,
    "milliseconds for which an MCP server may send nothing while it answers",
  ),
  mcpOidcIssuer: optional(
    "ACP_MCP_OIDC_ISSUER",
    oidcIssuer,
    "issuer of access tokens that MCP clients may present, for the URL of their server (OAuth 2); unset: only keys and federation tokens",
  ),
  mcpOidcAudience: optional(
    "ACP_MCP_OIDC_AUDIENCE",
    visibleText,
    "audience of these tokens that is accepted beside the URL of the server; unset: none",
  ),
  mcpOidcAgentClaim: variable(
    "ACP_MCP_OIDC_AGENT_CLAIM",
    visibleText,
    "sub",
    "claim of these tokens that holds an agent's id, or the name of one active agent",
  ),
  mcpOidcWorkspace: variable("ACP_MCP_OIDC_WORKSPACE", visibleText, "default", "workspace of these agents"),
  mcpOidcScope: optional("ACP_MCP_OIDC_SCOPE", visibleText, "scope that these tokens must have; unset: none"),
  mcpMaxResultBytes: variable(
    "ACP_MCP_MAX_RESULT_BYTES",
    whole(65_536, 268_435_456, " of bytes"),
    DEFAULT_MCP_MAX_RESULT_BYTES,
    "maximum bytes of one message of an MCP server",
  ),
  mcpUids: variable(
    "ACP_MCP_UIDS",
    uids,
    DEFAULT_MCP_UIDS,
    "user ids, each of which the service as root gives to one running MCP command at a time; no process and no name of the host may have them",
  ),
  mcpAllowSameUser: variable(
    "ACP_MCP_ALLOW_SAME_USER",
    (text) => oneOf(["true", "false"])(text) === "true",
    "false",
    "`true` runs MCP commands as the service's own user where neither root nor bubblewrap can isolate them; they then read all that the service can",
  ),
  mcpHomes: optional(
    "ACP_MCP_HOMES",
    absolutePath,
    "folder with a home for each MCP command, outside of `ACP_DATA_DIR`; unset: `/var/lib/agent-control-plane/mcp` as root, else `~/.local/state/agent-control-plane/mcp`",
  ),
  mcpPath: optional(
    "ACP_MCP_PATH",
    searchPath,
    "search path of MCP commands; unset: the service's own `PATH` without folders in `node_modules`, then the system's",
  ),
  mcpFolders: variable(
    "ACP_MCP_FOLDERS",
    folders,
    "",
    "folders, comma-separated, that MCP commands in a sandbox may read although they lie in a hidden place such as `/home`, or write with `:rw` behind one; none may hold `ACP_DATA_DIR` or lie in it",
  ),
  mcpMaxProcesses: variable(
    "ACP_MCP_MAX_PROCESSES",
    whole(16, 1_000_000),
    DEFAULT_MCP_MAX_PROCESSES,
    "maximum processes and threads of one MCP command",
  ),
  mcpMaxMemoryBytes: variable(
    "ACP_MCP_MAX_MEMORY_BYTES",
    whole(67_108_864, 1_099_511_627_776, " of bytes"),
    DEFAULT_MCP_MAX_MEMORY_BYTES,
    "maximum bytes of memory of one MCP command, where the service may write its control group",
  ),
  llmUrl: optional(
    "ACP_LLM_URL",
    modelUrl,
    "OpenAI-compatible service behind the redaction proxy, ends in `/v1`; unset: the proxy refuses requests",
  ),
  llmKey: optional(
    "ACP_LLM_KEY",
    modelKey,
    "API key sent to `ACP_LLM_URL` when the caller supplies none; unset: no key is sent",
  ),
  guardUrl: optional(
    "ACP_GUARD_URL",
    modelUrl,
    "OpenAI-compatible service that reads questions and judges for `semantic` rules, ends in `/v1`; unset: neither",
  ),
  guardModel: optional("ACP_GUARD_MODEL", modelName, "model that is asked there; required with `ACP_GUARD_URL`"),
  guardKey: optional("ACP_GUARD_KEY", modelKey, "bearer token sent to `ACP_GUARD_URL`; unset: none is sent"),
  guardDeadlineMs: variable(
    "ACP_GUARD_DEADLINE_MS",
    whole(50, 60_000, " of milliseconds"),
    DEFAULT_GUARD_DEADLINE_MS,
    "milliseconds that an answer of this model may take, queueing included",
  ),
} satisfies { readonly [Key in keyof Config]: Variable<NonNullable<Config[Key]>> };

/** Every variable of `loadConfig`, in the order of the guide. */
export const CONFIG_VARIABLES: readonly ConfigVariable[] = Object.values<ConfigVariable>(VARIABLES).map(
  ({ name, default: preset, meaning }) => ({ name, default: preset, meaning }),
);

/** File of the generated signing key, in the data directory. */
export const SIGNING_KEY_FILE = "signing-key.pem";
/** File of the generated encryption key, in the data directory. */
export const ENCRYPTION_KEY_FILE = "encryption-key";

/**
 * Returns a line for each key that a process on a PostgreSQL of its own must be given, with the command that makes one. A key that
 * it generated itself would be lost with its disk, and another process would have another one.
 */
export function missingKeys({ databaseUrl, signingKey, encryptionKey, dataDir }: Config): readonly string[] {
  if (databaseUrl === null) return [];
  const problems: string[] = [];
  const signingPath = join(resolve(dataDir), SIGNING_KEY_FILE);
  const encryptionPath = join(resolve(dataDir), ENCRYPTION_KEY_FILE);
  if (signingKey === null) {
    const create = "`openssl ecparam -name prime256v1 -genkey -noout -out signing-key.pem`";
    const cure = existsSync(signingPath)
      ? `an earlier start generated one: ACP_SIGNING_KEY=${signingPath}`
      : `make one with ${create} and set ACP_SIGNING_KEY to its path`;
    problems.push(`ACP_SIGNING_KEY must be set with DATABASE_URL, to the same key in every process; ${cure}`);
  }
  if (encryptionKey === null) {
    const cure = existsSync(encryptionPath)
      ? `an earlier start generated one: ACP_ENCRYPTION_KEY="$(cat '${encryptionPath}')"`
      : "make one with `openssl rand -base64 32`";
    problems.push(`ACP_ENCRYPTION_KEY must be set with DATABASE_URL, to the same secret in every process; ${cure}`);
  }
  return problems;
}

/** Finds values that contradict each other. */
function contradictions(config: Config): string[] {
  const { databaseUrl, databaseOwnerUrl, httpPort, grpcPort, guardUrl, guardModel, guardKey } = config;
  const problems: string[] = [];
  if (databaseOwnerUrl !== null && databaseUrl === null) problems.push("ACP_DATABASE_OWNER_URL needs DATABASE_URL");
  problems.push(...poolerProblems(config));
  if (httpPort === grpcPort && httpPort > 0) {
    problems.push(`ACP_GRPC_PORT must differ from ACP_HTTP_PORT: both are ${httpPort}`);
  }
  if (guardUrl !== null && guardModel === null) problems.push("ACP_GUARD_MODEL must be set with ACP_GUARD_URL");
  if (guardUrl === null && guardModel !== null) problems.push("ACP_GUARD_MODEL needs ACP_GUARD_URL");
  if (guardUrl === null && guardKey !== null) problems.push("ACP_GUARD_KEY needs ACP_GUARD_URL");
  if (config.mcpHomes !== null && isInside(config.mcpHomes, config.dataDir))
    problems.push("ACP_MCP_HOMES must be outside of ACP_DATA_DIR, which MCP commands may not enter");
  problems.push(...tlsProblems(config));
  problems.push(...folderProblems(config));
  problems.push(...oidcProblems(config));
  return problems;
}

function poolerProblems({ databasePooler, databaseUrl, databaseDirectUrl }: Config): string[] {
  if (databasePooler === null) {
    return databaseDirectUrl === null ? [] : ["ACP_DATABASE_DIRECT_URL needs ACP_DATABASE_POOLER"];
  }
  if (databaseUrl === null) return ["ACP_DATABASE_POOLER needs DATABASE_URL, which leads to the pooler"];
  if (databaseDirectUrl === null) {
    return ["ACP_DATABASE_DIRECT_URL must be set with ACP_DATABASE_POOLER: notifications do not pass the pooler"];
  }
  const [login, direct] = [databaseUrl, databaseDirectUrl].map((url) => new URL(url.reveal()).username);
  return login === direct ? [] : ["ACP_DATABASE_DIRECT_URL must name the login of DATABASE_URL"];
}

function tlsProblems({ tlsCert, tlsKey, tlsClientCa, publicUrl }: Config): string[] {
  const problems: string[] = [];
  if (tlsCert !== null && tlsKey === null) problems.push("ACP_TLS_KEY must be set with ACP_TLS_CERT");
  if (tlsCert === null && tlsKey !== null) problems.push("ACP_TLS_CERT must be set with ACP_TLS_KEY");
  if (tlsCert === null && tlsClientCa !== null) problems.push("ACP_TLS_CLIENT_CA needs ACP_TLS_CERT and ACP_TLS_KEY");
  if (tlsCert !== null && publicUrl?.startsWith("http:")) {
    problems.push(`ACP_PUBLIC_URL must begin with https, because ACP_TLS_CERT is set: \`${publicUrl}\``);
  }
  return problems;
}

function isInside(path: string, folder: string): boolean {
  const way = relative(resolve(folder), resolve(path));
  return way === "" || !way.startsWith("..");
}

/** Finds folders through which MCP commands would reach what they may not enter, also over symbolic links. */
function folderProblems({ mcpFolders, mcpHomes, dataDir }: Config): string[] {
  const [data, homes] = [realPath(dataDir), realPath(mcpHomes ?? defaultMcpHomes())];
  const touches = (path: string, other: string): boolean => isInside(path, other) || isInside(other, path);
  return mcpFolders.flatMap(({ path, isWritable }) => {
    const real = realPath(path);
    const fault = touches(real, data)
      ? "must not hold ACP_DATA_DIR, or lie in it"
      : isWritable && touches(real, homes)
        ? "must not let commands write to the homes of MCP commands (ACP_MCP_HOMES)"
        : undefined;
    return fault === undefined ? [] : [`ACP_MCP_FOLDERS ${fault}: \`${path}\``];
  });
}

/** Returns the path without symbolic links, as far as it exists. */
function realPath(path: string): string {
  const whole = resolve(path);
  try {
    return realpathSync(whole);
  } catch {
    const parent = dirname(whole);
    return parent === whole ? whole : join(realPath(parent), basename(whole));
  }
}

/** Returns the folder of the homes of MCP commands that the process's user has by default. */
export const defaultMcpHomes = (): string =>
  process.geteuid?.() === 0
    ? "/var/lib/agent-control-plane/mcp"
    : join(homedir(), ".local/state/agent-control-plane/mcp");

function oidcProblems(config: Config): string[] {
  const { oidcIssuer: issuer, oidcClientId, oidcClientSecret, oidcGroupMap: groups, publicUrl: own } = config;
  const parts: readonly (readonly [string, boolean])[] = [
    ["ACP_OIDC_CLIENT_ID", oidcClientId !== null],
    ["ACP_OIDC_CLIENT_SECRET", oidcClientSecret !== null],
    ["ACP_OIDC_GROUP_MAP", groups.length > 0],
  ];
  if (issuer === null) return parts.filter(([, isSet]) => isSet).map(([name]) => `${name} needs ACP_OIDC_ISSUER`);
  const missing = [...parts, ["ACP_PUBLIC_URL", own !== null] as const].filter(([, isSet]) => !isSet);
  return missing.map(([name]) => `${name} must be set with ACP_OIDC_ISSUER`);
}

/** Settings as read: null where a default follows from other values. */
type Unfinished = Omit<Config, "lameDuckMs" | "mcpPath"> & {
  readonly lameDuckMs: number | null;
  readonly mcpPath: string | null;
};

/** Settings with what was noticed about the environment. */
export interface LoadedConfig {
  readonly config: Config;
  /** A line each: a name that is probably a slip, a value that is not meant for us. */
  readonly warnings: readonly string[];
  /** Names that begin with `ACP_` and are left to other programs. */
  readonly foreignNames: readonly string[];
  /** Every setting in the order of the guide. */
  readonly settings: readonly Setting[];
}

/** A setting that is in effect. */
export interface Setting {
  readonly name: string;
  /** `environment`, `default`, or file and line. */
  readonly source: string;
  /** Text as given, `***` for a secret; null: unset. */
  readonly shown: string | null;
}

type Environment = Readonly<Record<string, string | undefined>>;

/** Names that begin like ours and are none, by what follows from them. */
interface UnknownNames {
  readonly problems: readonly string[];
  readonly warnings: readonly string[];
  readonly foreignNames: readonly string[];
}

function judgeNames(env: Environment): UnknownNames {
  const names = CONFIG_VARIABLES.map((each) => each.name);
  const known = new Set(names);
  const problems: string[] = [];
  const warnings: string[] = [];
  const foreignNames: string[] = [];
  for (const [name, value = ""] of Object.entries(env)) {
    if (!name.startsWith(PREFIX) || known.has(name) || value === "") continue;
    const found = judgeName(name, value, names);
    if (found.kind === "foreign") foreignNames.push(name);
    else if (found.kind === "near")
      warnings.push(`${name} is not a setting and has no effect: did you mean ${found.to}?`);
    else problems.push(`${name} is now called ${found.to}: set ${found.to} to the same value`);
  }
  return { problems, warnings, foreignNames };
}

/** Settings that Kubernetes overwrites for a Service of the name `acp-http` or `acp-grpc`. */
const SERVICE_PORTS: ReadonlySet<string> = new Set(["ACP_HTTP_PORT", "ACP_GRPC_PORT"]);

function isForeignPort(name: string, text: string): boolean {
  return SERVICE_PORTS.has(name) && isServiceAddress(text);
}

/**
 * Reads the environment and the file that `ACP_CONFIG` names; no other code does. The environment wins. An empty value counts as
 * unset. Checks every value and throws all problems in
 * one `ConfigError`.
 */
export function loadConfig(env: Environment): Config {
  return readConfig(env).config;
}

/** A value with its source. */
interface Given {
  readonly text: string;
  readonly source: string;
}

/** Returns the values of the file that the environment names, and a line for each fault of it. */
function readFile(env: Environment): {
  readonly values: ReadonlyMap<string, Given>;
  readonly problems: readonly string[];
} {
  const path = env[CONFIG_FILE]?.trim() ?? "";
  if (path === "") return { values: new Map(), problems: [] };
  const file = readSettingsFile(path);
  const names = CONFIG_VARIABLES.map(({ name }) => name).filter((name) => name !== CONFIG_FILE);
  const unknown = file.settings.filter(({ name }) => !names.includes(name));
  const problems = unknown.map(({ name, place }) => `${place} ${name} is not a setting${hintFor(name, names)}`);
  const values = new Map(file.settings.map(({ name, text, place }) => [name, { text: text.trim(), source: place }]));
  return { values, problems: [...file.problems, ...problems] };
}

function hintFor(name: string, names: readonly string[]): string {
  const found = judgeName(name, "", names);
  if (found.kind === "renamed") return `; it is now called ${found.to}`;
  const near = names.includes(name.toUpperCase()) ? name.toUpperCase() : nearestName(name.toUpperCase(), names);
  return near === undefined ? "" : `: did you mean ${near}?`;
}

/** Does what `loadConfig` does, and tells what is noticed. */
export function readConfig(env: Environment): LoadedConfig {
  const { foreignNames, ...names } = judgeNames(env);
  const file = readFile(env);
  const problems = [...names.problems, ...file.problems];
  const warnings = [...names.warnings];
  const settings: Setting[] = [];
  const givenFor = ({ name, default: preset }: ConfigVariable): { text: string | null; source: string } => {
    const inEnvironment = env[name] === undefined ? undefined : { text: env[name].trim(), source: "environment" };
    const given = inEnvironment ?? file.values.get(name);
    const unset = { text: preset, source: "default" };
    if (given === undefined || given.text === "") return unset;
    if (!isForeignPort(name, given.text)) return given;
    warnings.push(`${name} is an address that Kubernetes sets for a Service, and counts as unset: ${preset} is used`);
    return unset;
  };
  // A secret that did not arrive must not start an empty service on an embedded database.
  if ((env.DATABASE_URL ?? file.values.get("DATABASE_URL")?.text)?.trim() === "") {
    problems.push(
      `DATABASE_URL is empty: set it to ${DATABASE_FORM}, or \`unset DATABASE_URL\` for the embedded PostgreSQL`,
    );
  }
  const entries = Object.entries<Variable<unknown>>(VARIABLES).map(([key, each]) => {
    const { text, source } = givenFor(each);
    try {
      const value = text === null ? null : each.read(text);
      settings.push({ name: each.name, source, shown: value instanceof Secret ? String(value) : text });
      return [key, value];
    } catch (error) {
      const place = file.values.get(each.name)?.source === source ? ` (${source})` : "";
      problems.push(`${each.name} ${(error as Error).message}${place}`);
      return [key, null];
    }
  });
  const read: Unfinished = Object.fromEntries(entries);
  const config: Config = {
    ...read,
    lameDuckMs: read.lameDuckMs ?? (read.databaseUrl === null ? 0 : DEFAULT_LAME_DUCK_MS),
    mcpPath: read.mcpPath ?? commandPath(env.PATH),
  };
  // Skipped after a faulty value, which would seem to contradict others.
  if (problems.length === 0) problems.push(...contradictions(config));
  if (problems.length > 0) throw new ConfigError(problems);
  return { config, warnings, foreignNames, settings };
}
