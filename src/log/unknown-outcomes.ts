import type { Pool } from "pg";
import { ControlPlaneError, ErrorReason } from "../errors.ts";
import { stored } from "../store/database.ts";
import type { StoreLog } from "../store/migrate.ts";
import { readDueOutcomes, readNextDue, readNextDues } from "../store/sql/read-outcomes.ts";
import { DueWork } from "./due-work.ts";
import { type FollowedDecision, outcomeDueMs } from "./follow-up.ts";
import type { WorkspaceLog } from "./writer.ts";

/** Outcomes that are sealed at once: as many as a batch takes. */
const PAGE = 256;

const FAILURE = "cannot seal outcomes that nobody reported in time";

interface DueRow {
  readonly decisionId: string;
  readonly dueAtMs: number;
}

/** Seals that nobody reported the outcome of a decision in time, unless somebody has, or its time is not over. */
export function sealUnknown(log: WorkspaceLog, decisionId: string): Promise<FollowedDecision> {
  const nothing = { amount: undefined, error: undefined, resultDigest: undefined, unknownAt: undefined };
  return log.followUp(decisionId, (followed, _, nowMs) => {
    const dueMs = outcomeDueMs(followed);
    if (followed.outcome !== undefined || dueMs === undefined || dueMs > nowMs) return undefined;
    const by = { reportedBy: "timeout", source: "timeout" } as const;
    return { type: "outcome", status: "unknown", ...nothing, ...by, settles: false };
  });
}

/**
 * Seals every outcome of a workspace that nobody reported in time. Returns the time at which the next one becomes unknown, epoch
 * milliseconds; undefined if none is pending. Each is sealed once, by the first replica: the others find it sealed at its place.
 */
export async function sealOverdue(pool: Pool, workspaceLog: WorkspaceLog, log: StoreLog): Promise<number | undefined> {
  const { workspaceId, nowMs } = workspaceLog;
  for (let after: DueRow = { decisionId: "", dueAtMs: 0 }; ; ) {
    const values = [workspaceId, nowMs, after.dueAtMs, after.decisionId, PAGE];
    const { rows } = await stored(pool.query<DueRow>({ ...readDueOutcomes, values }));
    await Promise.all(rows.map(({ decisionId }) => sealOne(workspaceLog, decisionId, log)));
    const last = rows.at(-1);
    if (last === undefined || rows.length < PAGE) break;
    after = last;
  }
  const next = { ...readNextDue, values: [workspaceId, nowMs] };
  const { rows } = await stored(pool.query<{ dueAtMs: number | null }>(next));
  return rows[0]?.dueAtMs ?? undefined;
}

/** Seals one outcome. A decision that somebody changed in the database stays pending, and holds up no other. */
async function sealOne(workspaceLog: WorkspaceLog, decisionId: string, log: StoreLog): Promise<void> {
  try {
    await sealUnknown(workspaceLog, decisionId);
  } catch (error) {
    if (!(error instanceof ControlPlaneError)) throw error;
    const { reason, message } = error;
    if (reason !== ErrorReason.ENTRY_DAMAGED && reason !== ErrorReason.DECISION_NOT_FOUND) throw error;
    log.warn({ workspaceId: workspaceLog.workspaceId, decisionId, reason: message }, FAILURE);
  }
}

/** Creates the work that seals outcomes of all workspaces at the time at which they become unknown. */
export function createUnknownOutcomes(pool: Pool, log: StoreLog): DueWork {
  return new DueWork({
    log,
    failure: FAILURE,
    async readNext(untilMs) {
      type Row = { readonly workspaceId: string; readonly dueAtMs: number };
      return (await pool.query<Row>({ ...readNextDues, values: [untilMs] })).rows;
    },
    work: (workspaceLog) => sealOverdue(pool, workspaceLog, log),
  });
}
