import { ControlPlaneError, ErrorReason } from "../errors.ts";
import {
  type EscalationStatus,
  escalationStatusFromNumber,
  numberFromEscalationStatus,
  type WorkspaceLog,
} from "../ledger/index.ts";
import { freeTextFrom } from "../registry/text.ts";
import { EscalationEntity } from "../store/entities.ts";
import { escalationNotFound } from "./escalation.ts";

/** How a human decides. */
export interface ResolveCommand {
  readonly escalationId: string;
  readonly resolution: Exclude<EscalationStatus, "pending">;
  readonly note: string | null;
  /** The key that resolves. */
  readonly by: string;
}

/**
 * Resolves an escalation once and seals it. Throws ESCALATION_NOT_FOUND, ESCALATION_RESOLVED when somebody was first, and
 * INVALID_FIELD for a note that cannot be kept.
 */
export async function resolveEscalation(log: WorkspaceLog, command: ResolveCommand): Promise<void> {
  const { escalationId, resolution, by } = command;
  const note = command.note === null ? null : freeTextFrom("note", command.note);
  const { workspaceId } = log;
  return log.change(by, async ({ transaction, nowMs, nextSeq, seal }) => {
    const row = await transaction.findOne(EscalationEntity, { workspaceId, escalationId });
    if (row === null) throw escalationNotFound(escalationId);
    const status = escalationStatusFromNumber(row.status);
    if (status !== "pending") {
      const message = `escalation \`${escalationId}\` was ${status} before; the first resolution stands`;
      throw new ControlPlaneError(ErrorReason.ESCALATION_RESOLVED, message, { escalation_id: escalationId, status });
    }
    const resolved = { resolvedSeq: nextSeq(), resolvedAtMs: nowMs, resolvedBy: by, note };
    transaction.assign(row, { ...resolved, status: numberFromEscalationStatus(resolution) });
    seal({ type: "escalation_resolved", escalation_id: escalationId, agent_id: row.agentId, resolution, note });
  });
}
