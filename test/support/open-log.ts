import { createWorkspaceLogs } from "../../src/log/workspace-logs.ts";
import type { WorkspaceLog } from "../../src/log/writer.ts";
import { openDatabase } from "../../src/store/database.ts";
import { directUrlOf } from "./pooler.ts";

const SILENT_LOG = { info: () => undefined, warn: () => undefined, error: () => undefined };

/** Opens the log of the workspace `default` in this process, as one more replica. Closed by `cleanup`. */
export async function openLogOf(url: string, cleanup: AsyncDisposableStack): Promise<WorkspaceLog> {
  const options = { poolSize: 3, log: SILENT_LOG };
  const database = await openDatabase({ url, directUrl: directUrlOf(url), ...options });
  cleanup.defer(() => database.close());
  const logs = await createWorkspaceLogs(database, SILENT_LOG);
  cleanup.defer(() => logs.close());
  return logs.of("default");
}
