import { type ChildProcessByStdio, spawn } from "node:child_process";
import { generateKeyPairSync, randomBytes } from "node:crypto";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { chmod, chown, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import type { Readable } from "node:stream";
import { setTimeout as delay } from "node:timers/promises";
import "./scratch.ts";
import { poolerSettingsOf } from "./pooler.ts";
import type { ServedHere } from "./served-here.ts";

/** How a server is started. */
export interface ServerOptions {
  /** The database to use. Absent: an embedded PostgreSQL in a temporary directory that goes with the server. */
  readonly databaseUrl?: string;
  /** Environment on top of free ports and new keys; `ACP_HTTP_PORT` and `ACP_GRPC_PORT` pin the ports. */
  readonly env?: Readonly<Record<string, string>>;
  /** Account that the server runs as, if this is root. Default: this process's own. */
  readonly account?: { readonly uid: number; readonly gid: number };
}

/** The program as a process of its own. */
export interface TestServer extends ServedHere {
  /** The process. */
  readonly pid: number;
  /** Asks it to stop and waits until it has ended; gives its exit code. Stopping again gives the same. */
  stop(): Promise<number | null>;
  /** Ends it without a chance to clean up. */
  kill(): Promise<void>;
}

type Child = ChildProcessByStdio<null, Readable, Readable>;

interface Listening {
  readonly http: string;
  readonly grpc: string;
}

const MAIN = join(import.meta.dirname, "..", "..", "src", "main.ts");
/** Milliseconds: a first start initialises a PostgreSQL, on a busy machine. */
const START_LIMIT_MS = 120_000;
/** Milliseconds after which a server that does not stop is killed. */
const STOP_LIMIT_MS = 30_000;
const POLL_MS = 20;
/** Characters of a server's output that are kept. */
export const KEPT_OUTPUT = 65_536;
const running = new Set<Child>();

/** Keys that a service on a database of ours must be given; the same for all that this process starts, as in production. */
const KEYS: Readonly<Record<string, string>> = {
  ACP_SIGNING_KEY: generateKeyPairSync("ec", { namedCurve: "P-256" })
    .privateKey.export({ type: "pkcs8", format: "pem" })
    .toString(),
  ACP_ENCRYPTION_KEY: randomBytes(32).toString("base64url"),
};

/** The environment of a service: what this process has, without anything that configures the program, and `env`. */
export function environmentOf(env: Readonly<Record<string, string>>): Record<string, string | undefined> {
  const own = /^(ACP_|DATABASE_URL|REDIS_URL)/;
  return { ...Object.fromEntries(Object.entries(process.env).filter(([name]) => !own.test(name))), ...env };
}

function listeningFrom(line: string): Listening | undefined {
  if (!line.startsWith("{")) return undefined;
  try {
    const { msg, http, grpc } = JSON.parse(line) as Record<string, unknown>;
    return msg === "listening" && typeof http === "string" && typeof grpc === "string" ? { http, grpc } : undefined;
  } catch {
    return undefined;
  }
}

/** Keeps the end of everything that the child writes. */
function recorded(child: Child): () => string {
  let kept = "";
  for (const stream of [child.stdout, child.stderr]) {
    stream.on("data", (chunk: Buffer) => {
      kept = (kept + chunk.toString()).slice(-KEPT_OUTPUT);
    });
  }
  return () => kept;
}

function listening(child: Child, output: () => string): Promise<Listening> {
  return new Promise((resolve, reject) => {
    const fail = (why: string) => {
      clearTimeout(timer);
      child.kill("SIGKILL");
      reject(new Error(`the server ${why}; it wrote:\n${output()}`));
    };
    const timer = setTimeout(() => fail("did not listen in time"), START_LIMIT_MS);
    child.once("error", (error) => fail(`did not start: ${error.message}`));
    child.once("exit", (code, signal) => fail(`ended with ${code ?? signal} before it listened`));
    createInterface(child.stdout).on("line", (line) => {
      const found = listeningFrom(line);
      if (found === undefined) return;
      clearTimeout(timer);
      resolve(found);
    });
  });
}

/** Waits for the PostgreSQL of a server that was killed: without its files it would leave shared memory behind. */
async function databaseEnded(dataDir: string): Promise<void> {
  const deadline = performance.now() + STOP_LIMIT_MS;
  while (existsSync(join(dataDir, "postgres/data/postmaster.pid")) && performance.now() < deadline)
    await delay(POLL_MS);
}

async function stopped(child: Child, ended: Promise<number | null>): Promise<number | null> {
  child.kill("SIGTERM");
  const timer = setTimeout(() => child.kill("SIGKILL"), STOP_LIMIT_MS);
  try {
    return await ended;
  } finally {
    clearTimeout(timer);
  }
}

/**
 * Starts `src/main.ts` and waits until it listens. Rejects with what the process wrote when it does not. A server that
 * is still there when the tests or the process end is killed.
 */
export async function startServer({ databaseUrl, env = {}, account }: ServerOptions = {}): Promise<TestServer> {
  const dataDir = await mkdtemp(join(tmpdir(), "acp-server-"));
  const homes = await mkdtemp(join(tmpdir(), "acp-homes-"));
  await chmod(homes, 0o711);
  if (account !== undefined) for (const path of [dataDir, homes]) await chown(path, account.uid, account.gid);
  const adminKey = env.ACP_ADMIN_KEY ?? randomBytes(24).toString("hex");
  const base = {
    ACP_HTTP_PORT: "0",
    ACP_GRPC_PORT: "0",
    ACP_DATA_DIR: dataDir,
    ACP_ADMIN_KEY: adminKey,
    ACP_MCP_HOMES: homes,
    // No balancer looks at it.
    ACP_LAME_DUCK_MS: "0",
  };
  const database =
    databaseUrl === undefined ? {} : { DATABASE_URL: databaseUrl, ...poolerSettingsOf(databaseUrl), ...KEYS };
  const child = spawn(process.execPath, [MAIN], {
    env: environmentOf({ ...base, ...database, ...env }),
    stdio: ["ignore", "pipe", "pipe"],
    ...account,
  });
  running.add(child);
  const ended = once(child, "exit").then(async ([code]) => {
    running.delete(child);
    await databaseEnded(dataDir);
    await rm(dataDir, { recursive: true, force: true });
    await rm(homes, { recursive: true, force: true });
    return code as number | null;
  });
  // A process that never started has no exit; `listening` says why.
  ended.catch(() => running.delete(child));
  const output = recorded(child);
  const { http, grpc } = await listening(child, output).catch(async (error) => {
    await ended;
    throw error;
  });
  return {
    http,
    grpc,
    adminKey,
    pid: child.pid as number,
    dataDir,
    homes,
    output,
    stop: () => stopped(child, ended),
    kill: async () => {
      child.kill("SIGKILL");
      await ended;
    },
  };
}

function killAll(): void {
  for (const child of running) child.kill("SIGKILL");
}

process.once("exit", killAll);
// Under mocha a forgotten server would keep the run from ending. Outside of mocha there is no `after`.
if (typeof after === "function") after("ends servers that are left", killAll);
