import { Gauge, type Registry } from "prom-client";

/** Log of the changes of Redis' health; a pino logger is one. */
export interface RedisLog {
  info(fields: object, message: string): void;
  warn(fields: object, message: string): void;
}

/** Health of Redis for one use of it, told once for each change: in the log and as `acp_redis_up`. */
export interface RedisHealth {
  up(): void;
  down(reason: string): void;
}

function gaugeIn(registry: Registry): Gauge<"use"> {
  const name = "acp_redis_up";
  const known = registry.getSingleMetric(name);
  if (known !== undefined) return known as Gauge<"use">;
  const help = "Whether Redis answers (1) or not (0), by what it is used for.";
  return new Gauge({ name, help, labelNames: ["use"], registers: [registry], aggregator: "min" });
}

/**
 * Returns a log that tells an outage once for all uses of Redis: a line when the first use fails, and one with the length when all
 * are back.
 */
export function oncePerOutage(log: RedisLog, now: () => number = () => performance.now()): RedisLog {
  const down = new Set<unknown>();
  let downSince = 0;
  let isKnown = false;
  return {
    info({ use }: { use?: unknown }, message) {
      const wasDown = down.delete(use);
      if (down.size > 0) return;
      if (wasDown) log.info({ away_ms: Math.round(now() - downSince) }, "redis answers again");
      else if (!isKnown) log.info({}, message);
      isKnown = true;
    },
    warn({ use, ...fields }: { use?: unknown }, message) {
      if (down.size === 0) {
        downSince = now();
        log.warn(fields, message);
      }
      down.add(use);
    },
  };
}

/** Creates the health of a connection that has not answered yet. */
export function createRedisHealth(use: "mirror" | "wake-ups", log: RedisLog, registry: Registry): RedisHealth {
  const gauge = gaugeIn(registry).labels({ use });
  let isUp: boolean | undefined;
  gauge.set(0);
  return {
    up() {
      if (isUp === true) return;
      isUp = true;
      gauge.set(1);
      log.info({ use }, "redis answers");
    },
    down(reason) {
      if (isUp === false) return;
      isUp = false;
      gauge.set(0);
      log.warn({ use, reason }, "redis does not answer; the database does its work");
    },
  };
}
