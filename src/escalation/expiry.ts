import type { Pool } from "pg";
import type { ChangeScope } from "../log/changes.ts";
import { DueWork } from "../log/due-work.ts";
import type { WorkspaceLog } from "../log/writer.ts";
import type { StoreLog } from "../store/migrate.ts";
import { readNextExpiries } from "../store/sql/read-escalations.ts";

/** Maximum number of escalations that one change rejects: each is an entry of its own. */
const PAGE = 500;
// PostgreSQL's array literals; ids need no quoting.
const REJECT = `update escalation e set status = 3, resolved_seq = x.seq, resolved_at_ms = ?, resolved_by = 'expiry'
  from unnest(?::text[], ?::bigint[]) as x (id, seq)
  where e.workspace_id = ? and e.escalation_id = x.id returning e.escalation_id as id, e.asked`;

/** Result of rejecting one page of expired escalations. */
interface RejectedPage {
  readonly isLast: boolean;
  /** Time at which the next escalation expires, epoch milliseconds; undefined if none is left. */
  readonly nextExpiryMs: number | undefined;
}

async function rejectPage({ transaction, state, nowMs, nextSeq, seal }: ChangeScope): Promise<RejectedPage> {
  const expired = state.escalations.expired(nowMs, PAGE);
  const page = { isLast: expired.length < PAGE, nextExpiryMs: state.escalations.nextExpiry(nowMs) };
  if (expired.length === 0) return page;
  const first = nextSeq();
  const ids = `{${expired.map(({ escalationId }) => escalationId).join(",")}}`;
  const seqs = `{${expired.map((_, index) => first + index).join(",")}}`;
  const rows: { id: string; asked: number }[] = await transaction.execute(REJECT, [
    nowMs,
    ids,
    seqs,
    state.workspaceId,
  ]);
  const asks = new Map(rows.map(({ id, asked }) => [id, asked]));
  for (const { escalationId, agentId } of expired) {
    const names = { escalation_id: escalationId, agent_id: agentId };
    const asked = asks.get(escalationId) ?? 0;
    seal({ type: "escalation_resolved", ...names, resolution: "rejected", note: null, asked, cause: "expiry" });
  }
  return page;
}

/**
 * Rejects every pending escalation of a workspace that has expired. Returns the time of the next expiry, in epoch milliseconds;
 * undefined if none is left. Each is sealed once, by the first replica: the others find it resolved when they hold the end of
 * the log.
 */
export async function rejectExpired(log: WorkspaceLog): Promise<number | undefined> {
  for (;;) {
    const { isLast, nextExpiryMs } = await log.change("system", rejectPage);
    if (isLast) return nextExpiryMs;
  }
}

/** Creates the work that rejects the escalations of all workspaces at the time at which they expire. */
export function createEscalationExpiry(pool: Pool, log: StoreLog): DueWork {
  return new DueWork({
    log,
    failure: "cannot reject expired escalations",
    async readNext(untilMs) {
      type Row = { readonly workspaceId: string; readonly dueAtMs: number };
      return (await pool.query<Row>({ ...readNextExpiries, values: [untilMs] })).rows;
    },
    work: rejectExpired,
  });
}
