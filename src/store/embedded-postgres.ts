import { type ChildProcess, spawn } from "node:child_process";
import { randomBytes, randomUUID } from "node:crypto";
import { once } from "node:events";
import { open, readFile, readlink, rename, rm, stat, writeFile } from "node:fs/promises";
import { createServer, type Socket } from "node:net";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { Client } from "pg";
import { ControlPlaneError, ErrorReason } from "../errors.ts";
import { OWNER, openPostgresFiles, type PostgresFiles, PROGRAM_ENVIRONMENT } from "./embedded-postgres-files.ts";
import type { StoreLog } from "./migrate.ts";

/** Maximum number of connections of all processes that use the server. */
export const DEFAULT_MAX_CONNECTIONS = 200;
/** Milliseconds until a start is given up: recovery after a crash replays at most one checkpoint interval. */
const START_MS = 60_000;
/** Milliseconds after which a directory that another server holds, and does not leave, counts as in use. */
const IN_USE_MS = 2_000;
/** Milliseconds for a fast shutdown, which waits for a checkpoint; then the server is stopped without one. */
const STOP_MS = 30_000;
const POLL_MS = 50;
const RETRY_MS = 200;
/** Bytes after which a start truncates the server's log. */
const LOG_LIMIT = 16 * 1_048_576;
const HOST = "127.0.0.1";
const DATABASE = "acp";
/** The role that the service logs in as; `runMigrations` grants it its rights. */
const SERVICE = "acp_service";
/** Reasons of a failed start: another server holds the directory, or the port. */
const HELD = /lock file|shared memory block/;
const PORT_TAKEN = /could not create any TCP\/IP sockets|could not bind/;

const SETTINGS: Readonly<Record<string, string>> = {
  listen_addresses: HOST,
  unix_socket_directories: "",
  shared_buffers: "256MB",
  max_wal_size: "2GB",
  min_wal_size: "256MB",
  checkpoint_timeout: "15min",
  password_encryption: "scram-sha-256",
  jit: "off",
  timezone: "UTC",
  log_timezone: "UTC",
  fsync: "on",
  full_page_writes: "on",
  synchronous_commit: "on",
};

/**
 * Runs PostgreSQL in place of the shell, beside a watcher that reads from the process which started it. The pipe ends with that
 * process, however it dies, and the watcher then shuts PostgreSQL down.
 */
const SUPERVISED = `exec 3<&0 </dev/null
( ( while read -r line; do :; done; kill -INT $$ ) <&3 >/dev/null 2>&1 & )
exec "$@" 3<&-`;

/** Directory and settings of an embedded PostgreSQL. */
export interface EmbeddedPostgresOptions {
  /** Created if it does not exist. MUST be on a local disk. */
  readonly dataDir: string;
  readonly log: StoreLog;
  /** Settings of PostgreSQL that replace the product's, which make every commit durable. Default: none. */
  readonly settings?: Readonly<Record<string, string>>;
  /** Connections that the server accepts. Default `DEFAULT_MAX_CONNECTIONS`. */
  readonly maxConnections?: number;
  /** Directory of root for programs that PostgreSQL's account cannot reach otherwise. Default `/var/lib/agent-control-plane`. */
  readonly rootHome?: string;
}

/** A running PostgreSQL of this process. */
export interface EmbeddedPostgres {
  /** Address of the product's database for the login that serves, with a password of this start. MUST NOT be logged. */
  readonly url: string;
  /** The same for the owner, who is a superuser. MUST NOT be logged. */
  readonly ownerUrl: string;
  /** Shuts the server down. MAY be called again. */
  stop(): Promise<void>;
}

/**
 * Starts the PostgreSQL that the `embedded-postgres` package carries on `dataDir`. Works as root too, then under another
 * account. Promises: data survives restarts and crashes, a server that dies is started again, and it never outlives this
 * process. Throws STORE_UNAVAILABLE, naming the directory and the reason, also when another process uses the directory.
 */
export async function startEmbeddedPostgres(options: EmbeddedPostgresOptions): Promise<EmbeddedPostgres> {
  const files = await openPostgresFiles(options.dataDir, options.log, options.rootHome);
  const server = new EmbeddedServer(files, options);
  const port = await server.start();
  const urlOf = (user: string, password: string): string =>
    `postgresql://${user}:${password}@${HOST}:${port}/${DATABASE}`;
  return {
    url: urlOf(SERVICE, server.servicePassword),
    ownerUrl: urlOf(OWNER, files.password),
    stop: () => server.stop(),
  };
}

interface Launched {
  readonly child: ChildProcess;
  readonly port: number;
  /** Resolves when the server has ended, with the last fatal line of its log. */
  readonly failure: Promise<string>;
}

class EmbeddedServer {
  /** Password of the login that serves. Generated at every start, and stored only by PostgreSQL, as a hash. */
  readonly servicePassword = randomBytes(24).toString("base64url");
  readonly #files: PostgresFiles;
  readonly #options: EmbeddedPostgresOptions;
  /** Resolves with the server while one runs or is being started. */
  #running: Promise<Launched> | undefined;
  #stopped: Promise<void> | undefined;

  constructor(files: PostgresFiles, options: EmbeddedPostgresOptions) {
    this.#files = files;
    this.#options = options;
  }

  /** Starts the server. Returns its port. */
  async start(): Promise<number> {
    this.#running = this.#launchUntilReady();
    const { port } = await this.#running;
    this.#options.log.info({ directory: this.#files.directory, port }, "embedded postgresql is running");
    return port;
  }

  stop(): Promise<void> {
    this.#stopped ??= this.#stop();
    return this.#stopped;
  }

  async #stop(): Promise<void> {
    const launched = await this.#running?.catch(() => undefined);
    if (launched === undefined || hasEnded(launched.child)) return;
    const ended = once(launched.child, "exit");
    launched.child.ref();
    launched.child.kill("SIGINT");
    const timer = setTimeout(() => launched.child.kill("SIGQUIT"), STOP_MS);
    await ended;
    clearTimeout(timer);
  }

  async #launchUntilReady(): Promise<Launched> {
    const startedAt = performance.now();
    let heldSince = startedAt;
    for (;;) {
      await removeStalePidFile(this.#files.data);
      const launched = await launch(this.#files, this.#options);
      const failure = await Promise.race([launched.failure, ready(this.#files, launched, this.servicePassword)]);
      if (failure === undefined) return this.#watched(launched);
      const now = performance.now();
      const isHeld = HELD.test(failure);
      // A server whose process was killed is still shutting down.
      if (!isHeld || (await isShuttingDown(this.#files.data))) heldSince = now;
      if (now - heldSince > IN_USE_MS) throw await inUse(this.#files);
      if ((!isHeld && !PORT_TAKEN.test(failure)) || now - startedAt > START_MS) throw startError(this.#files, failure);
      await delay(RETRY_MS);
    }
  }

  #watched(launched: Launched): Launched {
    void launched.failure.then((reason) => {
      if (this.#stopped !== undefined) return;
      const { log } = this.#options;
      log.warn({ directory: this.#files.directory, reason }, "the embedded postgresql died and is started again");
      this.#running = this.#launchUntilReady();
      this.#running.catch((error) => log.error({ err: error }, "the embedded postgresql is gone"));
    });
    return launched;
  }
}

const hasEnded = ({ exitCode, signalCode }: ChildProcess): boolean => exitCode !== null || signalCode !== null;

const readText = (path: string): Promise<string> => readFile(path, "utf8").catch(() => "");

/** Launches the server in a session of its own, so that Ctrl-C does not reach it. Does not wait until it is ready. */
async function launch(files: PostgresFiles, options: EmbeddedPostgresOptions): Promise<Launched> {
  const { settings, maxConnections = DEFAULT_MAX_CONNECTIONS } = options;
  const log = join(files.directory, "postgres.log");
  const size = (await stat(log).catch(() => undefined))?.size ?? 0;
  const port = await findPort(Number(await readText(portFile(files))));
  const all = { ...SETTINGS, ...settings, port, max_connections: maxConnections };
  const flags = Object.entries(all).flatMap(([name, value]) => ["-c", `${name}=${value}`]);
  const file = await open(log, size > LOG_LIMIT ? "w" : "a", 0o600);
  const child = spawn("/bin/sh", ["-c", SUPERVISED, "sh", files.program, "-D", files.dataArgument, ...flags], {
    ...files.account,
    cwd: files.data,
    env: PROGRAM_ENVIRONMENT,
    detached: true,
    stdio: ["pipe", file.fd, file.fd],
  });
  // Neither may keep this process alive.
  child.unref();
  (child.stdin as unknown as Socket).unref();
  const ended = once(child, "exit").then(
    ([, signal]) => `ended by ${signal ?? "itself"}`,
    (error: Error) => error.message,
  );
  await file.close();
  const from = size > LOG_LIMIT ? 0 : size;
  const failure = ended.then(async (how) => (await lastFatalLine(log, from)) || how);
  return { child, port, failure };
}

async function lastFatalLine(log: string, from: number): Promise<string> {
  const text = Buffer.from(await readText(log)).subarray(from);
  const lines = text.toString().trim().split("\n");
  return (lines.findLast((line) => line.includes("FATAL:")) ?? lines.at(-1) ?? "").replace(/^.*FATAL:\s*/, "");
}

/** Resolves with undefined once the product's database can be connected to. */
async function ready(files: PostgresFiles, { child, port }: Launched, servicePassword: string): Promise<undefined> {
  while (!hasEnded(child)) {
    const client = new Client({ host: HOST, port, user: OWNER, password: files.password, database: "postgres" });
    client.on("error", () => undefined);
    const isConnected = await client.connect().then(
      () => true,
      () => false,
    );
    try {
      if (isConnected) return await prepare(client, { files, port, servicePassword });
    } finally {
      await client.end().catch(() => undefined);
    }
    await delay(POLL_MS);
  }
  return new Promise(() => undefined);
}

interface Prepared {
  readonly files: PostgresFiles;
  readonly port: number;
  readonly servicePassword: string;
}

async function prepare(client: Client, { files, port, servicePassword }: Prepared): Promise<undefined> {
  const found = await client.query("select from pg_database where datname = $1", [DATABASE]);
  if (found.rowCount === 0) await client.query(`create database ${DATABASE}`);
  const role = await client.query("select from pg_roles where rolname = $1", [SERVICE]);
  if (role.rowCount === 0) await client.query(`create role ${SERVICE}`);
  await client.query(`alter role ${SERVICE} login password '${servicePassword}'`);
  // Only a convenience: without the file the next start takes any free port.
  await writeFile(portFile(files), `${port}\n`, { mode: 0o600 }).catch(() => undefined);
}

const portFile = ({ directory }: PostgresFiles): string => join(directory, "port");

/** Finds a port that is free now: `preferred` if it is, else any. */
async function findPort(preferred: number): Promise<number> {
  const server = createServer().listen(preferred, HOST);
  try {
    await once(server, "listening");
  } catch {
    return findPort(0);
  }
  const address = server.address();
  await new Promise((resolve) => server.close(resolve));
  return typeof address === "object" && address !== null ? address.port : findPort(0);
}

const pidFile = (data: string): string => join(data, "postmaster.pid");
const pidFrom = (text: string): number => Number(text.split("\n")[0]);

/** The eighth line of the pid file is the server's state. */
async function isShuttingDown(data: string): Promise<boolean> {
  return (await readText(pidFile(data))).split("\n")[7]?.trim() === "stopping";
}

/**
 * Removes a pid file whose number a foreign process now has, as happens when a container starts again. PostgreSQL itself
 * removes those whose process is gone.
 */
async function removeStalePidFile(data: string): Promise<void> {
  const text = await readText(pidFile(data));
  const process = `/proc/${pidFrom(text)}`;
  const args = (await readText(`${process}/cmdline`)).split("\0");
  // Absent also where there is no /proc, or the process is gone.
  if (args.length < 2 || args.includes(data)) return;
  if ((await readlink(`${process}/cwd`).catch(() => "")) === data) return;
  const aside = `${pidFile(data)}.${randomUUID()}`;
  await rename(pidFile(data), aside).catch(() => undefined);
  // Another process may have started a server between look and move: its file goes back.
  const moved = await readText(aside);
  if (moved !== text) await rename(aside, pidFile(data)).catch(() => undefined);
  else await rm(aside, { force: true });
}

function startError({ directory }: PostgresFiles, why: string): ControlPlaneError {
  const message = `the embedded postgresql in \`${directory}\` does not start: ${why}`;
  return new ControlPlaneError(ErrorReason.STORE_UNAVAILABLE, message, { directory });
}

async function inUse({ directory, data }: PostgresFiles): Promise<ControlPlaneError> {
  const pid = String(pidFrom(await readText(pidFile(data))));
  const message = `the embedded postgresql in \`${directory}\` is in use by process ${pid} of another service: stop that one, or set ACP_DATA_DIR or DATABASE_URL`;
  return new ControlPlaneError(ErrorReason.STORE_UNAVAILABLE, message, { directory, pid });
}
