import { expect } from "chai";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { runManyStreams } from "./many-streams.ts";

describe("many open streams", function () {
  this.timeout(240_000);
  let database: TestDatabase;

  before(async () => {
    database = await createTestDatabase();
  });
  after(() => database.drop());

  it("all hear of a decision, and those that nobody reads hold up nobody.", async () => {
    const size = { streams: 1_000, keys: 5, slowReaders: 50, decisions: 200 };
    const { faults, slowMib } = await runManyStreams(database.url, size);
    expect(faults).to.deep.equal([]);
    expect(slowMib).to.be.lessThan(100);
  });
});
