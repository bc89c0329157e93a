import { ControlPlaneError, ErrorReason } from "../errors.ts";
import {
  type EscalationStatus,
  escalationStatusFromNumber,
  numberFromEscalationStatus,
  type WorkspaceLog,
} from "../ledger/index.ts";
import { freeTextFrom } from "../registry/text.ts";
import { EscalationEntity } from "../store/entities.ts";
import { resolvePending } from "../store/resolve-escalation.ts";
import type { Transaction } from "../store/transaction.ts";
import { type Escalation, type EscalationRow, escalationFromRow, escalationNotFound } from "./escalation.ts";

/** How a human decides. */
export interface ResolveCommand {
  readonly escalationId: string;
  readonly resolution: Exclude<EscalationStatus, "pending">;
  readonly note: string | null;
  /** The key that resolves. */
  readonly by: string;
}

/**
 * Resolves an escalation once, seals it and gives it as resolved. Throws ESCALATION_NOT_FOUND, ESCALATION_RESOLVED when
 * somebody was first, and INVALID_FIELD for a note that cannot be kept.
 */
export async function resolveEscalation(log: WorkspaceLog, command: ResolveCommand): Promise<Escalation> {
  const { escalationId, resolution, by } = command;
  const note = command.note === null ? null : freeTextFrom("note", command.note);
  const { workspaceId } = log;
  return log.change(by, async ({ transaction, nowMs, nextSeq, seal }) => {
    const row = await resolvePending<EscalationRow>(transaction, workspaceId, escalationId, {
      status: numberFromEscalationStatus(resolution),
      resolvedSeq: nextSeq(),
      resolvedAtMs: nowMs,
      resolvedBy: by,
      note,
    });
    if (row === undefined) throw await whyNot(transaction, workspaceId, escalationId);
    seal({ type: "escalation_resolved", escalation_id: escalationId, agent_id: row.agentId, resolution, note });
    return escalationFromRow(row);
  });
}

async function whyNot(transaction: Transaction, workspaceId: string, escalationId: string): Promise<ControlPlaneError> {
  const row = await transaction.findOne(EscalationEntity, { workspaceId, escalationId });
  if (row === null) return escalationNotFound(escalationId);
  const status = escalationStatusFromNumber(row.status);
  const message = `escalation \`${escalationId}\` was ${status} before; the first resolution stands`;
  return new ControlPlaneError(ErrorReason.ESCALATION_RESOLVED, message, { escalation_id: escalationId, status });
}
