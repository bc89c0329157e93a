import { expect } from "chai";
import { runMigrations } from "../../src/store/migrate.ts";
import { MIGRATIONS } from "../../src/store/migrations.ts";
import { createTestDatabase, SILENT_LOG, type TestDatabase, withClient } from "../support/database.ts";

const INSERT = `insert into mcp_tool
  (workspace_id, server, name, version, definition, digest, first_seen_at_ms, accepted_by, accepted_at_ms)
  values ('w', 'bank', $1, $2, '{}', 'd', 1, 'key_1', 2)`;

describe("the migration that pins definitions of every kind", () => {
  let database: TestDatabase;
  before(async () => {
    database = await createTestDatabase(MIGRATIONS.filter(({ name }) => name < "0010"));
  });
  after(() => database.drop());

  it("keeps tools as they are, and lets processes of the version before read and write tools alone.", async () => {
    await withClient(database.ownerUrl, (client) => client.query(INSERT, ["pay", 1]));
    const login = new URL(database.url).username;
    await runMigrations(database.ownerUrl, { migrations: MIGRATIONS, login, log: SILENT_LOG });
    await withClient(database.url, async (client) => {
      await client.query(`insert into mcp_definition
        (workspace_id, server, kind, name, version, definition, digest, is_whole, first_seen_at_ms)
        values ('w', 'bank', 'prompt', 'pay', 1, '{}', 'd', true, 3)`);
      await client.query(INSERT, ["pay", 2]);
      await client.query("update mcp_tool set accepted_by = 'key_2' where name = 'pay' and version = 2");
      await client.query(INSERT, ["read", 1]);
      await client.query("delete from mcp_tool where name = 'read'");
      const columns = "kind, version, accepted_by, is_whole";
      const { rows } = await client.query(`select ${columns} from mcp_definition order by kind, version`);
      expect(rows).to.deep.equal([
        { kind: "prompt", version: 1, accepted_by: null, is_whole: true },
        { kind: "tool", version: 1, accepted_by: "key_1", is_whole: false },
        { kind: "tool", version: 2, accepted_by: "key_2", is_whole: false },
      ]);
      expect((await client.query("select name, version from mcp_tool order by version")).rows).to.have.length(2);
    });
  });
});
