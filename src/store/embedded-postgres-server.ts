import { type ChildProcess, spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import { open, readFile, rename, rm, stat } from "node:fs/promises";
import { createServer } from "node:net";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { PROGRAM_ENVIRONMENT, runAs } from "./embedded-postgres-account.ts";
import type { Cluster } from "./embedded-postgres-cluster.ts";

/** The address that the embedded PostgreSQL listens on. */
export const LISTEN_ADDRESS = "127.0.0.1";
/** Connections of all processes that use the server. */
export const DEFAULT_MAX_CONNECTIONS = 200;
/** Milliseconds for a fast shutdown, which waits for a checkpoint; then the server is stopped without one. */
export const DEFAULT_STOP_MS = 30_000;
/** Bytes after which a start begins the server's log anew. */
const LOG_LIMIT = 16 * 1_048_576;
const POLL_MS = 25;

/** A running server as its pid file tells it. */
export interface Postmaster {
  readonly pid: number;
  readonly port: number;
  /** True once connections are accepted. */
  readonly isReady: boolean;
}

/** How a server is launched. */
export interface LaunchOptions {
  readonly port: number;
  readonly durable: boolean;
  readonly maxConnections: number;
}

/** A server that this process launched. */
export interface Launched {
  /** Undefined while it runs; then the last fatal line of its log. */
  failure(): string | undefined;
}

const SETTINGS: Readonly<Record<string, string>> = {
  listen_addresses: LISTEN_ADDRESS,
  unix_socket_directories: "",
  shared_buffers: "256MB",
  max_wal_size: "2GB",
  min_wal_size: "256MB",
  checkpoint_timeout: "15min",
  password_encryption: "scram-sha-256",
  jit: "off",
  timezone: "UTC",
  log_timezone: "UTC",
};
/** A decision leaves only once it is on disk. */
const DURABLE = { fsync: "on", full_page_writes: "on", synchronous_commit: "on" };
/** For databases that may be lost with the machine, such as those of tests. */
const VOLATILE = { fsync: "off", full_page_writes: "off", synchronous_commit: "off" };

const pidFile = (cluster: Cluster): string => join(cluster.data, "postmaster.pid");

async function readOptional(path: string): Promise<string | undefined> {
  return readFile(path, "utf8").catch(() => undefined);
}

/** What the pid file says; undefined when there is none or it is still being written. */
export async function readPostmaster(cluster: Cluster): Promise<Postmaster | undefined> {
  const lines = (await readOptional(pidFile(cluster)))?.split("\n") ?? [];
  const pid = Number(lines[0]);
  if (!(pid > 0)) return undefined;
  return { pid, port: Number(lines[3]), isReady: lines[7]?.trim() === "ready" };
}

/** True when the process lives and is the server of this cluster, not a foreign process that got its number. */
export async function isServer(cluster: Cluster, pid: number): Promise<boolean> {
  if (process.platform === "linux") {
    // World-readable, unlike the other links of /proc that a root without CAP_SYS_PTRACE may not follow.
    const args = (await readOptional(`/proc/${pid}/cmdline`))?.split("\0") ?? [];
    return args[args.indexOf("-D") + 1] === cluster.data;
  }
  const line = await runAs(undefined, "ps", ["-ww", "-o", "command=", "-p", String(pid)]).catch(() => "");
  return line.includes(`-D ${cluster.data} `);
}

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "EPERM";
  }
}

/** Removes a pid file whose number a foreign process now has; PostgreSQL itself removes those whose process is gone. */
export async function removeStalePidFile(cluster: Cluster): Promise<void> {
  const text = await readOptional(pidFile(cluster));
  const pid = Number(text?.split("\n")[0]);
  if (!(pid > 0) || !isAlive(pid) || (await isServer(cluster, pid))) return;
  const aside = `${pidFile(cluster)}.${randomUUID()}`;
  await rename(pidFile(cluster), aside).catch(() => undefined);
  const moved = await readOptional(aside);
  // Another process may have started a server between look and move: its file goes back.
  if (moved !== undefined && moved !== text) return rename(aside, pidFile(cluster));
  await rm(aside, { force: true });
}

/** A port that was free a moment ago: `preferred` if it is, else any. */
export async function findPort(preferred: number): Promise<number> {
  const server = createServer();
  const port = await new Promise<number | undefined>((resolve) => {
    server.once("error", () => resolve(undefined));
    server.listen(preferred, LISTEN_ADDRESS, () => {
      const address = server.address();
      resolve(typeof address === "object" ? address?.port : undefined);
    });
  });
  if (port === undefined) return findPort(0);
  await new Promise((resolve) => server.close(resolve));
  return port;
}

async function lastFatalLine(log: string, from: number): Promise<string> {
  const text = Buffer.from((await readOptional(log)) ?? "").subarray(from);
  const lines = text.toString().trim().split("\n");
  return (lines.findLast((line) => line.includes("FATAL:")) ?? lines.at(-1) ?? "").replace(/^.*FATAL:\s*/, "");
}

function watch(child: ChildProcess, log: string, from: number): Launched {
  let failure: string | undefined;
  child.once("error", (error) => {
    failure = error.message;
  });
  child.once("exit", (_code, signal) => {
    // Set once, complete: the reason decides whether another attempt follows.
    lastFatalLine(log, from).then((line) => {
      failure = line || `ended by ${signal ?? "itself"}`;
    });
  });
  return { failure: () => failure };
}

/**
 * Launches the server in a session of its own, so that Ctrl-C and the end of this process do not reach it.
 * Does not wait until it accepts connections.
 */
export async function launchServer(
  cluster: Cluster,
  { port, durable, maxConnections }: LaunchOptions,
): Promise<Launched> {
  const log = join(cluster.directory, "postgres.log");
  const size = (await stat(log).catch(() => undefined))?.size ?? 0;
  const file = await open(log, size > LOG_LIMIT ? "w" : "a", 0o600);
  const own = { port: String(port), max_connections: String(maxConnections) };
  const settings = { ...SETTINGS, ...(durable ? DURABLE : VOLATILE), ...own };
  const flags = Object.entries(settings).flatMap(([name, value]) => ["-c", `${name}=${value}`]);
  const child = spawn(cluster.binaries.postgres, ["-D", cluster.data, ...flags], {
    ...cluster.account,
    cwd: "/",
    env: PROGRAM_ENVIRONMENT,
    detached: true,
    stdio: ["ignore", file.fd, file.fd],
  });
  child.unref();
  const launched = watch(child, log, size > LOG_LIMIT ? 0 : size);
  await file.close();
  return launched;
}

async function isGone(cluster: Cluster, pid: number, timeoutMs: number): Promise<boolean> {
  const deadline = Date.now() + timeoutMs;
  while (await isServer(cluster, pid)) {
    if (Date.now() > deadline) return false;
    await delay(POLL_MS);
  }
  return true;
}

/**
 * Stops the running server, if there is one, and returns when its process is gone. Fast shutdown first; a server that
 * is not gone after `timeoutMs` is stopped at once, which loses nothing that was committed.
 */
export async function stopServer(cluster: Cluster, timeoutMs: number = DEFAULT_STOP_MS): Promise<void> {
  const postmaster = await readPostmaster(cluster);
  if (!postmaster || !(await isServer(cluster, postmaster.pid))) return;
  process.kill(postmaster.pid, "SIGINT");
  if (await isGone(cluster, postmaster.pid, timeoutMs)) return;
  process.kill(postmaster.pid, "SIGQUIT");
  await isGone(cluster, postmaster.pid, timeoutMs);
}
