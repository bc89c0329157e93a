import type { Pool } from "pg";
import type { ChangeScope } from "../log/changes.ts";
import { DueWork } from "../log/due-work.ts";
import type { WorkspaceLog } from "../log/writer.ts";
import { readPartyLines } from "../registry/parties.ts";
import { EscalationEntity } from "../store/entities.ts";
import type { StoreLog } from "../store/migrate.ts";
import { readNextReminders } from "../store/sql/read-escalations.ts";
import { readerWithin } from "../store/transaction.ts";
import {
  type GivenApproval,
  missingNeeds,
  type Need,
  nextReminder,
  partiesOf,
  standingApprovals,
} from "./approvals.ts";

/** Maximum number of escalations that one change reminds of: each is an entry of its own. */
const PAGE = 500;

/** Result of one page of reminders. */
interface RemindedPage {
  readonly isLast: boolean;
  /** Time of the next reminder, epoch milliseconds; undefined if none is left. */
  readonly nextMs: number | undefined;
}

async function remindPage({ transaction, state, nowMs, nextSeq, seal }: ChangeScope): Promise<RemindedPage> {
  const { workspaceId } = state;
  const reader = readerWithin(transaction);
  const due = { workspaceId, status: 1, remindAtMs: { $ne: null } };
  const rows = await transaction.find(EscalationEntity, due, { orderBy: { remindAtMs: "asc" }, limit: PAGE + 1 });
  for (const row of rows.slice(0, PAGE)) {
    if ((row.remindAtMs ?? Number.POSITIVE_INFINITY) > nowMs) break;
    // One that has expired is rejected instead.
    if (row.expiresAtMs <= nowMs) {
      transaction.assign(row, { remindAtMs: null });
      continue;
    }
    const needs = (row.needs ?? []) as unknown as readonly Need[];
    const given = (row.approvals ?? []) as unknown as readonly GivenApproval[];
    const answered = { approvals: given, askedBy: row.askedBy };
    const lines = await readPartyLines(reader, workspaceId, partiesOf(answered));
    const approvals = standingApprovals(lines, answered);
    const missing = new Set(missingNeeds(needs, approvals));
    const isDue = (need: Need): boolean =>
      missing.has(need) && need.reminded !== true && Date.parse(need.remind_at ?? "") <= nowMs;
    const reminded = needs.map((need): Need => (isDue(need) ? { ...need, reminded: true } : need));
    const remindAtMs = nextReminder(reminded, approvals);
    const groups = [...new Set(needs.filter(isDue).flatMap((need) => need.groups))].sort();
    if (!needs.some(isDue)) {
      transaction.assign(row, { remindAtMs });
      continue;
    }
    transaction.assign(row, { needs: reminded as never, remindAtMs, updatedSeq: nextSeq() });
    seal({ type: "escalation_reminded", escalation_id: row.escalationId, agent_id: row.agentId, groups });
  }
  const times = rows.flatMap(({ remindAtMs }) => remindAtMs ?? []);
  const next = times.length === 0 ? undefined : Math.min(...times);
  return { isLast: next === undefined || next > nowMs, nextMs: next };
}

/**
 * Reminds people of every pending escalation of a workspace whose reminder is due. Returns the time of the next one, in epoch
 * milliseconds; undefined if none is left. Each is sealed once, by the first replica: the others find it sealed when they hold the end
 * of the log.
 */
export async function sendReminders(log: WorkspaceLog): Promise<number | undefined> {
  for (;;) {
    const { isLast, nextMs } = await log.change("system", remindPage);
    if (isLast) return nextMs;
  }
}

/** Creates the work that reminds people of the escalations of all workspaces at the time at which it is due. */
export function createEscalationReminders(pool: Pool, log: StoreLog): DueWork {
  return new DueWork({
    log,
    failure: "cannot remind people of escalations",
    async readNext(untilMs) {
      type Row = { readonly workspaceId: string; readonly dueAtMs: number };
      return (await pool.query<Row>({ ...readNextReminders, values: [untilMs] })).rows;
    },
    work: sendReminders,
  });
}
