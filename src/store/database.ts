import type { Duplex } from "node:stream";
import { setTimeout as delay } from "node:timers/promises";
import { MikroORM, type PostgreSqlConnection } from "@mikro-orm/postgresql";
import { Client, type ClientBase, type Pool, type PoolClient } from "pg";
import { ControlPlaneError, ErrorReason } from "../errors.ts";
import { ENTITIES } from "./entities.ts";
import { readExcessRights } from "./login-rights.ts";
import {
  assertNotNewer,
  MIGRATION_TABLE,
  type Migration,
  runMigrations,
  type StoreLog,
  schemaStateOf,
} from "./migrate.ts";
import { MIGRATIONS } from "./migrations.ts";

/** Milliseconds that a start waits for a database that is itself still starting. */
const DEFAULT_CONNECT_MS = 10_000;
/** Milliseconds that a query waits for a connection of the pool. */
const ACQUIRE_MS = 10_000;
const RETRY_MS = 250;
/**
 * Milliseconds that a transaction of ours may idle before PostgreSQL ends its session: a process that is frozen while it holds
 * the end of a log stops the others no longer than this.
 */
const IDLE_IN_TRANSACTION_MS = 7_000;
/** Milliseconds that a statement waits for a lock: longer than a frozen process can hold one. */
const LOCK_MS = 9_000;
/** Milliseconds that PostgreSQL gives any statement: no page of a large log takes as long. */
const STATEMENT_MS = 60_000;
/**
 * Milliseconds until a query without an answer is given up and its connection closed: PostgreSQL ends a statement before, so the
 * connection leads nowhere, as after a fail-over that no packet told of.
 */
const ANSWER_MS = STATEMENT_MS + 5_000;
/** Tests whether the login may make the tables: where there are none, or its own. */
const MAY_CREATE = `select coalesce(has_schema_privilege(current_schema(), 'create'), false)
  and coalesce((select pg_has_role(relowner, 'usage') from pg_class where oid = to_regclass('${MIGRATION_TABLE}')), true)
  as "mayCreate"`;
/** SQLSTATEs of a table that does not exist, or not for this login. */
const UNREADABLE = /^(42P01|42501)$/;
/** SQLSTATEs that waiting does not cure: authentication, no such database, no right to connect. */
const FINAL = /^(28...|3D000|42501)$/;

/** Address and limits of a database. */
export interface DatabaseOptions {
  /** A `postgresql://` URL of the login that serves. */
  readonly url: string;
  /**
   * URL that logs in as the owner of the tables, only for migrations and grants. Absent: `url` migrates, or another process
   * does.
   */
  readonly ownerUrl?: string | undefined;
  /** URL of the same login past a pooler that gives out connections for one transaction. Absent: `url` keeps sessions. */
  readonly directUrl?: string | undefined;
  /** Maximum number of connections of this process. */
  readonly poolSize: number;
  readonly log: StoreLog;
  /** Migrations to apply before anything else, in order. Default: the product's. */
  readonly migrations?: readonly Migration[];
  /** False: another process migrates, and a database of an older version is refused. Default true. */
  readonly migrate?: boolean;
  /** Default `DEFAULT_CONNECT_MS`. */
  readonly connectMs?: number;
  /** Milliseconds until a query is given up. Default `ANSWER_MS`. */
  readonly answerMs?: number;
}

/** The one way to PostgreSQL. */
export interface Database {
  /** The only ORM instance; calls fork its entity manager. */
  readonly orm: MikroORM;
  /** The ORM's own pool, for the plain statements. Values come as mikro-orm's type parsers give them. */
  readonly pool: Pool;
  /** Rights of the login that serving does not need and that would let it change the log; empty when both logins are set up. */
  readonly excessRights: readonly string[];
  readonly log: StoreLog;
  /** Cuts the connections that are still there after some milliseconds, so that closing waits for no answer that never comes. */
  cutAfter(ms: number): void;
  /** Waits for queries in flight. MAY be called again. */
  close(): Promise<void>;
}

/** Returns the part of a database URL that may be shown: `host:port`, or the socket. */
export function addressOf(url: string): string {
  const { hostname, port, searchParams } = new URL(url);
  const host = hostname || searchParams.get("host") || "localhost";
  return host.startsWith("/") ? host : `${host}:${port || searchParams.get("port") || 5432}`;
}

/** Returns the message of an error. For a host with several addresses, Node wraps the real errors in one without a message. */
function messageOf(error: unknown): string {
  const first = error instanceof AggregateError ? error.errors[0] : error;
  return first instanceof Error ? first.message : String(first);
}

/** Returns the role that a database URL logs in as. */
export const loginOf = (url: string): string => new Client({ connectionString: url }).user ?? "";

async function withConnection<T>(url: string, use: (client: Client) => Promise<T>): Promise<T> {
  const client = new Client({ connectionString: url, keepAlive: true });
  client.on("error", () => undefined);
  await client.connect();
  try {
    return await use(client);
  } finally {
    await client.end();
  }
}

async function connectOnce(url: string, timeoutMs: number): Promise<unknown> {
  const client = new Client({ connectionString: url, connectionTimeoutMillis: Math.max(timeoutMs, 1) });
  client.on("error", () => undefined);
  try {
    await client.connect();
    return undefined;
  } catch (error) {
    return error;
  } finally {
    await client.end().catch(() => undefined);
  }
}

/**
 * Returns once the database accepts connections. Throws STORE_UNAVAILABLE, which names host and port and never the
 * password: at once when the database refuses the user, else after `timeoutMs`.
 */
export async function waitForDatabase(url: string, timeoutMs: number, log: StoreLog): Promise<void> {
  const address = addressOf(url);
  const deadline = Date.now() + timeoutMs;
  for (let attempt = 1; ; attempt++) {
    const error = await connectOnce(url, deadline - Date.now());
    if (error === undefined) return;
    const isFinal = FINAL.test(String((error as { code?: string }).code));
    if (isFinal || Date.now() + RETRY_MS > deadline) throw unavailable(address, isFinal, error);
    if (attempt === 1) log.warn({ address, reason: messageOf(error) }, "waiting for postgresql");
    await delay(RETRY_MS);
  }
}

function unavailable(address: string, isFinal: boolean, cause: unknown): ControlPlaneError {
  const verb = isFinal ? "refuses the connection" : "cannot be reached";
  const message = `postgresql at \`${address}\` ${verb}: ${messageOf(cause)}`;
  return new ControlPlaneError(ErrorReason.STORE_UNAVAILABLE, message, { address }, { cause });
}

const LIMITS: readonly (readonly [name: string, ms: number])[] = [
  ["idle_in_transaction_session_timeout", IDLE_IN_TRANSACTION_MS],
  ["lock_timeout", LOCK_MS],
  ["statement_timeout", STATEMENT_MS],
];
const SET_LIMITS = LIMITS.map(([name, ms]) => `set ${name} = ${ms}`).join("; ");

async function setLimits(client: ClientBase): Promise<void> {
  await client.query(SET_LIMITS);
}

/**
 * Throws STORE_UNAVAILABLE unless the database itself gives the login every limit: what a session behind a pooler sets holds for whoever
 * gets its connection next. `client` is a session of the login past the pooler.
 */
async function assertLimits(client: ClientBase, login: string): Promise<void> {
  const { rows } = await client.query<{ name: string }>(
    "select name from pg_settings where name = any($1) and setting = '0'",
    [LIMITS.map(([name]) => name)],
  );
  const missing = LIMITS.filter(([name]) => rows.some((row) => row.name === name));
  if (missing.length === 0) return;
  const role = client.escapeIdentifier(login);
  const cure = missing.map(([name, ms]) => `alter role ${role} set ${name} = ${ms}`).join("; ");
  const message = `behind a pooler the login \`${login}\` needs its limits from the database; let its owner run: ${cure}`;
  throw new ControlPlaneError(ErrorReason.STORE_UNAVAILABLE, message, { login });
}

type QueryCallback = (error: unknown, result?: unknown) => void;

/**
 * Fits a connection to a pooler that gives out connections for one transaction. Statements lose their names: a prepared statement
 * belongs to a connection that the next transaction may not get. Each is sent once the one before it is answered: PgBouncer may give
 * the connection away with that answer, in the middle of a long message of the next, whose rest PostgreSQL would read as other messages.
 */
async function fitToPooler(client: ClientBase): Promise<void> {
  const query = client.query.bind(client) as (statement: unknown, values: unknown, callback: QueryCallback) => void;
  let unanswered = 0;
  let last: Promise<void> = Promise.resolve();
  const noteAnswer = (): void => {
    unanswered -= 1;
  };
  const send = (given: unknown, ...rest: readonly unknown[]): unknown => {
    const statement = typeof given === "string" ? given : { ...(given as object), name: undefined };
    const callback = rest.find((each) => typeof each === "function") as QueryCallback | undefined;
    const [values] = rest.filter((each) => each !== callback);
    const sendNow = (): Promise<unknown> =>
      new Promise((resolve, reject) => {
        query(statement, values, (error, result) => (error ? reject(error) : resolve(result)));
      });
    const answer = unanswered === 0 ? sendNow() : last.then(sendNow);
    unanswered += 1;
    last = answer.then(noteAnswer, noteAnswer);
    if (callback === undefined) return answer;
    answer.then((result) => callback(undefined, result), callback);
  };
  client.query = send as typeof client.query;
}

function poolOptions({ poolSize, directUrl, answerMs = ANSWER_MS }: DatabaseOptions): object {
  return {
    max: poolSize,
    // One stays open, so that the first decision after a quiet time does not wait for a connection.
    min: 1,
    application_name: "acp",
    // Pipelining: a statement is sent before the one before it on the connection is answered. Behind a pooler it closes connections
    // that give no answer, and nothing else.
    pipeline: true,
    connectionTimeoutMillis: ACQUIRE_MS,
    query_timeout: answerMs,
    // Awaited by the pool before a connection is first handed out.
    onConnect: directUrl === undefined ? setLimits : fitToPooler,
  };
}

/** The ORM ends the pool only if it made a query itself; one connection left open would keep the process alive. */
async function closeAll(orm: MikroORM, pool: Pool): Promise<void> {
  await orm.close(true);
  if (!pool.ending) await pool.end();
}

/**
 * Gives connections that die while they are in use back to their pool, which then forgets them. The ORM's transactions
 * do not: their COMMIT and their ROLLBACK both fail on a dead connection, and it is released after neither. Each would
 * take a connection of the pool for good, and a few restarts of the database would leave none.
 */
function releaseDeadClients(pool: Pool): void {
  const inUse = new Set<PoolClient>();
  const watched = new WeakSet<PoolClient>();

  const releaseIfInUse = (client: PoolClient): void => {
    if (!inUse.has(client)) return;
    client.release(true);
    // Its holder releases it too, and node-postgres throws at a second release.
    client.release = () => undefined;
  };

  pool.on("acquire", (client) => {
    inUse.add(client);
    if (watched.has(client)) return;
    watched.add(client);
    client.once("end", () => releaseIfInUse(client));
  });
  pool.on("release", (_error, client) => inUse.delete(client));
}

/** Returns a function that cuts every connection of a pool. What waits for an answer on them fails. */
function cutterOf(pool: Pool): () => void {
  const open = new Set<PoolClient>();
  pool.on("connect", (client) => open.add(client));
  pool.on("remove", (client) => open.delete(client));
  return () => {
    for (const client of open) cutConnection(client);
  };
}

/** Cuts a connection, without a word to the server. */
export function cutConnection(client: ClientBase): void {
  (client as unknown as { readonly connection: { readonly stream: Duplex } }).connection.stream.destroy();
}

/** Reads the migrations that a login does not find applied, and whether it may apply them. */
async function readSchema(client: ClientBase, migrations: readonly Migration[]) {
  const { rows } = await client.query<{ mayCreate: boolean }>(MAY_CREATE);
  const select = client.query<{ name: string }>(`select name from ${MIGRATION_TABLE}`);
  const found = await select.catch((error: { code?: string }) => {
    if (!UNREADABLE.test(error.code ?? "")) throw error;
    return { rows: [] };
  });
  const applied = found.rows.map(({ name }) => name);
  return { ...schemaStateOf(applied, migrations), mayCreate: rows[0]?.mayCreate ?? false };
}

/**
 * Migrates as the owner, or as the login that serves if it may. `client` is a connection of that login. Throws
 * STORE_UNAVAILABLE if that login lacks anything afterwards, and for a database of a newer version.
 */
async function ensureSchema(
  client: ClientBase,
  { url, ownerUrl, migrations = MIGRATIONS, log, migrate = true }: DatabaseOptions,
): Promise<void> {
  const login = loginOf(url);
  if (migrate && ownerUrl !== undefined) await runMigrations(ownerUrl, { migrations, log, login });
  const schema = await readSchema(client, migrations);
  assertNotNewer(schema);
  const { pending, mayCreate } = schema;
  if (pending.length === 0) return;
  if (migrate && ownerUrl === undefined && mayCreate) {
    await runMigrations(url, { migrations, log });
    return;
  }
  const metadata = { address: addressOf(url), login, pending: pending.join() };
  const cure = migrate
    ? `set ACP_DATABASE_OWNER_URL to a login that owns the same database: it migrates and grants \`${login}\` its rights`
    : `ACP_MIGRATE is off: run \`agentctl migrate up\` with the same settings and ACP_DATABASE_OWNER_URL`;
  const message = `the database at \`${metadata.address}\` lacks \`${metadata.pending}\`, or \`${login}\` may not read it: ${cure}`;
  throw new ControlPlaneError(ErrorReason.STORE_UNAVAILABLE, message, metadata);
}

function warnOf(rights: readonly string[], login: string, log: StoreLog): void {
  if (rights.length === 0) return;
  const cure = "set ACP_DATABASE_OWNER_URL to the owner's login and DATABASE_URL to one without these rights";
  const message = `the database login \`${login}\` could change the log or its protection: it has ${rights.join(", ")}; ${cure}`;
  log.warn({ login, rights }, message);
}

/**
 * Waits for the database, migrates it and opens the ORM with its pool. Warns of every right of the login that serving does not
 * need. Promises: when it returns the schema is the newest, a connection has been made, and the owner's is closed.
 */
export async function openDatabase(options: DatabaseOptions): Promise<Database> {
  const { url, ownerUrl, directUrl, log, connectMs = DEFAULT_CONNECT_MS } = options;
  for (const each of [url, ownerUrl, directUrl]) if (each !== undefined) await waitForDatabase(each, connectMs, log);
  const sessionUrl = directUrl ?? url;
  const excessRights = await withConnection(sessionUrl, async (client) => {
    await ensureSchema(client, { ...options, url: sessionUrl });
    if (directUrl !== undefined) await assertLimits(client, loginOf(directUrl));
    return readExcessRights(client);
  });
  warnOf(excessRights, loginOf(url), log);
  const orm = new MikroORM({
    // Satisfies mikro-orm's own check; the connection string decides, as node-postgres reads it.
    dbName: decodeURIComponent(new URL(url).pathname.slice(1)),
    driverOptions: { connectionString: url, keepAlive: true, ...poolOptions(options) },
    ensureDatabase: false,
    colors: false,
    logger: (message) => log.warn({}, message),
    entities: [...ENTITIES],
  });
  const connection: PostgreSqlConnection = orm.driver.getConnection();
  const pool = await connection.getNativeClient();
  releaseDeadClients(pool);
  const cut = cutterOf(pool);
  await pool.query("select 1");
  let closed: Promise<void> | undefined;
  const close = (): Promise<void> => {
    closed ??= closeAll(orm, pool);
    return closed;
  };
  const cutAfter = (ms: number): void => void setTimeout(cut, ms).unref();
  return { orm, pool, excessRights, log, cutAfter, close };
}

const UNIQUE_VIOLATION = "23505";
/**
 * SQLSTATE classes of a server that cannot answer now: connection, resources, a lock that is not released in time, a
 * transaction that idled too long, operator intervention, system. Not 08P01 of PostgreSQL: a message that breaks the protocol is a
 * fault of ours that a retry does not cure.
 */
const UNAVAILABLE_CLASS = /^(08(?!P01)|53|55P03|57|58|25P03)/;
const CONNECTION_LOST =
  /ECONNREFUSED|ECONNRESET|EPIPE|ENOTFOUND|ETIMEDOUT|Connection terminated|is not queryable|timeout exceeded when trying to connect|Query read timeout/;

/** SQLSTATE of every fault of PgBouncer's own, a lost or missing server included. Unlike PostgreSQL it names no routine of its source. */
const POOLER_FAULT = "08P01";

const isPoolerFault = (error: unknown): boolean =>
  codeOf(error) === POOLER_FAULT && (error as { routine?: string }).routine === undefined;

const codeOf = (error: unknown): string => String((error as { code?: unknown } | null)?.code ?? "");

/** True when a statement failed because a row of its key exists. */
export const isUniqueViolation = (error: unknown): boolean => codeOf(error) === UNIQUE_VIOLATION;

/** Awaits a statement. Rejects with STORE_UNAVAILABLE if the database does not answer. */
export async function stored<T>(work: PromiseLike<T>): Promise<T> {
  try {
    return await work;
  } catch (error) {
    throw storeFault(error);
  }
}

/** Maps a fault of a statement for callers: STORE_UNAVAILABLE when the database did not answer, else unchanged. */
export function storeFault(error: unknown): unknown {
  if (error instanceof ControlPlaneError) return error;
  const code = codeOf(error);
  const text = `${code} ${error instanceof Error ? error.message : ""}`;
  if (!UNAVAILABLE_CLASS.test(code) && !CONNECTION_LOST.test(text) && !isPoolerFault(error)) return error;
  return new ControlPlaneError(
    ErrorReason.STORE_UNAVAILABLE,
    "the database did not answer; retry",
    {},
    { cause: error },
  );
}
