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
