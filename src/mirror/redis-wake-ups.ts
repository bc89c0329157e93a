import { Redis, type RedisOptions } from "ioredis";
import type { Registry } from "prom-client";
import { type WakeUp, wakeUpFrom, wakeUpPayload } from "../log/events.ts";
import type { WakeUpListener, WakeUps } from "../log/wake-ups.ts";
import { createRedisHealth, type RedisLog } from "./redis-health.ts";

/**
 * The channel that tells replicas of new entries. Wake-ups of another database on the same Redis only cost a look at the log.
 */
export const REDIS_CHANNEL = "acp:log";

/** Wake-ups over Redis, sent by the replica that appended. */
export interface RedisWakeUps extends WakeUps {
  /** Wakes the other replicas. Dropped when it cannot be sent now. */
  publish(wakeUp: WakeUp): void;
}

/** Log and metrics of the connections. */
export interface RedisWakeUpsOptions {
  readonly log: RedisLog;
  readonly metrics: Registry;
}

const RECONNECT_MS = 500;

/**
 * Options of both connections: what cannot be sent at once is dropped, because a late wake-up is worth no more than a lost one.
 */
const OPTIONS = {
  enableOfflineQueue: false,
  autoResubscribe: false,
  autoResendUnfulfilledCommands: false,
  maxRetriesPerRequest: 0,
  connectTimeout: 2_000,
  keepAlive: 5_000,
  retryStrategy: () => RECONNECT_MS,
} satisfies RedisOptions;

/**
 * Publishes and receives wake-ups over Redis, beside PostgreSQL's notifications: a second way for a replica whose database
 * connection is being replaced. Losing Redis costs that way alone. Does not wait for Redis.
 */
export function listenOnRedis(url: string, options: RedisWakeUpsOptions, listener: WakeUpListener): RedisWakeUps {
  const health = createRedisHealth("wake-ups", options.log, options.metrics);
  const subscriber = new Redis(url, { ...OPTIONS, connectionName: "acp-wake-ups" });
  const publisher = new Redis(url, {
    ...OPTIONS,
    connectionName: "acp-wake-ups-out",
    commandTimeout: 500,
    socketTimeout: 1_000,
  });
  for (const redis of [subscriber, publisher]) redis.on("error", (error) => health.down(error.message));

  const subscribe = async (): Promise<void> => {
    await subscriber.subscribe(REDIS_CHANNEL);
    health.up();
    // Wake-ups that were sent while nobody listened are lost.
    listener(undefined);
  };
  subscriber.on("ready", () => {
    subscribe().catch((error: Error) => {
      health.down(error.message);
      subscriber.disconnect(true);
    });
  });
  subscriber.on("message", (_channel, payload) => listener(wakeUpFrom(payload)));

  return {
    publish(wakeUp) {
      if (publisher.status !== "ready") return;
      publisher
        .publish(REDIS_CHANNEL, wakeUpPayload(wakeUp))
        .then(health.up, (error: Error) => health.down(error.message));
    },
    async close() {
      for (const redis of [subscriber, publisher]) redis.disconnect();
    },
  };
}
