import { createHash } from "node:crypto";
import { rm } from "node:fs/promises";
import { join } from "node:path";
import { Client } from "pg";
import { type EmbeddedPostgres, startEmbeddedPostgres } from "../../src/store/embedded-postgres.ts";
import { type Migration, runMigrations, type StoreLog } from "../../src/store/migrate.ts";
import { MIGRATIONS } from "../../src/store/migrations.ts";
import { assertServingLogin } from "./serving-login.ts";

/** A database of one test file, on a server that the test files of this process share. */
export interface TestDatabase {
  /** Logs in as the service does, with no right but to serve; fit for child processes too. */
  readonly url: string;
  /** Logs in as the owner, who may do everything. */
  readonly ownerUrl: string;
  /** Ends all its connections. */
  drop(): Promise<void>;
}

/** A log that is silent; tests that look at messages pass their own. */
export const SILENT_LOG: StoreLog = { info: () => undefined, warn: () => undefined, error: () => undefined };

const DATA_DIR = join(import.meta.dirname, "..", "..", ".data", "test");
const PREFIX = "acp_test_";
const templates = new Map<readonly Migration[], Promise<string>>();
let server: Promise<EmbeddedPostgres> | undefined;
let count = 0;

/** Runs `use` with a connection to `url`. */
export async function withClient<T>(url: string, use: (client: Client) => Promise<T>): Promise<T> {
  const client = new Client({ connectionString: url });
  client.on("error", () => undefined);
  await client.connect();
  try {
    return await use(client);
  } finally {
    await client.end();
  }
}

/** The same server's URL with another database, and with another user if given. */
export function urlOf(url: string, database: string, user?: { name: string; password: string }): string {
  const copy = new URL(url);
  copy.pathname = `/${database}`;
  if (user) Object.assign(copy, { username: user.name, password: user.password });
  return copy.href;
}

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "EPERM";
  }
}

/** A run that was killed leaves its databases; their names tell whose they are. */
async function dropOrphans(url: string): Promise<void> {
  await withClient(url, async (client) => {
    const { rows } = await client.query("select datname from pg_database where datname like $1", [`${PREFIX}%`]);
    for (const { datname } of rows) {
      if (!isAlive(Number(datname.slice(PREFIX.length).split("_")[0]))) {
        await client.query(`drop database if exists ${datname} with (force)`);
      }
    }
  });
}

async function startServer(): Promise<EmbeddedPostgres> {
  const ownerUrl = process.env.DATABASE_URL_TEST;
  if (ownerUrl) return { url: await createLogin(ownerUrl), ownerUrl, stop: async () => undefined };
  const started = await startUnused(Number(process.env.MOCHA_WORKER_ID ?? 0));
  await dropOrphans(started.ownerUrl);
  return started;
}

/** Creates the login that serves, on a server of somebody else; gives its URL. Runs at the same time make the same one. */
async function createLogin(ownerUrl: string): Promise<string> {
  const login = { name: `${PREFIX}login`, password: createHash("sha256").update(ownerUrl).digest("base64url") };
  await withClient(ownerUrl, async (client) => {
    await client
      .query(`create role ${login.name} login password '${login.password}'`)
      .catch((error: { code: string }) => {
        if (!["42710", "23505"].includes(error.code)) throw error;
      });
  });
  return urlOf(ownerUrl, new URL(ownerUrl).pathname.slice(1), login);
}

/** A server in the first directory that no other run uses. It ends with this process. */
async function startUnused(first: number): Promise<EmbeddedPostgres> {
  const dataDir = join(DATA_DIR, String(first));
  try {
    return await startEmbeddedPostgres({ dataDir, log: SILENT_LOG, durable: false });
  } catch (error) {
    if (!(error as Error).message.includes("is in use")) throw error;
    return startUnused(first + 1);
  }
}

async function createDatabase(template?: string): Promise<string> {
  server ??= startServer();
  const { ownerUrl } = await server;
  const name = `${PREFIX}${process.pid}_${++count}`;
  await withClient(ownerUrl, (client) => client.query(`create database ${name} template ${template ?? "template0"}`));
  return name;
}

async function dropDatabase(name: string): Promise<void> {
  if (server === undefined) return;
  const { ownerUrl } = await server;
  await withClient(ownerUrl, (client) => client.query(`drop database if exists ${name} with (force)`));
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
  const { url, ownerUrl } = await (server ?? startServer());
  return { url: urlOf(url, name), ownerUrl: urlOf(ownerUrl, name), drop: () => dropDatabase(name) };
}

/** Removes what a test left on disk, directories of another owner included. */
export async function removeAll(...paths: readonly string[]): Promise<void> {
  for (const path of paths) await rm(path, { recursive: true, force: true });
}
