import { expect } from "chai";
import { listAnsweredEscalations } from "../../src/store/sql/read-escalations.ts";
import { createTestDatabase, type TestDatabase, withClient } from "../support/database.ts";

const ROWS = 20_000;
/** Every 500th was answered by a key of Ann. */
const ANNS = ROWS / 500;

describe("the list of escalations that a person answered", () => {
  let database: TestDatabase;
  before(async () => {
    database = await createTestDatabase();
    await withClient(database.ownerUrl, async (client) => {
      await client.query(`insert into ledger_entry (workspace_id, seq, at_ms, kind, entry_id, leaf_hash, body)
        select 'default', n, n, 1, 'ent_' || n, '', '{}' from generate_series(1, ${ROWS}) n`);
      await client.query(`insert into escalation (workspace_id, escalation_id, agent_id, status, action_digest, created_seq,
          resolved_seq, resolved_at_ms, resolved_by, expires_at_ms, asked, asked_by)
        select 'default', 'esc_' || n, 'agt', 2, '', n, n, n, case when n % 500 = 0 then 'key_ann' else 'key_' || n % 20 end,
          n, 1, '{}' from generate_series(1, ${ROWS}) n`);
      await client.query(`insert into api_key (key_id, workspace_id, name, role, prefix, secret_hash, created_at_ms,
          ended_with_agent, owner) values ('key_ann', 'default', 'a key', 2, '', '', 0, false, 'Ann')`);
      await client.query("analyze");
    });
  });
  after(() => database?.drop());

  it("reads their answers and no others, from an index.", async () => {
    const values = ["default", null, null, null, 11, 1_000_000, "Ann"];
    const [listed, plan] = await withClient(database.ownerUrl, async (client) => {
      // As the service's statements run once they are prepared.
      await client.query("set plan_cache_mode = force_generic_plan");
      const found = await client.query({ text: listAnsweredEscalations.text, values });
      const { rows } = await client.query({ text: `explain (analyze) ${listAnsweredEscalations.text}`, values });
      return [found.rows, rows.map((row) => row["QUERY PLAN"]).join("\n")] as const;
    });
    const newest = Array.from({ length: 11 }, (_, index) => `esc_${500 * (ANNS - index)}`);
    expect(listed.map(({ escalationId }) => escalationId)).to.deep.equal(newest);
    expect(plan).to.match(/Index Scan.* using escalation_answered/);
    expect(plan).not.to.match(/Removed by Filter: \d{2,}/);
  });
});
