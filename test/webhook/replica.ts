import { decide } from "../../src/decision/decide.ts";
import { createWorkspaceLogs, type WorkspaceLogs } from "../../src/log/workspace-logs.ts";
import { type Database, openDatabase } from "../../src/store/database.ts";
import { ENTITIES } from "../../src/store/entities.ts";
import { MIGRATIONS } from "../../src/store/migrations.ts";
import { Webhooks, type WebhooksOptions } from "../../src/webhook/webhooks.ts";

/** The database and the logs of one process. */
export interface Replica {
  readonly database: Database;
  readonly logs: WorkspaceLogs;
  /** Creates webhooks that deliver quickly; closed with the replica. */
  webhooks(options?: Partial<WebhooksOptions>): Webhooks;
  close(): Promise<void>;
}

/** Receivers of the tests are local ones. */
export const ALLOW = ["127.0.0.0/8"];
/** Quick ticks, short leases, and every retry after a moment. */
const QUICK = { tickMs: 25, leaseMs: 1_000, scheduleMs: [10] };
const SILENT = { info: () => undefined, warn: () => undefined, error: () => undefined };

/** Opens a database as a process does. */
export async function openReplica(url: string): Promise<Replica> {
  const entities = [...ENTITIES];
  const database = await openDatabase({ url, poolSize: 5, log: SILENT, entities, migrations: MIGRATIONS });
  const logs = await createWorkspaceLogs(database, decide, SILENT);
  const made: Webhooks[] = [];
  return {
    database,
    logs,
    webhooks(options = {}) {
      const timing = { ...QUICK, ...options.timing };
      const webhooks = new Webhooks({ database, logs, log: SILENT, allow: ALLOW, ...options, timing });
      made.push(webhooks);
      return webhooks;
    },
    async close() {
      for (const webhooks of made) await webhooks.close();
      await logs.close();
      await database.close();
    },
  };
}
