import { expect } from "chai";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { runKills } from "./killed-processes.ts";

describe("processes that are killed under callers of several workspaces", function () {
  this.timeout(240_000);
  let database: TestDatabase;

  before(async () => {
    database = await createTestDatabase();
  });
  after(() => database.drop());

  it("lose no acknowledged decision, and every log verifies.", async () => {
    const size = { processes: 2, workspaces: 3, callers: 12, seconds: 12, everyMs: 3_000 };
    const { kills, acknowledged, verified, faults } = await runKills(database.url, size);
    expect(faults).to.deep.equal([]);
    expect(verified).to.equal(3);
    expect(kills).to.be.greaterThan(1);
    expect(acknowledged).to.be.greaterThan(0);
  });
});
