import type { Pool } from "pg";
import type { Registry } from "prom-client";
import type { AppendedEnd } from "../log/events.ts";
import type { LogSurroundings } from "../log/surroundings.ts";
import type { WakeUpListener } from "../log/wake-ups.ts";
import { createMirrorSource } from "./mirror-store.ts";
import { oncePerOutage, type RedisLog } from "./redis-health.ts";
import type { RedisWakeUps } from "./redis-wake-ups.ts";

/** Uses of Redis beside the database. All of it may be lost at any moment: it costs time, never correctness. */
export interface RedisParts {
  /** For the logs of this replica. */
  readonly surroundings: LogSurroundings;
  /** Receives the wake-ups of other replicas from now on. */
  listen(listener: WakeUpListener): void;
  close(): Promise<void>;
}

/** Dependencies of the parts. */
export interface RedisOptions {
  readonly pool: Pool;
  readonly log: RedisLog;
  readonly metrics: Registry;
}

/** Builds the parts; without a URL they do nothing. Does not wait for Redis. */
export async function createRedisParts(
  url: string | undefined,
  { pool, log: serviceLog, metrics }: RedisOptions,
): Promise<RedisParts> {
  if (url === undefined) return { surroundings: {}, listen: () => undefined, close: async () => undefined };
  // Imported only with a URL, so that a process without Redis does not load its client.
  const [{ Mirror }, { listenOnRedis }] = await Promise.all([import("./mirror.ts"), import("./redis-wake-ups.ts")]);
  const log = oncePerOutage(serviceLog);
  const mirror = new Mirror({ url, source: createMirrorSource(pool), log, metrics });
  let wakeUps: RedisWakeUps | undefined;
  const onAppended = ({ workspaceId, seq, longestWindowMs, wakes }: AppendedEnd): void => {
    if (wakes !== undefined) wakeUps?.publish({ workspaceId, seq, isChange: wakes === "change" });
    mirror.follow({ workspaceId, seq, keepMs: longestWindowMs });
  };
  return {
    surroundings: { mirror, onAppended },
    listen(listener) {
      wakeUps = listenOnRedis(url, { log, metrics }, listener);
    },
    async close() {
      await wakeUps?.close();
      await mirror.close();
    },
  };
}
