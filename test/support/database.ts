import { createHash, randomUUID } from "node:crypto";
import { rm, statfs } from "node:fs/promises";
import { tmpdir } from "node:os";
import { Client, Pool } from "pg";
import { startEmbeddedPostgres } from "../../src/store/embedded-postgres.ts";
import { type Migration, runMigrations, type StoreLog } from "../../src/store/migrate.ts";
import { MIGRATIONS } from "../../src/store/migrations.ts";
import { isPooled, LOGIN_LIMITS, notePooler, sessionUrlOf, startPooler } from "./pooler.ts";
import { createScratch, MEMORY } from "./scratch.ts";
import { assertServingLogin } from "./serving-login.ts";

/** A database of one test file, on a server that the test files of this process share. */
export interface TestDatabase {
  /** Logs in as the service does, with no right but to serve; fit for child processes too. Leads to the pooler, if tests run behind one. */
  readonly url: string;
  /** Logs in as the owner, who may do everything. */
  readonly ownerUrl: string;
  /** Ends all its connections. */
  drop(): Promise<void>;
}

/** A log that is silent; tests that look at messages pass their own. */
export const SILENT_LOG: StoreLog = { info: () => undefined, warn: () => undefined, error: () => undefined };

/** Bytes that must be free in memory: containers often have 64 MB. */
const MIN_MEMORY = 4 * 1024 ** 3;
const PREFIX = "acp_test_";
/** Of this process alone, on whatever host: a given server may serve runs of several. */
const RUN = randomUUID().slice(0, 8);
/** Settings for data that may be lost with the machine: nothing is made durable or cleaned up. */
export const FAST_SETTINGS: Readonly<Record<string, string>> = {
  fsync: "off",
  full_page_writes: "off",
  synchronous_commit: "off",
  autovacuum: "off",
  min_wal_size: "32MB",
  max_wal_size: "64MB",
  // The passwords are random, so that hashing them thousands of times guards nothing.
  scram_iterations: "1",
  // Shared memory lies in the data directory and goes with it.
  dynamic_shared_memory_type: "mmap",
};
const templates = new Map<readonly Migration[], Promise<string>>();
let server: Promise<TestPostgres> | undefined;
let count = 0;

/** Runs `use` with a connection to `url`, past the pooler of the tests. */
export async function withClient<T>(url: string, use: (client: Client) => Promise<T>): Promise<T> {
  const client = new Client({ connectionString: sessionUrlOf(url) });
  client.on("error", () => undefined);
  await client.connect();
  try {
    return await use(client);
  } finally {
    await client.end();
  }
}

/** Ends every connection to the database but the one that says so. */
export async function cutConnections(url: string): Promise<void> {
  await withClient(url, (client) =>
    client.query(
      "select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()",
    ),
  );
}

/** The same server's URL with another database, and with another user if given. */
export function urlOf(url: string, database: string, user?: { name: string; password: string }): string {
  const copy = new URL(url);
  copy.pathname = `/${database}`;
  if (user) Object.assign(copy, { username: user.name, password: user.password });
  return copy.href;
}

/** The server of the tests of this process, with the connection that creates and drops their databases. */
interface TestPostgres {
  /** Logs in as the service does, past the pooler. */
  readonly url: string;
  /** The same behind the pooler, if tests run behind one; else `url`. */
  readonly servingUrl: string;
  readonly ownerUrl: string;
  readonly administrator: Pool;
}

async function startServer(): Promise<TestPostgres> {
  const { url, ownerUrl } = await findServer();
  return { url, ownerUrl, servingUrl: await servingUrlOf(url, ownerUrl), administrator: administratorOf(ownerUrl) };
}

async function findServer(): Promise<Pick<TestPostgres, "url" | "ownerUrl">> {
  const ownerUrl = process.env.DATABASE_URL_TEST;
  if (ownerUrl) return { url: await createLogin(ownerUrl), ownerUrl };
  const dataDir = createScratch(await findRoom());
  return startEmbeddedPostgres({ dataDir, log: SILENT_LOG, settings: FAST_SETTINGS });
}

async function servingUrlOf(url: string, ownerUrl: string): Promise<string> {
  if (!isPooled()) return url;
  const { username } = new URL(url);
  const limits = LOGIN_LIMITS.map((limit) => `alter role "${username}" set ${limit}`);
  await withClient(ownerUrl, (client) => client.query(limits.join("; ")));
  const pooler = await startPooler(url);
  notePooler(pooler.url, url);
  return pooler.url;
}

/** One connection, which does not keep the process alive between its statements. */
function administratorOf(connectionString: string): Pool {
  const pool = new Pool({ connectionString, max: 1, idleTimeoutMillis: 0, allowExitOnIdle: true });
  return pool.on("error", () => undefined);
}

/** Creates the login that serves, on a server of somebody else; gives its URL. Runs with the same URL make the same one. */
async function createLogin(ownerUrl: string): Promise<string> {
  const hash = createHash("sha256").update(ownerUrl).digest();
  const login = { name: `${PREFIX}login_${hash.toString("hex", 0, 4)}`, password: hash.toString("base64url") };
  await withClient(ownerUrl, async (client) => {
    await client
      .query(`create role ${login.name} login password '${login.password}'`)
      .catch((error: { code: string }) => {
        if (!["42710", "23505"].includes(error.code)) throw error;
      });
  });
  return urlOf(ownerUrl, new URL(ownerUrl).pathname.slice(1), login);
}

/**
 * Finds a place for the server's data: in memory where there is room. Ext4 gives out no file number that was in use a moment
 * ago, so each file of a new database would take longer the more databases were just dropped.
 */
async function findRoom(): Promise<string> {
  const free = await statfs(MEMORY).catch(() => undefined);
  return free !== undefined && free.bavail * free.bsize >= MIN_MEMORY ? MEMORY : tmpdir();
}

async function createDatabase(template?: string): Promise<string> {
  server ??= startServer();
  const { administrator } = await server;
  const name = `${PREFIX}${RUN}_${++count}`;
  // Half the work of the write-ahead log. PostgreSQL 14, which a given server may be, knows no other way and no such words.
  const strategy = process.env.DATABASE_URL_TEST ? "" : "strategy file_copy";
  await administrator.query(`create database ${name} template ${template ?? "template0"} ${strategy}`);
  return name;
}

async function dropDatabase(name: string): Promise<void> {
  if (server === undefined) return;
  const { administrator } = await server;
  await administrator.query(`drop database if exists ${name} with (force)`);
}

async function createTemplate(migrations: readonly Migration[]): Promise<string> {
  const name = await createDatabase();
  const { url, ownerUrl } = await (server ?? startServer());
  // Before PostgreSQL 15 everyone may create tables there.
  await withClient(urlOf(ownerUrl, name), (client) => client.query("revoke create on schema public from public"));
  await runMigrations(urlOf(ownerUrl, name), { migrations, login: new URL(url).username, log: SILENT_LOG });
  await assertServingLogin(urlOf(url, name));
  return name;
}

/**
 * A new database with the product's migrations, or the given ones, applied: copied from a template that is migrated
 * once per run and list. Rejects if the login that serves has rights beyond. The server starts on first use and ends with the process; `DATABASE_URL_TEST` names
 * another one, whose user MUST be allowed to create databases and roles.
 */
export async function createTestDatabase(migrations: readonly Migration[] = MIGRATIONS): Promise<TestDatabase> {
  const template = templates.get(migrations) ?? createTemplate(migrations);
  templates.set(migrations, template);
  const name = await createDatabase(await template);
  const { servingUrl, ownerUrl } = await (server ?? startServer());
  return { url: urlOf(servingUrl, name), ownerUrl: urlOf(ownerUrl, name), drop: () => dropDatabase(name) };
}

/** Removes what a test left on disk, directories of another owner included. */
export async function removeAll(...paths: readonly string[]): Promise<void> {
  for (const path of paths) await rm(path, { recursive: true, force: true });
}
