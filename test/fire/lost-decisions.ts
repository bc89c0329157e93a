import { withOwner } from "../support/owner.ts";
import type { Acknowledged } from "./retrying-callers.ts";

/** Counts the decisions that callers received and that the log, past any proxy at `url`, does not hold as they were told. */
export async function countLost(
  url: string,
  actionType: string,
  acknowledged: readonly Acknowledged[],
): Promise<number> {
  const select = "select entry_id, body::json ->> 'decision' as decision from ledger_entry where action_type = $1";
  const sealed = await withOwner(url, async (client) => {
    const { rows } = await client.query<{ entry_id: string; decision: string }>(select, [actionType]);
    return new Map(rows.map(({ entry_id, decision }) => [entry_id, decision]));
  });
  return acknowledged.filter(({ reply }) => sealed.get(reply.decision_id) !== reply.decision).length;
}
