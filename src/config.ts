import {
  adminKey,
  cidrs,
  host,
  modelKey,
  modelName,
  modelUrl,
  oneOf,
  origin,
  type Read,
  redactionKey,
  Secret,
  secretUrl,
  whole,
} from "./config-values.ts";

export { Secret };

/** Where state lives when nothing is set: beside the program, so that a clone carries its own data. */
export const DEFAULT_DATA_DIR = ".data";
/** Loopback: a first start is never reachable from the network. */
export const DEFAULT_HOST = "127.0.0.1";
/** Port of REST, Connect and gRPC-Web. */
export const DEFAULT_HTTP_PORT = 7080;
/** Port of native gRPC. */
export const DEFAULT_GRPC_PORT = 7090;
export const DEFAULT_LOG_LEVEL = "info";
/** Name of the service in checkpoints. No address, since a log keeps its name when the service moves. */
export const DEFAULT_VAULT_ORIGIN = "agent-control-plane";
/** Processes that serve. One decides a workspace fastest; more are for more workspaces and for availability. */
export const DEFAULT_WORKERS = 1;
/** Database connections of one process: appends are batched, so ten keep two cores busy. */
export const DEFAULT_POOL_SIZE = 10;
/** Bytes of one request on any wire: 1 MiB, far above a tool call and far below what hurts. */
export const DEFAULT_MAX_BODY_BYTES = 1_048_576;
/** Milliseconds that a unary call may take when the caller set no deadline. */
export const DEFAULT_DEADLINE_MS = 10_000;
/** Milliseconds between heartbeats of a stream: below the 30 s after which common proxies drop idle connections. */
export const DEFAULT_STREAM_HEARTBEAT_MS = 15_000;
/** Milliseconds that a stop signal gives to open streams: below the 10 s after which containers are killed. */
export const DEFAULT_DRAIN_MS = 5_000;
/** Milliseconds for one verdict of the semantic guards' model: half of a call's deadline, so that a refusal still arrives. */
export const DEFAULT_GUARD_DEADLINE_MS = 5_000;

const LOG_LEVELS = ["fatal", "error", "warn", "info", "debug", "trace", "silent"] as const;
/** How much is logged, from least to most but for `silent`. */
export type LogLevel = (typeof LOG_LEVELS)[number];

/** Everything that the environment decides. Complete after load: `null` says that a part is switched off. */
export interface Config {
  /** A `postgresql://` URL; null: the embedded PostgreSQL in `dataDir`. Prints without its password. */
  readonly databaseUrl: Secret | null;
  /** A `redis://` or `rediss://` URL; null: everything goes over the database. Prints without its password. */
  readonly redisUrl: Secret | null;
  readonly dataDir: string;
  /** The administrator's key; null: one is made on first start. */
  readonly adminKey: Secret | null;
  /** ECDSA P-256 private key in PEM, or the path of a file that holds it; null: one is made in `dataDir`. */
  readonly signingKey: Secret | null;
  /** Secret that personal values are encrypted under; null: one is made in `dataDir`. */
  readonly redactionKey: Secret | null;
  readonly host: string;
  /** 0: any free port. */
  readonly httpPort: number;
  /** 0: any free port. */
  readonly grpcPort: number;
  readonly logLevel: LogLevel;
  /** Processes that share the two ports. */
  readonly workers: number;
  /** Database connections of one process. */
  readonly poolSize: number;
  readonly maxBodyBytes: number;
  readonly defaultDeadlineMs: number;
  readonly streamHeartbeatMs: number;
  readonly drainMs: number;
  /** Names the service in checkpoints. MUST stay as it is: what was signed under another name is another log's. */
  readonly vaultOrigin: string;
  /** CIDR blocks of private webhook targets that are allowed; empty: public targets only. */
  readonly webhookAllow: readonly string[];
  /** Base address of the model service behind the redaction proxy, ending in `/v1`; null: the proxy has none. */
  readonly llmUrl: string | null;
  readonly llmKey: Secret | null;
  /** Base address of an OpenAI-compatible service, ending in `/v1`; null: semantic guards have no model. */
  readonly guardUrl: string | null;
  /** Null exactly when `guardUrl` is. */
  readonly guardModel: string | null;
  readonly guardKey: Secret | null;
  readonly guardDeadlineMs: number;
}

/** One row of the README's table of variables. */
export interface ConfigVariable {
  readonly name: string;
  /** As it would be written in the environment; null: unset. */
  readonly default: string | null;
  readonly meaning: string;
}

/** Everything wrong with the environment, one line per problem; every line names the variable and what to change. */
export class ConfigError extends Error {
  override readonly name = "ConfigError";
  readonly problems: readonly string[];

  constructor(problems: readonly string[]) {
    super(problems.join("\n"));
    this.problems = problems;
  }
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
const VARIABLES = {
  databaseUrl: optional(
    "DATABASE_URL",
    secretUrl(["postgres:", "postgresql:"], hasDatabaseName, "postgresql://user:password@host:5432/database"),
    "PostgreSQL to use; unset: the embedded one in `ACP_DATA_DIR`",
  ),
  redisUrl: optional(
    "REDIS_URL",
    secretUrl(["redis:", "rediss:"], hasHost, "redis://user:password@host:6379/0"),
    "Redis that mirrors what limits count and wakes other processes; may be lost at any time; unset: the database does both",
  ),
  dataDir: variable(
    "ACP_DATA_DIR",
    (text) => text,
    DEFAULT_DATA_DIR,
    "directory of the embedded PostgreSQL and of keys that were made here",
  ),
  adminKey: optional("ACP_ADMIN_KEY", adminKey, "the administrator's key; unset: made and printed on first start"),
  signingKey: optional(
    "ACP_SIGNING_KEY",
    (text) => new Secret(text),
    "ECDSA P-256 private key that signs certificates and tokens, PEM or a file's path; unset: made in `ACP_DATA_DIR`",
  ),
  redactionKey: optional(
    "ACP_REDACTION_KEY",
    redactionKey,
    "secret that personal values are encrypted under, 32 characters or more; unset: made in `ACP_DATA_DIR`",
  ),
  host: variable("ACP_HOST", host, DEFAULT_HOST, "address to listen on"),
  httpPort: variable("ACP_HTTP_PORT", PORT, DEFAULT_HTTP_PORT, "port of REST, Connect and gRPC-Web; 0: any free"),
  grpcPort: variable("ACP_GRPC_PORT", PORT, DEFAULT_GRPC_PORT, "port of gRPC; 0: any free"),
  logLevel: variable("ACP_LOG_LEVEL", oneOf(LOG_LEVELS), DEFAULT_LOG_LEVEL, `one of ${LOG_LEVELS.join(", ")}`),
  workers: variable(
    "ACP_WORKERS",
    whole(1, 128),
    DEFAULT_WORKERS,
    "processes that share the two ports; one decides a workspace fastest, more are for more workspaces and for availability",
  ),
  poolSize: variable("ACP_POOL_SIZE", whole(2, 500), DEFAULT_POOL_SIZE, "database connections of one process"),
  maxBodyBytes: variable(
    "ACP_MAX_BODY_BYTES",
    whole(1_024, 67_108_864, " of bytes"),
    DEFAULT_MAX_BODY_BYTES,
    "largest request in bytes, on every wire",
  ),
  defaultDeadlineMs: variable(
    "ACP_DEFAULT_DEADLINE_MS",
    whole(100, 600_000, " of milliseconds"),
    DEFAULT_DEADLINE_MS,
    "deadline in milliseconds of a unary call that sets none",
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
    "milliseconds that a stop signal gives to open streams",
  ),
  vaultOrigin: variable(
    "ACP_VAULT_ORIGIN",
    origin,
    DEFAULT_VAULT_ORIGIN,
    "names the service in signed checkpoints, as a URL without scheme; keep it for good",
  ),
  webhookAllow: variable("ACP_WEBHOOK_ALLOW", cidrs, "", "CIDR blocks of private webhook targets, with commas between"),
  llmUrl: optional(
    "ACP_LLM_URL",
    modelUrl,
    "OpenAI-compatible service behind the redaction proxy, ends in `/v1`; unset: the proxy refuses",
  ),
  llmKey: optional("ACP_LLM_KEY", modelKey, "key of `ACP_LLM_URL` for callers that bring none; unset: none is sent"),
  guardUrl: optional(
    "ACP_GUARD_URL",
    modelUrl,
    "OpenAI-compatible service of semantic guards, ends in `/v1`; unset: they are unavailable",
  ),
  guardModel: optional("ACP_GUARD_MODEL", modelName, "model that semantic guards ask; needed with `ACP_GUARD_URL`"),
  guardKey: optional("ACP_GUARD_KEY", modelKey, "key of `ACP_GUARD_URL`, sent as bearer token; unset: none is sent"),
  guardDeadlineMs: variable(
    "ACP_GUARD_DEADLINE_MS",
    whole(50, 60_000, " of milliseconds"),
    DEFAULT_GUARD_DEADLINE_MS,
    "milliseconds that a semantic guard may take, waiting included",
  ),
} satisfies { readonly [Key in keyof Config]: Variable<NonNullable<Config[Key]>> };

/** Every variable that `loadConfig` knows, in the README's order. */
export const CONFIG_VARIABLES: readonly ConfigVariable[] = Object.values<ConfigVariable>(VARIABLES).map(
  ({ name, default: preset, meaning }) => ({ name, default: preset, meaning }),
);

/** Edits of one character that turn `a` into `b`. */
function distance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, index) => index);
  for (const [i, left] of [...a].entries()) {
    const next = [i + 1];
    for (const [j, right] of [...b].entries()) {
      const replaced = (row[j] ?? 0) + (left === right ? 0 : 1);
      next.push(Math.min(replaced, (row[j + 1] ?? 0) + 1, (next[j] ?? 0) + 1));
    }
    row = next;
  }
  return row[b.length] ?? 0;
}

function unknownProblem(name: string): string {
  const near = CONFIG_VARIABLES.map((known) => ({ known: known.name, edits: distance(name, known.name) }))
    .filter(({ edits }) => edits <= 5)
    .sort((a, b) => a.edits - b.edits)[0];
  const known = CONFIG_VARIABLES.map((each) => each.name).filter((each) => each.startsWith("ACP_"));
  return `${name} is no variable of this program: ${near ? `did you mean ${near.known}?` : `known are ${known.join(", ")}`}`;
}

/** What is wrong with values that are right each by itself. */
function contradictions({ httpPort, grpcPort, guardUrl, guardModel, guardKey }: Config): string[] {
  const problems: string[] = [];
  if (httpPort === grpcPort && httpPort > 0) {
    problems.push(`ACP_GRPC_PORT must differ from ACP_HTTP_PORT: both are ${httpPort}`);
  }
  if (guardUrl !== null && guardModel === null) problems.push("ACP_GUARD_MODEL must be set with ACP_GUARD_URL");
  if (guardUrl === null && guardModel !== null) problems.push("ACP_GUARD_MODEL needs ACP_GUARD_URL");
  if (guardUrl === null && guardKey !== null) problems.push("ACP_GUARD_KEY needs ACP_GUARD_URL");
  return problems;
}

/**
 * Reads the whole environment, of which it alone knows the names. An empty value counts as unset.
 * Promises: every value is checked, and all problems come together in one `ConfigError`.
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
  // Of a value that could not be read nothing more is said.
  if (problems.length === 0) problems.push(...contradictions(config));
  if (problems.length > 0) throw new ConfigError(problems);
  return config;
}
