import { createWorkspaceLogs, type WorkspaceLogs } from "../../src/log/workspace-logs.ts";
import { type Database, openDatabase } from "../../src/store/database.ts";
import { createEncryptor } from "../../src/store/encryptor.ts";
import { Webhooks, type WebhooksOptions } from "../../src/webhook/webhooks.ts";
import { SILENT_LOG } from "../support/database.ts";
import { directUrlOf } from "../support/pooler.ts";

/** The database and the logs of one process. */
export interface Replica {
  readonly database: Database;
  readonly logs: WorkspaceLogs;
  close(): Promise<void>;
}

/** Secret that encrypts, unless a test brings an encryptor. */
export const ENCRYPTION_KEY = "encryption-key-of-the-tests-0123456789";
/** Receivers of the tests are local ones. */
export const ALLOW = ["127.0.0.0/8"];
/** Quick ticks, short leases, and every retry after a moment. */
const QUICK = { tickMs: 25, leaseMs: 1_000, scheduleMs: [10] };

/** Creates webhooks that deliver quickly to local receivers. */
export function createQuickWebhooks(
  { database, logs }: Pick<Replica, "database" | "logs">,
  options: Partial<WebhooksOptions> = {},
): Webhooks {
  const timing = { ...QUICK, ...options.timing };
  const encryptor = createEncryptor(ENCRYPTION_KEY);
  return new Webhooks({ database, logs, log: SILENT_LOG, encryptor, allow: ALLOW, ...options, timing });
}

/** Opens a database as a process does. */
export async function openReplica(url: string): Promise<Replica> {
  const database = await openDatabase({ url, directUrl: directUrlOf(url), poolSize: 5, log: SILENT_LOG });
  const logs = await createWorkspaceLogs(database, SILENT_LOG);
  return {
    database,
    logs,
    async close() {
      await logs.close();
      await database.close();
    },
  };
}
