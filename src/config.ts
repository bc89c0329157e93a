import { isIP } from "node:net";
import { inspect } from "node:util";

/** Where state lives when nothing is set: beside the program, so that a clone carries its own data. */
export const DEFAULT_DATA_DIR = ".data";
/** Loopback: a first start is never reachable from the network. */
export const DEFAULT_HOST = "127.0.0.1";
/** Port of REST, Connect and gRPC-Web. */
export const DEFAULT_HTTP_PORT = 7080;
/** Port of native gRPC. */
export const DEFAULT_GRPC_PORT = 7090;
export const DEFAULT_LOG_LEVEL = "info";
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

const LOG_LEVELS = ["fatal", "error", "warn", "info", "debug", "trace", "silent"] as const;
/** How much is logged, from least to most but for `silent`. */
export type LogLevel = (typeof LOG_LEVELS)[number];

/** A value that prints as `***` (or as the text given as `shown`) wherever it is logged; MUST only be read with `reveal()`. */
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

/** Everything that the environment decides. Complete after load: `null` says that a part is switched off. */
export interface Config {
  /** A `postgresql://` URL; null: the embedded PostgreSQL in `dataDir`. Prints without its password. */
  readonly databaseUrl: Secret | null;
  readonly dataDir: string;
  /** The administrator's key; null: one is made on first start. */
  readonly adminKey: Secret | null;
  /** ECDSA P-256 private key in PEM, or the path of a file that holds it; null: one is made in `dataDir`. */
  readonly signingKey: Secret | null;
  readonly host: string;
  /** 0: any free port. */
  readonly httpPort: number;
  /** 0: any free port. */
  readonly grpcPort: number;
  readonly logLevel: LogLevel;
  /** Database connections of one process. */
  readonly poolSize: number;
  readonly maxBodyBytes: number;
  readonly defaultDeadlineMs: number;
  readonly streamHeartbeatMs: number;
  readonly drainMs: number;
  /** CIDR blocks of private webhook targets that are allowed; empty: public targets only. */
  readonly webhookAllow: readonly string[];
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

/** Reads one value; throws an `Error` whose message continues "NAME …". */
type Read<T> = (text: string) => T;

interface Variable<T> extends ConfigVariable {
  readonly read: Read<T>;
}

function whole(min: number, max: number, unit = ""): Read<number> {
  return (text) => {
    const value = /^\d{1,15}$/.test(text) ? Number(text) : Number.NaN;
    if (value >= min && value <= max) return value;
    throw new Error(`must be a whole number${unit} from ${min} to ${max}, not \`${text}\``);
  };
}

function oneOf<T extends string>(words: readonly T[]): Read<T> {
  return (text) => {
    const word = words.find((known) => known === text.toLowerCase());
    if (word !== undefined) return word;
    throw new Error(`must be one of ${words.join(", ")}, not \`${text}\``);
  };
}

/** The URL with passwords masked, as user info and as query parameter. */
function masked(url: URL): string {
  const copy = new URL(url);
  if (copy.password !== "") copy.password = "***";
  for (const name of copy.searchParams.keys()) {
    if (/pass|key|secret|token/i.test(name)) copy.searchParams.set(name, "***");
  }
  return copy.href;
}

function secretUrl(protocols: readonly string[], accepts: (url: URL) => boolean, form: string): Read<Secret> {
  return (text) => {
    const url = URL.canParse(text) ? new URL(text) : undefined;
    // The value may hold a password, so a refusal does not repeat it.
    if (!url || !protocols.includes(url.protocol) || !accepts(url)) throw new Error(`must have the form ${form}`);
    return new Secret(text, masked(url));
  };
}

const hasDatabaseName = (url: URL): boolean => url.pathname.length > 1;

function adminKey(text: string): Secret {
  if (/^[\x21-\x7e]{16,256}$/.test(text)) return new Secret(text);
  throw new Error("must be 16 to 256 printable ASCII characters without spaces");
}

function host(text: string): string {
  if (
    isIP(text) !== 0 ||
    /^(?=.{1,253}$)[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*$/i.test(text)
  ) {
    return text;
  }
  throw new Error(`must be an IP address or a host name, not \`${text}\``);
}

function isCidr(block: string): boolean {
  const [address = "", bits = "", ...rest] = block.split("/");
  const family = isIP(address);
  return rest.length === 0 && family !== 0 && /^\d{1,3}$/.test(bits) && Number(bits) <= (family === 4 ? 32 : 128);
}

function cidrs(text: string): readonly string[] {
  const blocks = text === "" ? [] : text.split(",").map((block) => block.trim());
  const wrong = blocks.find((block) => !isCidr(block));
  if (wrong === undefined) return blocks;
  throw new Error(`must be CIDR blocks with commas between, such as 10.0.0.0/8,fd00::/8; \`${wrong}\` is none`);
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
  host: variable("ACP_HOST", host, DEFAULT_HOST, "address to listen on"),
  httpPort: variable("ACP_HTTP_PORT", PORT, DEFAULT_HTTP_PORT, "port of REST, Connect and gRPC-Web; 0: any free"),
  grpcPort: variable("ACP_GRPC_PORT", PORT, DEFAULT_GRPC_PORT, "port of gRPC; 0: any free"),
  logLevel: variable("ACP_LOG_LEVEL", oneOf(LOG_LEVELS), DEFAULT_LOG_LEVEL, `one of ${LOG_LEVELS.join(", ")}`),
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
  webhookAllow: variable("ACP_WEBHOOK_ALLOW", cidrs, "", "CIDR blocks of private webhook targets, with commas between"),
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
  if (config.httpPort === config.grpcPort && config.httpPort > 0) {
    problems.push(`ACP_GRPC_PORT must differ from ACP_HTTP_PORT: both are ${config.httpPort}`);
  }
  if (problems.length > 0) throw new ConfigError(problems);
  return config;
}
