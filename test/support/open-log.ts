import { decide } from "../../src/enforcement/index.ts";
import { createWorkspaceLogs, type WorkspaceLog } from "../../src/ledger/index.ts";
import { ENTITIES, MIGRATIONS, openDatabase } from "../../src/store/index.ts";

const SILENT_LOG = { info: () => undefined, warn: () => undefined, error: () => undefined };

/** Opens the log of the workspace `default` in this process, as one more replica. Closed by `cleanup`. */
export async function openLogOf(url: string, cleanup: AsyncDisposableStack): Promise<WorkspaceLog> {
  const options = { poolSize: 3, log: SILENT_LOG, entities: [...ENTITIES], migrations: MIGRATIONS };
  const database = await openDatabase({ url, ...options });
  cleanup.defer(() => database.close());
  const logs = await createWorkspaceLogs(database, decide, SILENT_LOG);
  cleanup.defer(() => logs.close());
  return logs.of("default");
}
