import { Redis, type RedisOptions } from "ioredis";
import type { Registry } from "prom-client";
import { wakeUpPayload } from "../log/batch.ts";
import type { WakeUp } from "../log/events.ts";
import { type WakeUpListener, type WakeUps, wakeUpFrom } from "../log/wake-ups.ts";
import { createLinkState, type LinkLog } from "./redis-health.ts";

/** The channel that tells replicas of new entries. Another database on the same Redis costs a look at the log. */
export const REDIS_CHANNEL = "acp:log";

/** Wake-ups over Redis, which are sent by whoever appended. */
export interface RedisWakeUps extends WakeUps {
  /** Tells the other replicas. What cannot be sent now is not sent. */
  tell(wakeUp: WakeUp): void;
}

/** Where wake-ups over Redis are written about. */
export interface RedisWakeUpsOptions {
  readonly log: LinkLog;
  readonly metrics: Registry;
}

const RECONNECT_MS = 500;

/** Both connections give up what they cannot do at once: a wake-up that comes late is worth no more than a lost one. */
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
 * Tells and hears wake-ups over Redis, beside PostgreSQL's own: those come with the commit and are lost with no process,
 * these reach whoever PostgreSQL's do not reach at the moment. Losing Redis changes nothing but that. Does not wait for it.
 */
export function listenOnRedis(url: string, options: RedisWakeUpsOptions, listener: WakeUpListener): RedisWakeUps {
  const link = createLinkState("wake-ups", options.log, options.metrics);
  const subscriber = new Redis(url, { ...OPTIONS, connectionName: "acp-wake-ups" });
  const publisher = new Redis(url, {
    ...OPTIONS,
    connectionName: "acp-wake-ups-out",
    commandTimeout: 500,
    socketTimeout: 1_000,
  });
  for (const redis of [subscriber, publisher]) redis.on("error", (error) => link.down(error.message));

  const subscribe = async (): Promise<void> => {
    await subscriber.subscribe(REDIS_CHANNEL);
    link.up();
    // Whatever was sent while nobody listened is gone.
    listener(undefined);
  };
  subscriber.on("ready", () => {
    subscribe().catch((error: Error) => {
      link.down(error.message);
      subscriber.disconnect(true);
    });
  });
  subscriber.on("message", (_channel, payload) => listener(wakeUpFrom(payload)));

  return {
    tell(wakeUp) {
      if (publisher.status !== "ready") return;
      publisher.publish(REDIS_CHANNEL, wakeUpPayload(wakeUp)).then(link.up, (error: Error) => link.down(error.message));
    },
    async close() {
      for (const redis of [subscriber, publisher]) redis.disconnect();
    },
  };
}
