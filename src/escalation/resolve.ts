import type { Pool } from "pg";
import { ControlPlaneError, ErrorReason } from "../errors.ts";
import type { WorkspaceLog } from "../log/workspace-log.ts";
import { checkedText } from "../registry/checked-text.ts";
import type { EscalationStatus } from "../state/escalations.ts";
import { escalationStatusFromNumber, numberFromEscalationStatus } from "../state/stored-enums.ts";
import { EscalationEntity } from "../store/entities.ts";
import { asResolved, type Escalation, getEscalation } from "./escalation.ts";

/** How a human decides. */
export interface ResolveCommand {
  readonly escalationId: string;
  readonly resolution: Exclude<EscalationStatus, "pending">;
  readonly note: string | null;
  /** The key that resolves. */
  readonly by: string;
}

/** What a resolution works with. */
export interface ResolveContext {
  readonly log: WorkspaceLog;
  readonly pool: Pool;
}

/**
 * Resolves an escalation once, seals it and gives it as resolved. Throws ESCALATION_NOT_FOUND, ESCALATION_RESOLVED when
 * somebody was first, and INVALID_FIELD for a note that cannot be kept.
 */
export async function resolveEscalation({ log, pool }: ResolveContext, command: ResolveCommand): Promise<Escalation> {
  const { escalationId, resolution: status, by } = command;
  const { workspaceId } = log;
  const note = command.note === null ? null : checkedText("note", command.note);
  const pending = await getEscalation(pool, workspaceId, escalationId, null);
  if (pending.status !== "pending") throw resolvedBefore(pending);
  const { agentId } = pending;
  return log.change(by, async ({ transaction, nowMs, nextSeq, seal }) => {
    const seq = nextSeq();
    const resolved = {
      status: numberFromEscalationStatus(status),
      resolvedSeq: seq,
      resolvedAtMs: nowMs,
      resolvedBy: by,
    };
    const where = { workspaceId, escalationId, resolvedSeq: null };
    if ((await transaction.nativeUpdate(EscalationEntity, where, { ...resolved, note })) === 0) {
      const row = await transaction.findOneOrFail(EscalationEntity, { workspaceId, escalationId });
      throw resolvedBefore({ escalationId, status: escalationStatusFromNumber(row.status) });
    }
    seal({ type: "escalation_resolved", escalation_id: escalationId, agent_id: agentId, resolution: status, note });
    return asResolved(pending, { status, seq, atMs: nowMs, by, note });
  });
}

function resolvedBefore({ escalationId, status }: Pick<Escalation, "escalationId" | "status">): ControlPlaneError {
  const message = `escalation \`${escalationId}\` was ${status} before; the first resolution stands`;
  return new ControlPlaneError(ErrorReason.ESCALATION_RESOLVED, message, { escalation_id: escalationId, status });
}
