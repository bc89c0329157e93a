import { startEmbeddedPostgres } from "../store/embedded-postgres.ts";
import { DEFAULT_MAX_CONNECTIONS } from "../store/embedded-postgres-server.ts";
import type { Serving } from "./serving.ts";

/** Connections of a process beside its pool: wake-ups, migrations, and some to spare. */
const BESIDE_POOL = 5;
/** Connections for whoever looks at the database, and for the seat of each process that shares it. */
const SPARE = 20;

/** The configured database, or the embedded one, which is started and left again with `started`. */
export async function openDatabaseUrl(
  { config, log }: Pick<Serving, "config" | "log">,
  started: AsyncDisposableStack,
): Promise<string> {
  if (config.databaseUrl !== null) return config.databaseUrl.reveal();
  const { dataDir, poolSize, workers } = config;
  const needed = workers * (poolSize + BESIDE_POOL) + SPARE;
  const maxConnections = Math.max(DEFAULT_MAX_CONNECTIONS, needed);
  const embedded = await startEmbeddedPostgres({ dataDir, log, maxConnections });
  started.defer(() => embedded.stop());
  return embedded.url;
}
