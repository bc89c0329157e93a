/* PgBouncer in front of a test server, and the way past it. Imports neither mocha nor the embedded PostgreSQL, so that children may use it. */
import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { chmod, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { Client } from "pg";
import { freePort } from "./free-port.ts";

/** PgBouncer that gives out connections for one transaction, to every database of a server. */
export interface Pooler {
  /** Leads to the database of the URL that it was started for. */
  readonly url: string;
  /** Ends it at once. */
  stop(): Promise<void>;
}

const PROGRAM = "/usr/sbin/pgbouncer";
/** Connections that all clients of a database share, as few as the product promises to serve on. */
const SERVER_CONNECTIONS = 2;
/** Milliseconds for a start on a busy machine. */
const START_LIMIT_MS = 30_000;
const POLL_MS = 20;
/** Settings that the login needs from the database: behind a pooler no session can set them for itself. */
export const LOGIN_LIMITS: readonly string[] = [
  "idle_in_transaction_session_timeout = 7000",
  "lock_timeout = 9000",
  "statement_timeout = 60000",
];
/** Holds the addresses of the pooler and of the server behind it; children inherit it. */
const LEADS = "ACP_TEST_POOLER_LEADS";

/** True if the tests run behind a pooler. */
export const isPooled = (): boolean => process.env.ACP_TEST_POOLER === "1";

/** Account that it runs under: it refuses root. */
function accountOf(): { uid?: number; gid?: number } {
  if (process.geteuid?.() !== 0) return {};
  const id = (flag: string): number => Number(execFileSync("id", [flag, "nobody"], { encoding: "utf8" }));
  return { uid: id("-u"), gid: id("-g") };
}

async function answers(url: string): Promise<boolean> {
  const client = new Client({ connectionString: url });
  client.on("error", () => undefined);
  try {
    await client.connect();
    return true;
  } catch {
    return false;
  } finally {
    await client.end().catch(() => undefined);
  }
}

/**
 * Starts PgBouncer in front of the server of `url`, for its login alone, with so many connections to each database. It ends with
 * this process at the latest.
 */
export async function startPooler(url: string, serverConnections = SERVER_CONNECTIONS): Promise<Pooler> {
  const { hostname, port, username, password } = new URL(url);
  const own = await freePort();
  const folder = await mkdtemp(join(tmpdir(), "acp-pooler-"));
  await chmod(folder, 0o755);
  const users = join(folder, "users.txt");
  const settings = join(folder, "pgbouncer.ini");
  const lines = [
    "[databases]",
    `* = host=${hostname} port=${port || 5432}`,
    "[pgbouncer]",
    "listen_addr = 127.0.0.1",
    `listen_port = ${own}`,
    "unix_socket_dir =",
    "auth_type = plain",
    `auth_file = ${users}`,
    "pool_mode = transaction",
    `default_pool_size = ${serverConnections}`,
    "max_client_conn = 5000",
    // Seconds between its attempts to reach a server that was away.
    "server_login_retry = 1",
  ];
  await writeFile(users, `"${decodeURIComponent(username)}" "${decodeURIComponent(password)}"\n`);
  await writeFile(settings, `${lines.join("\n")}\n`);
  const child: ChildProcess = spawn(PROGRAM, [settings], { ...accountOf(), stdio: "ignore" });
  child.unref();
  const kill = (): void => void child.kill("SIGKILL");
  process.once("exit", kill);
  const ended = once(child, "exit");
  const pooled = new URL(url);
  pooled.host = `127.0.0.1:${own}`;
  const deadline = performance.now() + START_LIMIT_MS;
  while (!(await answers(pooled.href))) {
    if (child.exitCode !== null || performance.now() > deadline)
      throw new Error(`${PROGRAM} does not lead to the server`);
    await delay(POLL_MS);
  }
  return {
    url: pooled.href,
    async stop() {
      process.removeListener("exit", kill);
      // Its end is awaited, so it keeps the process until then.
      child.ref();
      kill();
      await ended;
      await rm(folder, { recursive: true, force: true });
    },
  };
}

/** Makes `directUrlOf` know the way past a pooler, here and in processes that are started later. */
export function notePooler(pooledUrl: string, url: string): void {
  process.env[LEADS] = `${new URL(pooledUrl).host} ${new URL(url).host}`;
}

/** Returns the URL past the pooler of the tests; undefined unless `url` leads to that pooler. */
export function directUrlOf(url: string): string | undefined {
  const [pooler, server] = (process.env[LEADS] ?? "").split(" ");
  const direct = new URL(url);
  if (server === undefined || direct.host !== pooler) return undefined;
  direct.host = server;
  return direct.href;
}

/** Returns a URL whose connections are sessions of the database itself: past the pooler, if `url` leads to it. */
export const sessionUrlOf = (url: string): string => directUrlOf(url) ?? url;

/** Settings of a service that is given `url` as its database: none unless `url` leads to the pooler of the tests. */
export function poolerSettingsOf(url: string): Record<string, string> {
  const directUrl = directUrlOf(url);
  if (directUrl === undefined) return {};
  return { DATABASE_URL: url, ACP_DATABASE_POOLER: "transaction", ACP_DATABASE_DIRECT_URL: directUrl };
}
