import { Registry } from "prom-client";
import type { DatabaseClock } from "../../src/log/clock.ts";
import { createWorkspaceLogs } from "../../src/log/workspace-logs.ts";
import type { WorkspaceLog } from "../../src/log/writer.ts";
import { createRedisParts } from "../../src/mirror/redis.ts";
import { openDatabase } from "../../src/store/database.ts";
import { SILENT_LOG } from "../support/database.ts";
import { directUrlOf } from "../support/pooler.ts";

/** A process of the control plane with Redis beside it, as far as a workspace's log goes. */
export interface MirroredReplica {
  readonly log: WorkspaceLog;
  /** What it wrote in its log about Redis. */
  readonly written: readonly string[];
  /** A figure of its metrics. */
  metric(name: string, labels?: Readonly<Record<string, string>>): Promise<number>;
  close(): Promise<void>;
}

/** Opens the workspace `default` in this process, as one more replica. */
export async function openMirrored(url: string, redisUrl: string, clock: DatabaseClock): Promise<MirroredReplica> {
  const database = await openDatabase({
    url,
    directUrl: directUrlOf(url),
    poolSize: 3,
    log: SILENT_LOG,
  });
  const metrics = new Registry();
  const written: string[] = [];
  const write = (_fields: object, message: string): void => void written.push(message);
  const redis = await createRedisParts(redisUrl, { pool: database.pool, log: { info: write, warn: write }, metrics });
  const logs = await createWorkspaceLogs(database, SILENT_LOG, { ...redis.surroundings, clock });
  redis.listen((wakeUp) => logs.wakeUp(wakeUp));
  return {
    log: await logs.of("default"),
    written,
    async metric(name, labels = {}) {
      const values = (await metrics.getSingleMetric(name)?.get())?.values ?? [];
      const found = values.find((each) => Object.entries(labels).every(([key, value]) => each.labels[key] === value));
      return found?.value ?? 0;
    },
    async close() {
      await logs.close();
      await redis.close();
      await database.close();
    },
  };
}
