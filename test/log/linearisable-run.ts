import { setTimeout as delay } from "node:timers/promises";
import type { RecordedHistory } from "./linearisable-checks.ts";
import { type Fleet, type FleetOptions, startHistoryFleet } from "./linearisable-fleet.ts";
import { createLife } from "./linearisable-life.ts";
import { readLog } from "./stored-log.ts";

/** Settings of a history. */
export interface HistoryOptions extends FleetOptions {
  readonly seed: number;
  readonly seconds: number;
}

/** Callers at once, each one call after the other. */
const CALLERS = 32;
/** Callers of the last part, so few that a process that is not asked to look lies behind. */
const LAST_CALLERS = 3;
const LAST_PART = 0.25;

/** Disturbances, by the part of the time at which they happen. */
const TROUBLES: readonly [number, (fleet: Fleet, seed: number) => Promise<unknown>][] = [
  [0.35, (fleet, seed) => fleet.killAndRestart(seed % fleet.members.length)],
  [0.55, ({ redis }) => redis.client.flushall()],
  [0.75, ({ redis }) => redis.kill()],
  [0.82, ({ redis }) => redis.start()],
];

async function trouble(fleet: Fleet, seed: number, untilMs: number, seconds: number): Promise<void> {
  const ongoing = TROUBLES.map(async ([part, happen]) => {
    await delay(Math.max(0, untilMs - (1 - part) * seconds * 1000 - performance.now()));
    await happen(fleet, seed);
  });
  await Promise.all(ongoing);
}

/**
 * Records a history of a workspace on three processes with clocks five minutes apart, while Redis is flushed, killed and
 * started again and one of the processes is killed and started again.
 */
export async function recordHistory(options: HistoryOptions): Promise<RecordedHistory> {
  const { databaseUrl, seed, seconds } = options;
  await using cleanup = new AsyncDisposableStack();
  const fleet = await startHistoryFleet(options, cleanup);
  const life = createLife(fleet, seed);
  await life.prepare();
  const untilMs = performance.now() + seconds * 1000;
  const lastMs = LAST_PART * seconds * 1000;
  const lived = life.live(CALLERS, untilMs - lastMs).then(() => life.live(LAST_CALLERS, untilMs));
  await Promise.all([lived, trouble(fleet, seed, untilMs, seconds)]);
  return { calls: life.calls, log: await readLog(databaseUrl) };
}
