import { createControlPlane } from "../control-plane.ts";
import { type FirstStart, prepareFirstStart } from "../registry/first-start.ts";
import { createCrew } from "./crew.ts";
import { openDatabaseUrl } from "./database-url.ts";
import type { Serving } from "./serving.ts";

/** Milliseconds that a worker has to stop in beside the time for its calls. */
const STOP_MARGIN_MS = 10_000;

/**
 * Serves in `config.workers` processes until it is told to stop. Rejects, with everything that was started stopped, when
 * one of the workers cannot start at first, or several in a row later.
 */
export async function serveWithWorkers({ config, log, stop, announce }: Serving): Promise<void> {
  await using started = new AsyncDisposableStack();
  const databaseUrl = await openDatabaseUrl({ config, log }, started);
  const first = await prepare({ config, log }, databaseUrl);
  const stopMs = config.drainMs + STOP_MARGIN_MS;
  const crew = createCrew({ size: config.workers, databaseUrl, stopMs, log });
  let signal = "";
  started.defer(() => crew.stop(signal));
  const serve = async (): Promise<void> => {
    await crew.start();
    announce(await crew.ports.listen(config), first);
    await crew.broken;
  };
  const stopped = stop.then((name) => {
    signal = name;
    log.info({ signal }, "stopping");
  });
  await Promise.race([stopped, serve()]);
}

/** Migrates the database and makes keys and workspace, once and before there are workers that would all want to. */
async function prepare({ config, log }: Pick<Serving, "config" | "log">, databaseUrl: string): Promise<FirstStart> {
  const controlPlane = await createControlPlane({ config, databaseUrl, log });
  try {
    const { dataDir } = config;
    return await prepareFirstStart({ ...controlPlane, adminKey: config.adminKey?.reveal(), dataDir });
  } finally {
    await controlPlane.close();
  }
}
