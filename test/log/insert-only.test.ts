import { expect } from "chai";
import { openWorkspace, type TestWorkspace } from "../support/harness.ts";
import { assertIntact, readLog } from "./stored-log.ts";

const STATEMENTS = [
  "update ledger_entry set body = '{}' where seq = 0",
  "update ledger_entry set at_ms = at_ms + 1 where false",
  "update ledger_entry set subtree_hashes = null where seq = 1",
  "delete from ledger_entry where seq = 1",
  "truncate ledger_entry",
  "insert into ledger_entry select * from ledger_entry on conflict (workspace_id, seq) do update set body = '{}'",
  "merge into ledger_entry e using ledger_head h on e.workspace_id = h.workspace_id when matched then delete",
  "alter table ledger_entry disable trigger all",
  "alter table ledger_entry disable trigger insert_only",
  "alter table ledger_entry drop column subtree_hashes",
  "drop trigger insert_only on ledger_entry",
  "create or replace function refuse_change() returns trigger language plpgsql as 'begin return new; end'",
  "drop table ledger_entry",
];

describe("the log's table", () => {
  let workspace: TestWorkspace;
  before(async () => {
    workspace = await openWorkspace();
    const agentId = await workspace.agent();
    await workspace.intercept({ agentId, actionType: "read" });
  });
  after(() => workspace.close());

  for (const statement of STATEMENTS) {
    it(`refuses the application \`${statement}\`.`, async () => {
      const before = await readLog(workspace.url);
      const refusal = await workspace.database.pool.query(statement).then(
        () => undefined,
        (error: Error) => error.message,
      );
      expect(refusal).to.match(/permission denied|insert-only|must be owner/);
      expect(await readLog(workspace.url)).to.deep.equal(before);
    });
  }

  it("refuses them also when replication triggers alone would fire.", async () => {
    const client = await workspace.database.pool.connect();
    try {
      await client.query("set session_replication_role = replica").catch(() => undefined);
      const refusal = await client.query("delete from ledger_entry").then(
        () => undefined,
        (error: Error) => error.message,
      );
      expect(refusal).to.match(/permission denied|insert-only/);
    } finally {
      client.release(true);
    }
  });

  it("takes an index once: the log cannot fork.", async () => {
    const statement = `insert into ledger_entry (workspace_id, seq, at_ms, kind, entry_id, leaf_hash, body)
      select workspace_id, seq, at_ms, kind, 'other', leaf_hash, body from ledger_entry where seq = 1`;
    const refusal = await workspace.database.pool.query(statement).catch((error: { code: string }) => error.code);
    expect(refusal).to.equal("23505");
    assertIntact(await readLog(workspace.url));
  });
});
