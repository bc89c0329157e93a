import { chmod, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Client } from "pg";
import { startEmbeddedPostgres } from "../../src/store/embedded-postgres.ts";
import type { StoreLog } from "../../src/store/migrate.ts";
import "../support/scratch.ts";
import { parentOf } from "./cpu.ts";

/** A log without a reader. */
export const SILENT_LOG: StoreLog = { info: () => undefined, warn: () => undefined, error: () => undefined };

/** A PostgreSQL with full durability, for this run alone. */
export interface BenchPostgres {
  /** Creates an empty database; gives the owner's URL, so that one login serves and looks behind the service. */
  createDatabase(name: string): Promise<string>;
  /** The server's process; undefined where the system does not tell. */
  readonly pid: number | undefined;
}

async function query(url: string, text: string): Promise<Record<string, unknown> | undefined> {
  const client = new Client({ connectionString: url });
  await client.connect();
  try {
    return (await client.query(text)).rows[0];
  } finally {
    await client.end();
  }
}

async function serverPid(url: string): Promise<number | undefined> {
  const client = new Client({ connectionString: url });
  await client.connect();
  try {
    const { rows } = await client.query<{ pid: number }>("select pg_backend_pid() as pid");
    return parentOf(rows[0]?.pid ?? 0);
  } finally {
    await client.end();
  }
}

/** Starts the embedded PostgreSQL in a temporary directory; both are gone after `cleanup`. */
export async function startBenchPostgres(cleanup: AsyncDisposableStack): Promise<BenchPostgres> {
  const dataDir = await mkdtemp(join(tmpdir(), "acp-bench-"));
  cleanup.defer(() => rm(dataDir, { recursive: true, force: true }));
  // Open to the account that PostgreSQL runs under when this is root, so that the data lies here too.
  await chmod(dataDir, 0o755);
  const server = await startEmbeddedPostgres({ dataDir, log: SILENT_LOG });
  cleanup.defer(() => server.stop());
  return {
    pid: await serverPid(server.ownerUrl),
    async createDatabase(name) {
      await query(server.ownerUrl, `create database ${name} template template0`);
      const url = new URL(server.ownerUrl);
      url.pathname = `/${name}`;
      return url.href;
    },
  };
}
