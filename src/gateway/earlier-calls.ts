import type { Pool } from "pg";
import { actionDigest } from "../decision/action-digest.ts";
import type { WorkspaceLog } from "../log/writer.ts";
import { type Action, ESCALATION_STATUS_NUMBERS } from "../state/types.ts";
import type { WorkspaceState } from "../state/workspace.ts";
import { stored } from "../store/database.ts";
import { type EarlierCallRow, readEarlierCalls } from "../store/sql/approved-calls.ts";
import { type ApprovedCall, approvedCallFrom } from "./kept-results.ts";

/** Maximum approvals, and approved calls, of one agent that are compared. */
const MAX_COMPARED = 200;

/** Unused approval, and unread response, of earlier calls of this very action. */
export interface Earlier {
  /** Escalation with an unused approval. */
  readonly approval?: string;
  /** The oldest approved call whose response has reached nobody. */
  readonly call?: ApprovedCall;
}

/** Returns the digest of a call from the digest that its approval is bound to. */
export type CallDigest = (actionDigest: string) => string;

/**
 * Finds what earlier calls of this very action left behind: an unused approval, and with `digestOf` an approved call whose
 * response has reached nobody.
 */
export async function findEarlier(
  log: WorkspaceLog,
  pool: Pool,
  action: Action,
  digestOf: CallDigest | undefined,
): Promise<Earlier> {
  const { workspaceId, nowMs } = log;
  const values = [workspaceId, action.agentId, ESCALATION_STATUS_NUMBERS.approved, nowMs, MAX_COMPARED];
  const { rows } = await stored(pool.query<EarlierCallRow>({ ...readEarlierCalls, values }));
  if (rows.length === 0) return {};
  const digest = approvedDigest(await log.caughtUp(), action);
  const approval = rows.find((row) => row.escalationId !== null && row.digest === digest)?.escalationId ?? undefined;
  const digestOfCall = digestOf?.(digest);
  const row = rows.findLast(({ decisionId, digest: each }) => decisionId !== null && each === digestOfCall);
  const call = row && approvedCallFrom({ ...row, decisionId: row.decisionId ?? "" }, nowMs);
  return { ...(approval === undefined ? {} : { approval }), ...(call === undefined ? {} : { call }) };
}

/** Computes the digest that an approval of an action is bound to. */
export function approvedDigest({ policies, settings }: WorkspaceState, action: Action): string {
  const { name, schema } = policies.toolCalledBy(action);
  return actionDigest(action, name, schema, settings.approval_ignores).digest;
}
