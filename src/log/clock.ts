/**
 * The database's clock as seen from here. A replica never uses its host's wall clock: it measures with a monotonic clock
 * and adds the offset to the database's, which every statement that returns the time corrects.
 */
export interface DatabaseClock {
  /** Epoch milliseconds, whole, never going backwards. */
  now(): number;
  /** Takes in a reading of the database's clock made between two readings of the monotonic one. */
  observe(databaseMs: number, sentAt: number, receivedAt: number): void;
}

/** Milliseconds that a sample's claim on being the best one weakens by in a second, so that drift is followed. */
const AGEING_MS_PER_SECOND = 0.5;

/**
 * Creates the clock. `monotonic` gives milliseconds that never go back (default `performance.now`).
 * As in RFC 5905 §10, of recent samples the one with the shortest round trip is believed: its error is at most half of it.
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
