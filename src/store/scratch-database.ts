import { randomBytes } from "node:crypto";
import { chmod, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Client } from "pg";
import { startEmbeddedPostgres } from "./embedded-postgres.ts";

const SILENT_LOG = { info: () => undefined, warn: () => undefined, error: () => undefined };
/** Nothing of a scratch server need survive. */
const SETTINGS = { fsync: "off", full_page_writes: "off", synchronous_commit: "off", shared_buffers: "64MB" };
const PAGE_SIZE = 1_000;

/** End of a log as the database has it. */
export interface StoredLog {
  readonly workspaceId: string;
  /** Entries in the table. */
  readonly entries: number;
  /** Entries that the head counts; undefined without a head. */
  readonly headSize: number | undefined;
}

/** One stored entry of a log. */
export interface StoredEntry {
  readonly index: number;
  readonly leafHash: Uint8Array;
  readonly body: string;
}

/** A database of its own into which a dump is restored. It is gone once disposed of. */
export interface ScratchDatabase extends AsyncDisposable {
  /** Environment with which PostgreSQL's programs reach it; MUST NOT be logged. */
  readonly env: Readonly<Record<string, string>>;
  /** Lists the logs in it. */
  logs(): Promise<readonly StoredLog[]>;
  /** Reads a workspace's log from its first entry. */
  entries(workspaceId: string): AsyncIterable<StoredEntry>;
}

/**
 * Creates an empty database: on the server at `url`, as a login that may create databases, else on an embedded server that lives as
 * long as it. The password is taken from `PGPASSWORD` if the URL has none.
 */
export async function createScratchDatabase(url: string | undefined): Promise<ScratchDatabase> {
  const cleanUps: CleanUp[] = [];
  try {
    const server = url ?? (await startScratchServer(cleanUps));
    const name = `acp_backup_check_${randomBytes(8).toString("hex")}`;
    await onServer(server, (client) => client.query(`create database ${name} template template0 encoding 'UTF8'`));
    cleanUps.push(() => onServer(server, (client) => client.query(`drop database if exists ${name} with (force)`)));
    const place = new URL(server);
    place.pathname = `/${name}`;
    let client: Promise<Client> | undefined;
    cleanUps.push(async () => (await client?.catch(() => undefined))?.end());
    const connected = (): Promise<Client> => {
      client ??= connect(place.href);
      return client;
    };
    return {
      env: environmentOf(place),
      logs: async () => readLogs(await connected()),
      async *entries(workspaceId) {
        yield* readEntries(await connected(), workspaceId);
      },
      [Symbol.asyncDispose]: () => runAll(cleanUps),
    };
  } catch (error) {
    await runAll(cleanUps);
    throw error;
  }
}

type CleanUp = () => Promise<unknown>;

/** Runs what was put in last first, each even if another fails; rejects with the first failure. */
async function runAll(cleanUps: CleanUp[]): Promise<void> {
  const failures: unknown[] = [];
  for (const cleanUp of cleanUps.splice(0).reverse()) {
    await cleanUp().catch((error: unknown) => failures.push(error));
  }
  if (failures.length > 0) throw failures[0];
}

async function startScratchServer(cleanUps: CleanUp[]): Promise<string> {
  const dataDir = await mkdtemp(join(tmpdir(), "acp-backup-check-"));
  cleanUps.push(() => rm(dataDir, { recursive: true, force: true, maxRetries: 5 }));
  // Open to the account that PostgreSQL runs under when this is root; its own files stay closed.
  await chmod(dataDir, 0o711);
  const postgres = await startEmbeddedPostgres({ dataDir, log: SILENT_LOG, settings: SETTINGS });
  cleanUps.push(() => postgres.stop());
  return postgres.ownerUrl;
}

async function connect(url: string): Promise<Client> {
  const client = new Client({ connectionString: url });
  // A connection that ends is reported by the next query.
  client.on("error", () => undefined);
  await client.connect();
  return client;
}

async function onServer<T>(url: string, use: (client: Client) => Promise<T>): Promise<T> {
  const client = await connect(url);
  try {
    return await use(client);
  } finally {
    await client.end();
  }
}

/** Variables of libpq for an address, so that no list of processes shows the password. */
function environmentOf({ hostname, port, username, password, pathname, searchParams }: URL): Record<string, string> {
  const sslMode = searchParams.get("sslmode");
  return {
    PGHOST: decodeURIComponent(hostname).replace(/^\[|\]$/g, ""),
    PGPORT: port === "" ? "5432" : port,
    PGDATABASE: pathname.slice(1),
    ...(username !== "" && { PGUSER: decodeURIComponent(username) }),
    ...(password !== "" && { PGPASSWORD: decodeURIComponent(password) }),
    ...(sslMode !== null && { PGSSLMODE: sslMode }),
  };
}

async function readLogs(client: Client): Promise<readonly StoredLog[]> {
  const { rows } = await client.query<{ workspaceId: string; entries: string; headSize: string | null }>(
    `select workspace_id as "workspaceId", count(e.seq) as entries, max(h.seq) as "headSize"
      from ledger_head h full join ledger_entry e using (workspace_id) group by workspace_id order by workspace_id`,
  );
  return rows.map(({ workspaceId, entries, headSize }) => ({
    workspaceId,
    entries: Number(entries),
    headSize: headSize === null ? undefined : Number(headSize),
  }));
}

async function* readEntries(client: Client, workspaceId: string): AsyncGenerator<StoredEntry> {
  for (let from = 0; ; ) {
    const { rows } = await client.query<{ seq: string; leafHash: Buffer; body: string }>(
      `select seq, leaf_hash as "leafHash", body from ledger_entry where workspace_id = $1 and seq >= $2
        order by seq limit ${PAGE_SIZE}`,
      [workspaceId, from],
    );
    for (const { seq, leafHash, body } of rows) yield { index: Number(seq), leafHash, body };
    if (rows.length < PAGE_SIZE) return;
    from = Number(rows.at(-1)?.seq) + 1;
  }
}
