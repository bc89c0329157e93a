import { expect } from "chai";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { fillSessions } from "./full-sessions.ts";
import { runHistories } from "./session-histories.ts";

describe("sessions that observe", function () {
  this.timeout(240_000);

  it("are decided as plain sets say while processes are killed.", async () => {
    const database: TestDatabase = await createTestDatabase();
    try {
      const size = { processes: 2, histories: 60, lanes: 12, killEveryMs: 3_000 };
      const { decisions, escalated, faults } = await runHistories(database.url, size);
      expect(faults).to.deep.equal([]);
      expect(escalated).to.be.greaterThan(10).and.lessThan(decisions);
    } finally {
      await database.drop();
    }
  });

  it("take half a megabyte each at most when they are full, and what is kept of them in memory is bounded.", async () => {
    const { storedBytes, cachedBytes, fewestValues } = await fillSessions(12);
    expect(fewestValues).to.equal(20_000);
    expect(storedBytes / 12).to.be.lessThan(524_288);
    expect(cachedBytes).to.be.lessThan(67_108_864);
  });
});
