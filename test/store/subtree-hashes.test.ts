import { createHash } from "node:crypto";
import { expect } from "chai";
import { runMigrations } from "../../src/store/migrate.ts";
import { MIGRATIONS } from "../../src/store/migrations/index.ts";
import { naiveTree } from "../log/naive-tree.ts";
import { createTestDatabase, SILENT_LOG, type TestDatabase, withClient } from "../support/database.ts";

const BEFORE = MIGRATIONS.slice(0, 3);
const SIZES = { one: 1, some: 37, more: 256 };

const INSERT = `insert into ledger_entry (workspace_id, seq, at_ms, kind, entry_id, leaf_hash, body)
  select $1, n, n, 1, 'ent_' || n, sha256(convert_to($1 || n, 'UTF8')), '{}' from generate_series(0, $2::int - 1) n`;
const HEAD = "insert into ledger_head (workspace_id, seq, frontier, last_at_ms) values ($1, $2, '', 0)";

/** The leaves that the statement above makes. */
const leavesOf = (workspace: string, size: number): Buffer[] =>
  Array.from({ length: size }, (_, index) => createHash("sha256").update(`${workspace}${index}`).digest());

describe("a log from before subtrees were stored", () => {
  let database: TestDatabase;
  before(async () => {
    database = await createTestDatabase(BEFORE);
    await withClient(database.url, async (client) => {
      for (const values of Object.entries(SIZES)) {
        await client.query(INSERT, values);
        await client.query(HEAD, values);
      }
    });
    await runMigrations(database.url, { migrations: MIGRATIONS, log: SILENT_LOG });
  });
  after(() => database.drop());

  for (const [workspace, size] of Object.entries(SIZES)) {
    it(`holds the subtrees of ${size} leaves after the migration.`, async () => {
      const { rows } = await withClient(database.url, (client) =>
        client.query("select subtree_hashes from ledger_entry where workspace_id = $1 order by seq", [workspace]),
      );
      const tree = naiveTree(leavesOf(workspace, size));
      expect(rows.map((row) => row.subtree_hashes)).to.deep.equal(
        rows.map((_, index) => tree.subtreesEndingWith(index)),
      );
    });
  }

  it("takes inserts only, as before.", async () => {
    const refused = await withClient(database.url, (client) =>
      client.query("update ledger_entry set subtree_hashes = null").catch(({ code }: { code: string }) => code),
    );
    expect(refused).to.equal("42501");
  });
});
