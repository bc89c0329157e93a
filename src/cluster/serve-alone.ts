import { createControlPlane } from "../control-plane.ts";
import { prepareFirstStart } from "../registry/first-start.ts";
import { openDatabaseUrl } from "./database-url.ts";
import type { Serving } from "./serving.ts";

/** Serves in this process until it is told to stop. Rejects when it cannot, with everything that was started stopped. */
export async function serveAlone({ config, log, stop, announce }: Serving): Promise<void> {
  await using started = new AsyncDisposableStack();
  const databaseUrl = await openDatabaseUrl({ config, log }, started);
  const controlPlane = await createControlPlane({ config, databaseUrl, log });
  started.defer(() => controlPlane.close());
  const first = await prepareFirstStart({
    ...controlPlane,
    adminKey: config.adminKey?.reveal(),
    dataDir: config.dataDir,
  });
  announce(await controlPlane.listen(), first);
  log.info({ signal: await stop }, "stopping");
}
