import { createDatabaseClock, type DatabaseClock } from "../../src/log/clock.ts";

/** The database's clock of one replica, which a test moves. */
export interface TestClock extends DatabaseClock {
  /** Moves the clock on for good. */
  advance(ms: number): void;
  /** Runs something with the clock moved on, and moves it back. */
  ahead<T>(ms: number, use: () => Promise<T>): Promise<T>;
}

/** Creates a clock that follows the database's until it is moved. */
export function createTestClock(): TestClock {
  const clock = createDatabaseClock();
  let aheadMs = 0;
  return {
    now: () => clock.now() + aheadMs,
    observe: clock.observe,
    advance(ms) {
      aheadMs += ms;
    },
    async ahead(ms, use) {
      aheadMs += ms;
      try {
        return await use();
      } finally {
        aheadMs -= ms;
      }
    },
  };
}
