import type { Pool } from "pg";
import type { Registry } from "prom-client";
import type { WakeUpListener } from "../log/wake-ups.ts";
import type { AppendedEnd, LogSurroundings } from "../log/workspace-log.ts";
import { createMirrorSource } from "./log-source.ts";
import { createMirror } from "./mirror.ts";
import type { LinkLog } from "./redis-health.ts";
import { listenOnRedis, type RedisWakeUps } from "./redis-wake-ups.ts";

/** What Redis does beside the database. All of it may be lost at any moment: it costs time, never correctness. */
export interface RedisParts {
  /** For the logs of this replica. */
  readonly surroundings: LogSurroundings;
  /** Hears the wake-ups of other replicas from now on. */
  listen(listener: WakeUpListener): void;
  close(): Promise<void>;
}

/** What the parts are built from. */
export interface RedisOptions {
  readonly pool: Pool;
  readonly log: LinkLog;
  readonly metrics: Registry;
}

/** Builds the parts; without a URL they do nothing. Does not wait for Redis. */
export function createRedisParts(url: string | undefined, { pool, log, metrics }: RedisOptions): RedisParts {
  if (url === undefined) return { surroundings: {}, listen: () => undefined, close: async () => undefined };
  const mirror = createMirror({ url, source: createMirrorSource(pool), log, metrics });
  let wakeUps: RedisWakeUps | undefined;
  const onAppended = ({ workspaceId, seq, longestWindowMs, wakes }: AppendedEnd): void => {
    if (wakes !== undefined) wakeUps?.tell({ workspaceId, seq, isChange: wakes === "change" });
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
