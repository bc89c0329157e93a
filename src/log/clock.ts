import type { Database } from "../store/database.ts";
import { readClock } from "../store/sql/read-entries.ts";

/**
 * Estimate of the database's clock. Replicas never use their host's wall clock: they read a monotonic clock and add its offset
 * from the database's clock. Every statement that returns the time corrects the offset.
 */
export interface DatabaseClock {
  /** Returns whole epoch milliseconds, which never go backwards. */
  now(): number;
  /** Adds a sample: a reading of the database's clock, taken between two readings of the monotonic one. */
  observe(databaseMs: number, sentAt: number, receivedAt: number): void;
}

/** Milliseconds added each second to the round trip of the best sample, so that newer samples replace it. */
const AGEING_MS_PER_SECOND = 0.5;

/**
 * Creates the clock. `monotonic` returns milliseconds that never go back (default `performance.now`). As in RFC 5905 §10,
 * the recent sample with the shortest round trip wins: its error is at most half of that trip.
 */
export function createDatabaseClock(monotonic: () => number = () => performance.now()): DatabaseClock {
  let offset = 0;
  let bestTrip = Number.POSITIVE_INFINITY;
  let sampledAt = 0;
  let latest = 0;
  return {
    now() {
      latest = Math.max(latest, Math.floor(monotonic() + offset));
      return latest;
    },
    observe(databaseMs, sentAt, receivedAt) {
      const trip = receivedAt - sentAt;
      const aged = bestTrip + ((receivedAt - sampledAt) / 1000) * AGEING_MS_PER_SECOND;
      if (trip > aged) return;
      offset = databaseMs - (sentAt + receivedAt) / 2;
      bestTrip = trip;
      sampledAt = receivedAt;
    },
  };
}

/** Adds a sample to the clock with a statement that reads the database's clock. */
export async function measureClock(database: Database, clock: DatabaseClock): Promise<void> {
  const sentAt = performance.now();
  const { rows } = await database.pool.query<{ now: number }>(readClock);
  const [row] = rows;
  if (row !== undefined) clock.observe(row.now, sentAt, performance.now());
}
