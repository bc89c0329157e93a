import { isIP } from "node:net";
import { inspect } from "node:util";
import { distance } from "fastest-levenshtein";

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
/** Deadline of a model's verdict, milliseconds: half of a call's deadline, so that a refusal still arrives. */
const DEFAULT_GUARD_DEADLINE_MS = 5_000;

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

/** Settings of a process, complete after loading: `null` switches a part off. */
export interface Config {
  /** A `postgresql://` URL, printed without its password; null: the embedded PostgreSQL in `dataDir`. */
  readonly databaseUrl: Secret | null;
  /** A URL that logs in as the owner of the tables; null: another process migrates, or `databaseUrl` does both. */
  readonly databaseOwnerUrl: Secret | null;
  /** A `redis://` or `rediss://` URL, printed without its password; null: no Redis. */
  readonly redisUrl: Secret | null;
  readonly dataDir: string;
  /** The administrator's key; null: generated on first start. */
  readonly adminKey: Secret | null;
  /** ECDSA P-256 private key in PEM, or its file's path; null: generated in `dataDir`. */
  readonly signingKey: Secret | null;
  /** Secret that encrypts personal values and the secrets of webhooks; null: generated in `dataDir`. */
  readonly encryptionKey: Secret | null;
  readonly host: string;
  /** 0: any free port. */
  readonly httpPort: number;
  /** 0: any free port. */
  readonly grpcPort: number;
  readonly logLevel: LogLevel;
  /** Processes that share the two ports. */
  readonly workers: number;
  /** Database connections per process. */
  readonly poolSize: number;
  readonly maxBodyBytes: number;
  readonly defaultDeadlineMs: number;
  readonly streamHeartbeatMs: number;
  readonly drainMs: number;
  /** Name of the service in checkpoints. MUST NOT change: a signature under another name belongs to another log. */
  readonly vaultOrigin: string;
  /** CIDR blocks of allowed private webhook targets; empty: public targets only. */
  readonly webhookAllow: readonly string[];
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

/** Reads the administrator's key: long enough not to be guessed. */
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
  throw new Error(`must be CIDR blocks with commas between, such as 10.0.0.0/8,fd00::/8; \`${wrong}\` is none`);
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

const PORT = whole(0, 65_535);
const DATABASE_URL = secretUrl(
  ["postgres:", "postgresql:"],
  hasDatabaseName,
  "postgresql://user:password@host:5432/database",
);
const VARIABLES = {
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
  redisUrl: optional(
    "REDIS_URL",
    secretUrl(["redis:", "rediss:"], hasHost, "redis://user:password@host:6379/0"),
    "Redis that speeds up loading counters and waking other processes; may fail at any time; unset: the database does both",
  ),
  dataDir: variable(
    "ACP_DATA_DIR",
    (text) => text,
    DEFAULT_DATA_DIR,
    "directory of the embedded PostgreSQL and of generated keys",
  ),
  adminKey: optional("ACP_ADMIN_KEY", adminKey, "administrator's API key; unset: generated and printed on first start"),
  signingKey: optional(
    "ACP_SIGNING_KEY",
    (text) => new Secret(text),
    "ECDSA P-256 private key that signs checkpoints, certificates and tokens, PEM or file path; unset: generated in `ACP_DATA_DIR`",
  ),
  encryptionKey: optional(
    "ACP_ENCRYPTION_KEY",
    encryptionKey,
    "secret that encrypts registered personal values and the secrets of webhooks, at least 32 characters; unset: generated in `ACP_DATA_DIR`",
  ),
  host: variable("ACP_HOST", host, DEFAULT_HOST, "address to listen on"),
  httpPort: variable("ACP_HTTP_PORT", PORT, DEFAULT_HTTP_PORT, "port of REST, Connect and gRPC-Web; 0: any free port"),
  grpcPort: variable("ACP_GRPC_PORT", PORT, DEFAULT_GRPC_PORT, "port of gRPC; 0: any free port"),
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
  vaultOrigin: variable(
    "ACP_VAULT_ORIGIN",
    origin,
    DEFAULT_VAULT_ORIGIN,
    "name of the service in signed checkpoints, a URL without scheme; never change it",
  ),
  webhookAllow: variable(
    "ACP_WEBHOOK_ALLOW",
    cidrs,
    "",
    "private addresses that webhooks may reach, comma-separated CIDR blocks",
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
    "OpenAI-compatible service that `semantic` rules ask, ends in `/v1`; unset: no verdicts",
  ),
  guardModel: optional("ACP_GUARD_MODEL", modelName, "model that `semantic` rules ask; required with `ACP_GUARD_URL`"),
  guardKey: optional("ACP_GUARD_KEY", modelKey, "bearer token sent to `ACP_GUARD_URL`; unset: none is sent"),
  guardDeadlineMs: variable(
    "ACP_GUARD_DEADLINE_MS",
    whole(50, 60_000, " of milliseconds"),
    DEFAULT_GUARD_DEADLINE_MS,
    "milliseconds that a model's verdict may take, queueing included",
  ),
} satisfies { readonly [Key in keyof Config]: Variable<NonNullable<Config[Key]>> };

/** All variables of `loadConfig`, in the README's order. */
export const CONFIG_VARIABLES: readonly ConfigVariable[] = Object.values<ConfigVariable>(VARIABLES).map(
  ({ name, default: preset, meaning }) => ({ name, default: preset, meaning }),
);

/** Names that variables had before, and the present ones. */
const RENAMED: Readonly<Record<string, string>> = { ACP_REDACTION_KEY: "ACP_ENCRYPTION_KEY" };

function unknownProblem(name: string): string {
  const renamed = RENAMED[name];
  if (renamed !== undefined) return `${name} is now called ${renamed}: set ${renamed} to the same value`;
  const near = CONFIG_VARIABLES.map((known) => ({ known: known.name, edits: distance(name, known.name) }))
    .filter(({ edits }) => edits <= 5)
    .sort((a, b) => a.edits - b.edits)[0];
  const known = CONFIG_VARIABLES.map((each) => each.name).filter((each) => each.startsWith("ACP_"));
  return `${name} is no variable of this program: ${near ? `did you mean ${near.known}?` : `known are ${known.join(", ")}`}`;
}

/** Finds values that contradict each other. */
function contradictions(config: Config): string[] {
  const { databaseUrl, databaseOwnerUrl, httpPort, grpcPort, guardUrl, guardModel, guardKey } = config;
  const problems: string[] = [];
  if (databaseOwnerUrl !== null && databaseUrl === null) problems.push("ACP_DATABASE_OWNER_URL needs DATABASE_URL");
  if (httpPort === grpcPort && httpPort > 0) {
    problems.push(`ACP_GRPC_PORT must differ from ACP_HTTP_PORT: both are ${httpPort}`);
  }
  if (guardUrl !== null && guardModel === null) problems.push("ACP_GUARD_MODEL must be set with ACP_GUARD_URL");
  if (guardUrl === null && guardModel !== null) problems.push("ACP_GUARD_MODEL needs ACP_GUARD_URL");
  if (guardUrl === null && guardKey !== null) problems.push("ACP_GUARD_KEY needs ACP_GUARD_URL");
  return problems;
}

/**
 * Reads the environment; no other code does. An empty value counts as unset. Checks every value and throws all problems in
 * one `ConfigError`.
 */
export function loadConfig(env: Record<string, string | undefined>): Config {
  const known = new Set(CONFIG_VARIABLES.map((each) => each.name));
  const problems = Object.keys(env)
    .filter((name) => name.startsWith("ACP_") && !known.has(name))
    .map(unknownProblem);
  const entries = Object.entries<Variable<unknown>>(VARIABLES).map(([key, each]) => {
    const text = env[each.name]?.trim() || each.default;
    try {
      return [key, text === null ? null : each.read(text)];
    } catch (error) {
      problems.push(`${each.name} ${(error as Error).message}`);
      return [key, null];
    }
  });
  const config: Config = Object.fromEntries(entries);
  // Skipped after a faulty value, which would seem to contradict others.
  if (problems.length === 0) problems.push(...contradictions(config));
  if (problems.length > 0) throw new ConfigError(problems);
  return config;
}
