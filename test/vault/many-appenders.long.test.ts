import { expect } from "chai";
import { createTestDatabase } from "../support/database.ts";
import { runAppendingRound } from "./appending-round.ts";

/** A short form of what `many-appenders.ts` runs with 16 processes. */
const OPTIONS = { processes: 6, seconds: 2 };
/** Milliseconds: on a busy machine most of them are the start of so many processes. */
const MOST_MS = 180_000;

describe("one log under many writers", () => {
  it(`stays one line while ${OPTIONS.processes} processes append, and every proof of it holds.`, async () => {
    const database = await createTestDatabase();
    try {
      const { decisions, entries, checkpoints, faults } = await runAppendingRound(database.url, OPTIONS);
      expect(faults).to.deep.equal([]);
      expect(decisions).to.be.greaterThan(OPTIONS.processes);
      expect(entries).to.be.greaterThan(decisions);
      expect(checkpoints).to.be.greaterThan(1);
    } finally {
      await database.drop();
    }
  }).timeout(MOST_MS);
});
