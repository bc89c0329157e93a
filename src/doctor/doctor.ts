import { createPrivateKey } from "node:crypto";
import { readFile, stat } from "node:fs/promises";
import { connect as connectHttp2 } from "node:http2";
import { createServer } from "node:net";
import { join, resolve } from "node:path";
import { type Config, ENCRYPTION_KEY_FILE, type LoadedConfig, missingKeys, SIGNING_KEY_FILE } from "../config.ts";
import { pingRedis } from "../mirror/redis-ping.ts";
import { addressOf, loginOf } from "../store/database.ts";
import { examineDatabase } from "../store/examine.ts";
import { MIGRATIONS } from "../store/migrations.ts";

/** Result of one check. A `note` is worth knowing and keeps nothing from working. */
export interface Finding {
  /** Subject of the check, such as `database`. */
  readonly check: string;
  readonly status: "ok" | "note" | "wrong";
  readonly text: string;
}

/** Difference between the clocks of service and database that is worth correcting, milliseconds. */
const MAX_SKEW_MS = 1_000;
/** Milliseconds that a served port may take to answer. */
const PORT_MS = 3_000;
/** Permissions of accounts other than the owner. */
const OTHERS = 0o077;

/** Examines settings, keys, database, Redis, ports and data directory. Changes nothing, and repeats no secret. */
export async function examine({ config, warnings }: LoadedConfig): Promise<readonly Finding[]> {
  const found = await Promise.all([
    examineKeys(config),
    examineDataDirectory(config),
    examineStore(config),
    examineRedis(config),
    examinePorts(config),
  ]);
  return [...warnings.map((text) => ({ check: "settings", status: "note", text }) as const), ...found.flat()];
}

const finding =
  (check: string) =>
  (status: Finding["status"], text: string): Finding => ({ check, status, text });

async function examineKeys(config: Config): Promise<Finding[]> {
  const of = finding("keys");
  const missing = missingKeys(config).map((text) => of("wrong", text));
  const given = config.signingKey?.reveal();
  if (given === undefined) return missing.length > 0 ? missing : [of("ok", "generated in ACP_DATA_DIR")];
  const isPem = given.includes("-----BEGIN");
  const pem = isPem ? given : await readFile(given, "utf8").catch((error: NodeJS.ErrnoException) => error);
  // The value is not repeated: it may be a key that lost its first line.
  if (typeof pem !== "string") {
    return [...missing, of("wrong", `ACP_SIGNING_KEY names a file that cannot be read (${pem.code})`)];
  }
  if (!isSigningKey(pem)) return [...missing, of("wrong", "ACP_SIGNING_KEY holds no ECDSA P-256 private key in PEM")];
  return missing.length > 0 ? missing : [of("ok", "ACP_SIGNING_KEY and ACP_ENCRYPTION_KEY are usable")];
}

function isSigningKey(pem: string): boolean {
  try {
    return createPrivateKey(pem).asymmetricKeyDetails?.namedCurve === "prime256v1";
  } catch {
    return false;
  }
}

async function examineDataDirectory({ dataDir }: Config): Promise<Finding[]> {
  const of = finding("data directory");
  const directory = resolve(dataDir);
  const folder = await stat(directory).catch(() => undefined);
  if (folder === undefined) return [of("ok", `\`${directory}\` is created by the first start`)];
  if (!folder.isDirectory()) return [of("wrong", `\`${directory}\` is no directory: set ACP_DATA_DIR to another`)];
  const open: Finding[] = [];
  if ((folder.mode & OTHERS) !== 0) {
    open.push(of("wrong", `other accounts may enter \`${directory}\`: chmod 700 '${directory}'`));
  }
  for (const name of [SIGNING_KEY_FILE, ENCRYPTION_KEY_FILE, "admin-key"]) {
    const path = join(directory, name);
    const file = await stat(path).catch(() => undefined);
    if (file !== undefined && (file.mode & OTHERS) !== 0) {
      open.push(of("wrong", `other accounts may read \`${path}\`: chmod 600 '${path}'`));
    }
  }
  return open.length > 0 ? open : [of("ok", `\`${directory}\` is closed to other accounts`)];
}

async function examineStore({ databaseUrl, databaseDirectUrl, adminKey }: Config): Promise<Finding[]> {
  const of = finding("database");
  if (databaseUrl === null) return [of("ok", "embedded PostgreSQL in ACP_DATA_DIR; it runs while the service does")];
  const pooled = databaseDirectUrl === null ? [] : await examinePooler(databaseUrl.reveal());
  const url = (databaseDirectUrl ?? databaseUrl).reveal();
  const address = addressOf(url);
  const facts = await examineDatabase(url, MIGRATIONS).catch((error: Error) => error);
  if (facts instanceof Error)
    return [...pooled, of("wrong", `\`${loginOf(url)}\` cannot connect to \`${address}\`: ${textOf(facts)}`)];
  const { version, isSupported, schema, clockAheadMs, keys } = facts;
  const aheadText = `its clock is ${Math.abs(clockAheadMs)} ms ${clockAheadMs < 0 ? "behind" : "ahead of"} this host's`;
  const findings = [
    ...pooled,
    isSupported
      ? of("ok", `PostgreSQL ${version} at \`${address}\` answers \`${loginOf(url)}\``)
      : of("wrong", `PostgreSQL ${version} at \`${address}\` is too old: use 14 or newer`),
    Math.abs(clockAheadMs) > MAX_SKEW_MS
      ? of("wrong", `${aheadText}: let both hosts synchronise their time (NTP)`)
      : of("ok", aheadText),
  ];
  if (schema === undefined || schema.pending.length === MIGRATIONS.length) {
    findings.push(of("wrong", "it has no tables that this login may read: run `agentctl migrate up`"));
  } else if (schema.unknown.length > 0) {
    findings.push(of("wrong", `it is of a newer version, which applied \`${schema.unknown.join()}\``));
  } else if (schema.pending.length > 0) {
    findings.push(of("wrong", `it lacks \`${schema.pending.join()}\`: run \`agentctl migrate up\``));
  } else findings.push(of("ok", `all ${schema.applied.length} migrations are applied`));
  if (keys === 0 && adminKey === null) {
    findings.push(of("wrong", "it holds no key, and ACP_ADMIN_KEY is not set; make one with `openssl rand -hex 24`"));
  }
  return findings;
}

async function examinePooler(url: string): Promise<Finding[]> {
  const of = finding("pooler");
  const address = addressOf(url);
  return examineDatabase(url, MIGRATIONS).then(
    () => [of("ok", `the pooler at \`${address}\` answers \`${loginOf(url)}\``)],
    (error: Error) => [of("wrong", `\`${loginOf(url)}\` cannot connect to \`${address}\`: ${textOf(error)}`)],
  );
}

async function examineRedis({ redisUrl }: Config): Promise<Finding[]> {
  const of = finding("redis");
  if (redisUrl === null) return [of("ok", "not used")];
  const fault = await pingRedis(redisUrl.reveal()).then(
    () => undefined,
    (error: Error) => error,
  );
  if (fault === undefined) return [of("ok", `${redisUrl} answers`)];
  return [of("wrong", `${redisUrl} does not answer: ${textOf(fault)}`)];
}

async function examinePorts({ host, httpPort, grpcPort, tlsCert }: Config): Promise<Finding[]> {
  const scheme = tlsCert === null ? "http" : "https";
  const [http, grpc] = await Promise.all([
    examinePort("ACP_HTTP_PORT", { host, port: httpPort }, () => isServedHttp(scheme, host, httpPort)),
    examinePort("ACP_GRPC_PORT", { host, port: grpcPort }, () => isServedHttp2(scheme, host, grpcPort)),
  ]);
  return [http, grpc];
}

async function examinePort(
  name: string,
  { host, port }: { readonly host: string; readonly port: number },
  isServed: () => Promise<boolean>,
): Promise<Finding> {
  const of = finding("ports");
  if (port === 0) return of("ok", `${name} is any free port`);
  const fault = await listenFault(host, port);
  if (fault === undefined) return of("ok", `${name} ${port} is free`);
  if (fault !== "EADDRINUSE") return of("wrong", `${name}: this host cannot listen on \`${host}\` ${port} (${fault})`);
  if (await isServed()) return of("ok", `${name} ${port} is served`);
  return of("wrong", `${name} ${port} is used by another program: stop it, or set ${name} to another port`);
}

/** Tries to listen; returns the code of the fault. */
function listenFault(host: string, port: number): Promise<string | undefined> {
  return new Promise((done) => {
    const server = createServer();
    server.once("error", (error: NodeJS.ErrnoException) => done(error.code ?? "unknown"));
    server.listen(port, host, () => server.close(() => done(undefined)));
  });
}

/** Returns the address to reach a listening address by. */
function reachable(host: string): string {
  if (host === "0.0.0.0") return "127.0.0.1";
  if (host === "::") return "[::1]";
  return host.includes(":") ? `[${host}]` : host;
}

async function isServedHttp(scheme: string, host: string, port: number): Promise<boolean> {
  // A certificate that does not name this address would make `fetch` fail: HTTP/2 then tells as much as is needed.
  if (scheme === "https") return isServedHttp2(scheme, host, port);
  const signal = AbortSignal.timeout(PORT_MS);
  const answer = await fetch(`http://${reachable(host)}:${port}/healthz`, { signal, redirect: "manual" })
    .then((response) => response.json() as Promise<{ readonly ok?: unknown } | null>)
    .catch(() => undefined);
  return answer?.ok === true;
}

/** Tests for a server of HTTP/2. */
function isServedHttp2(scheme: string, host: string, port: number): Promise<boolean> {
  return new Promise((done) => {
    // Nothing is sent but the preface, so that the certificate need not be trusted.
    const session = connectHttp2(`${scheme}://${reachable(host)}:${port}`, { rejectUnauthorized: false });
    const settle = (isServed: boolean): void => {
      clearTimeout(timer);
      session.destroy();
      done(isServed);
    };
    const timer = setTimeout(() => settle(false), PORT_MS);
    session.once("remoteSettings", () => settle(true));
    session.once("error", () => settle(false));
    session.once("close", () => settle(false));
  });
}

/** Returns the message of a fault. For a host with several addresses, Node wraps the real faults in one without a message. */
function textOf(error: Error): string {
  const first = error instanceof AggregateError ? (error.errors[0] as Error) : error;
  return first.message;
}
