import type { Decision } from "../../src/policy/types.ts";
import { DECISION_NUMBERS } from "../../src/state/types.ts";
import { withOwner } from "../support/owner.ts";

/** Decisions that lie in a log already, of agents that are not there any more. */
export interface Past {
  readonly entries: number;
  /** They lie evenly over so many milliseconds until now, so that some leave each window all the time. */
  readonly overMs: number;
  readonly decision: Decision;
}

/*
 * Rows as decisions leave them, but for bodies and hashes, which no decision looks at: millions of real ones would take longer
 * than everything else of the benchmark. Ids lie as far apart in their index as real ones.
 */
const FILL = `
  insert into ledger_entry (workspace_id, seq, at_ms, kind, entry_id, agent_id, action_type, decision, leaf_hash, body)
  select $1, h.seq + i, $3::bigint - $4::bigint + (i * $4::bigint) / $2::bigint, 0, 'dec_' || substr(md5(i::text), 1, 26),
    'agt_' || i % 1000, 'payment.send', $5, decode(repeat('00', 32), 'hex'), repeat('x', 200)
  from ledger_head h, generate_series(0, $2::bigint - 1) i where h.workspace_id = $1`;
const END = `
  update ledger_head set seq = seq + $2::bigint, last_at_ms = $3::bigint,
    frontier = decode(repeat('00', 32 * length(replace((seq + $2::bigint)::bit(64)::text, '0', ''))), 'hex')
  where workspace_id = $1`;
const SNAPSHOT =
  "update workspace set trust_seq = (select seq from ledger_head where workspace_id = $1) where workspace_id = $1";

/** Fills the log of a workspace that is older than `past`, and that no process has in memory. */
export async function fillLog(databaseUrl: string, workspaceId: string, past: Past): Promise<void> {
  const { entries, overMs, decision } = past;
  const nowMs = Date.now();
  await withOwner(databaseUrl, async (client) => {
    await client.query("begin");
    await client.query(FILL, [workspaceId, entries, nowMs, overMs, DECISION_NUMBERS[decision]]);
    await client.query(END, [workspaceId, entries, nowMs]);
    await client.query(SNAPSHOT, [workspaceId]);
    await client.query("commit");
    // Left to the database, both would be done while a load is measured.
    await client.query("vacuum analyze ledger_entry");
    await client.query("checkpoint");
  });
}
