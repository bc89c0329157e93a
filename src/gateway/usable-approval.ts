import type { Pool } from "pg";
import { actionDigest } from "../decision/action-digest.ts";
import type { WorkspaceLog } from "../log/writer.ts";
import { toolNameFrom } from "../policy/names.ts";
import { type Action, ESCALATION_STATUS_NUMBERS } from "../state/types.ts";
import { stored } from "../store/database.ts";
import { readUsableApprovals } from "../store/sql/read-escalations.ts";

/** Maximum approvals of one agent that are compared. */
const MAX_COMPARED = 200;

/** Finds an unused approval of this very action, and returns the id of its escalation. */
export async function findUsableApproval(log: WorkspaceLog, pool: Pool, action: Action): Promise<string | undefined> {
  const values = [log.workspaceId, action.agentId, ESCALATION_STATUS_NUMBERS.approved, log.nowMs, MAX_COMPARED];
  const { rows } = await stored(
    pool.query<{ escalationId: string; actionDigest: string }>({ ...readUsableApprovals, values }),
  );
  if (rows.length === 0) return undefined;
  const { policies, settings } = await log.caughtUp();
  const named = toolNameFrom(
    action.tool,
    action.metadata,
    action.actionType,
    (name) => policies.tool(name) !== undefined,
  );
  const tool = named === undefined ? undefined : policies.tool(named)?.schema;
  const { digest } = actionDigest(action, tool?.name ?? named, tool, settings.approval_ignores);
  return rows.find((row) => row.actionDigest === digest)?.escalationId;
}
