import { expect } from "chai";
import { runMigrations } from "../../src/store/migrate.ts";
import { MIGRATIONS } from "../../src/store/migrations.ts";
import { createTestDatabase, SILENT_LOG, type TestDatabase, withClient } from "../support/database.ts";

const SESSION = `ses_${"a".repeat(26)}`;
/** Bodies of entries, with the session that their rows get. */
const BODIES: readonly (readonly [kind: number, body: object, session: string | null])[] = [
  [0, { action: { metadata: { session_id: "ses_other" } }, session_id: SESSION }, SESSION],
  [2, { action: {}, session_id: SESSION }, SESSION],
  [0, { action: { action_content: "\u0000", metadata: { "\\u0000": "a\u0000" } }, session_id: SESSION }, SESSION],
  [0, { action: { metadata: { session_id: SESSION } } }, null],
  [0, { action: {}, session_id: "ses_none\n" }, null],
  [1, { session_id: SESSION }, null],
];

describe("the migration that gives decisions their session", () => {
  let database: TestDatabase;
  before(async () => {
    database = await createTestDatabase(MIGRATIONS.filter(({ name }) => name < "0005"));
  });
  after(() => database.drop());

  it("reads it from the bodies of entries that are there, and leaves the log insert-only.", async () => {
    const insert = `insert into ledger_entry (workspace_id, seq, at_ms, kind, entry_id, leaf_hash, body)
      values ('w', $1::int, 0, $2, 'e' || $1::int, '', $3)`;
    await withClient(database.ownerUrl, async (client) => {
      for (const [seq, [kind, body]] of BODIES.entries()) await client.query(insert, [seq, kind, JSON.stringify(body)]);
    });
    await runMigrations(database.ownerUrl, { migrations: MIGRATIONS, log: SILENT_LOG });
    await withClient(database.ownerUrl, async (client) => {
      const { rows } = await client.query("select session_id from ledger_entry order by seq");
      expect(rows.map(({ session_id }) => session_id)).to.deep.equal(BODIES.map(([, , session]) => session));
      const change = client.query("update ledger_entry set session_id = null");
      expect(await change.catch(({ code }: { code: string }) => code)).to.equal("42501");
    });
  });
});
