import { expect } from "chai";
import { listDecisions } from "../../src/store/sql/list-decisions.ts";
import { readEntriesFrom } from "../../src/store/sql/read-entries.ts";
import { countHistory, readHistoryPage } from "../../src/store/sql/read-history.ts";
import { readMirrored } from "../../src/store/sql/read-mirrored.ts";
import { readTrustSince } from "../../src/store/sql/read-workspace.ts";
import { createTestDatabase, type TestDatabase, withClient } from "../support/database.ts";

/** The statements that read a stretch of the log in its order, with values for their parameters. */
const READERS: readonly [{ readonly name: string; readonly text: string }, string][] = [
  [readHistoryPage, "'default', 1, 9, 5"],
  [countHistory, "'default', 1, 9"],
  [listDecisions, "'default', 1, 9, null, 5"],
  [readTrustSince, "'default', 1"],
  [readEntriesFrom, "'default', 1, 5"],
  [readMirrored, "'default', 1, 5"],
];

describe("a log without statistics", () => {
  let database: TestDatabase;
  before(async () => {
    database = await createTestDatabase();
    // What the planner takes depends on sizes that a test cannot have. Without the primary key it takes any index that it
    // could take at all.
    await withClient(database.url, (client) =>
      client.query("alter table ledger_entry drop constraint ledger_entry_pkey"),
    );
  });
  after(() => database.drop());

  for (const [{ name, text }, values] of READERS) {
    it(`is never read by ${name} in the order of its agents.`, () =>
      withClient(database.url, async (client) => {
        await client.query("set enable_seqscan = off");
        await client.query(`prepare reader as ${text}`);
        const { rows } = await client.query(`explain execute reader(${values})`);
        expect(rows.map((row) => row["QUERY PLAN"]).join("\n")).not.to.contain("ledger_entry_agent");
      }));
  }
});
