import type { JsonObject } from "@bufbuild/protobuf";
import type { Pool } from "pg";
import { actionDigest } from "../decision/action-digest.ts";
import { decide, steps } from "../decision/decide.ts";
import { type PrepareParts, prepareAction, type Waiter } from "../decision/intercept.ts";
import type { DecisionMetrics } from "../decision/metrics.ts";
import { ControlPlaneError, ErrorReason, type FieldViolation, invalidField } from "../errors.ts";
import type { ChangeScope } from "../log/changes.ts";
import type { WorkspaceLogs } from "../log/workspace-logs.ts";
import { checkedText } from "../registry/checked-text.ts";
import type { SealedEdit } from "../state/control-changes.ts";
import { type Action, ESCALATION_STATUS_NUMBERS, type Outcome } from "../state/types.ts";
import { EscalationEntity, type EscalationRow } from "../store/entities.ts";
import { canonicalJson } from "../tree/canonical.ts";
import { type AskedAction, approveValues } from "./approved-values.ts";
import { editedActionFrom } from "./edited-action.ts";
import { assertFourEyes, changePending, type Escalation, findEscalations, getEscalation } from "./escalation.ts";

/** Dependencies of the use case. */
export interface EditParts extends PrepareParts {
  readonly logs: Pick<WorkspaceLogs, "of">;
  readonly pool: Pool;
  /** Counts the decisions on edited actions. Default: nothing counts them. */
  readonly metrics?: DecisionMetrics | undefined;
}

/** A person's request to have an action with other arguments instead. */
interface EditCommand {
  readonly workspaceId: string;
  readonly escalationId: string;
  readonly arguments: JsonObject;
  readonly note: string | null;
  /** The caller's key. */
  readonly by: string;
  readonly waiter: Pick<Waiter, "signal">;
}

/** The escalation as rejected, and that of the edited action, approved or pending; undefined if that needs no approval. */
export interface EditedEscalation {
  readonly escalation: Escalation;
  readonly replacement: Escalation | undefined;
}

/**
 * Rejects an escalation, decides its action with other arguments, and approves that action if it escalates, in one transaction:
 * all of it takes effect or nothing does, and the first of two editors wins. Where the workspace requires four eyes, or a rule that
 * escalates the edited action names approvers, that action waits for other people instead. Throws ESCALATION_NOT_FOUND, ESCALATION_RESOLVED, FOUR_EYES, INVALID_FIELD for
 * arguments that the action cannot have or already has, and EDIT_BLOCKED.
 */
export async function editEscalation(parts: EditParts, command: EditCommand): Promise<EditedEscalation> {
  const receivedAt = performance.now();
  const { logs, pool, metrics } = parts;
  const { workspaceId, escalationId, by } = command;
  const note = command.note === null ? null : checkedText("note", command.note);
  const log = await logs.of(workspaceId);
  const { receipt } = await getEscalation({ log, pool }, escalationId, null);
  const action = editedActionFrom(receipt, escalationId, command.arguments, by);
  const prepared = await prepareAction(parts, log, action, command.waiter);
  // The log may have been unloaded meanwhile.
  const context = { log: await logs.of(workspaceId), pool };
  const edit = { action: prepared, arguments: command.arguments, note, by };
  const { replacedBy, outcome } = await changePending(
    context,
    by,
    escalationId,
    (scope, row) => apply(scope, row, edit),
    prepared,
  );
  if (replacedBy !== null) metrics?.record({ ...outcome, isReplayed: false }, "edit", receivedAt);
  const found = await findEscalations(
    pool,
    workspaceId,
    replacedBy === null ? [escalationId] : [escalationId, replacedBy],
  );
  const replacement = replacedBy === null ? undefined : found.get(replacedBy);
  return { escalation: found.get(escalationId) as Escalation, replacement };
}

/** An edit that is ready to be made. */
interface Edit {
  readonly action: Action;
  readonly arguments: JsonObject;
  readonly note: string | null;
  readonly by: string;
}

/**
 * Makes an edit at the end of the log. Returns the outcome of the edited action with the id of its escalation; null if it needs none
 * and is not appended.
 */
async function apply(
  scope: ChangeScope,
  row: EscalationRow,
  { action, arguments: edited, note, by }: Edit,
): Promise<{ readonly replacedBy: string | null; readonly outcome: Outcome }> {
  const { state, nowMs } = scope;
  await assertFourEyes(scope, row, by);
  const outcome = decide(state, action, nowMs, { undo: [] });
  if (outcome.decision === "block") throw blocked(row.escalationId, outcome);
  const { digest } = actionDigest(action, outcome.toolName, outcome.tool, state.settings.approval_ignores);
  if (digest === row.actionDigest) throw unchanged();
  const replacedBy = outcome.escalationId ?? null;
  const { decisionId } = action;
  if (replacedBy !== null) await scope.append(steps(action));
  reject(scope, row, {
    note,
    by,
    replacedBy,
    edit: {
      arguments: edited,
      action_digest: row.actionDigest,
      edited_digest: digest,
      decision: outcome.decision,
      ...(replacedBy === null ? {} : { decision_id: decisionId, replaced_by: replacedBy }),
    },
  });
  if (replacedBy === null) return { replacedBy, outcome };
  if (state.settings.four_eyes || (await needsApprovers(scope, replacedBy))) await leavePending(scope, replacedBy, row);
  else
    await approve(scope, replacedBy, {
      note,
      by,
      editedFrom: row.escalationId,
      asked: { ...action, reasons: outcome.reasons },
    });
  return { replacedBy, outcome };
}

/** Tests whether rules name approvers of an escalation. */
async function needsApprovers({ transaction, state }: ChangeScope, escalationId: string): Promise<boolean> {
  const { workspaceId } = state;
  const row = await transaction.findOneOrFail(EscalationEntity, { workspaceId, escalationId }, { refresh: true });
  return row.needs !== null && row.needs !== undefined;
}

/**
 * Leaves the escalation of an edited action to another person. The decision on the action has made the editor one who asked; those
 * who asked for the action as it was wait for this one, and so count as well.
 */
async function leavePending(
  { transaction, state: { workspaceId } }: ChangeScope,
  escalationId: string,
  edited: EscalationRow,
): Promise<void> {
  const row = await transaction.findOneOrFail(EscalationEntity, { workspaceId, escalationId }, { refresh: true });
  const askedBy = [...new Set([...row.askedBy, ...edited.askedBy])].sort();
  transaction.assign(row, { askedBy, editedFrom: edited.escalationId });
}

function reject(
  { transaction, nowMs, nextSeq, seal }: ChangeScope,
  row: EscalationRow,
  { note, by, replacedBy, edit }: Pick<Edit, "note" | "by"> & { replacedBy: string | null; edit: SealedEdit },
): void {
  const { escalationId, agentId, asked } = row;
  transaction.assign(row, {
    status: ESCALATION_STATUS_NUMBERS.rejected,
    note,
    replacedBy,
    resolvedSeq: nextSeq(),
    resolvedAtMs: nowMs,
    resolvedBy: by,
    editedArguments: canonicalJson(edit.arguments),
  });
  const names = { escalation_id: escalationId, agent_id: agentId };
  seal({ type: "escalation_resolved", ...names, resolution: "rejected", note, asked, edit });
}

/** Approves the escalation of an edited action: the decision on that created it, or joined it. */
async function approve(
  scope: ChangeScope,
  escalationId: string,
  { note, by, editedFrom, asked: action }: Pick<Edit, "note" | "by"> & { editedFrom: string; asked: AskedAction },
): Promise<void> {
  const { transaction, state, nowMs, nextSeq, seal } = scope;
  const approved = { workspaceId: state.workspaceId, escalationId };
  // Read again: the decision counts as an ask.
  const row = await transaction.findOneOrFail(EscalationEntity, approved, { refresh: true });
  const { agentId, asked } = row;
  const expiresAtMs = nowMs + state.settings.approval_ttl_seconds * 1000;
  transaction.assign(row, {
    status: ESCALATION_STATUS_NUMBERS.approved,
    note,
    editedFrom,
    expiresAtMs,
    resolvedSeq: nextSeq(),
    resolvedAtMs: nowMs,
    resolvedBy: by,
  });
  seal({
    type: "escalation_resolved",
    escalation_id: escalationId,
    agent_id: agentId,
    resolution: "approved",
    note,
    asked,
    edited_from: editedFrom,
    expires_at: new Date(expiresAtMs).toISOString(),
    ...(await approveValues(scope, action)),
  });
}

/** Maximum characters of the reasons in a message. */
const MAX_TOLD = 1_000;
/** Maximum number of reasons whose arguments an error names. */
const MAX_VIOLATIONS = 20;

function blocked(escalationId: string, { reasons }: Outcome): ControlPlaneError {
  const why = reasons.map(({ message }) => message).join("; ");
  const told = why.length > MAX_TOLD ? `${why.slice(0, MAX_TOLD)}…` : why;
  const codes = [...new Set(reasons.map(({ code }) => code))].join(" ");
  const message = `the edited action is blocked, and escalation \`${escalationId}\` stays pending: ${told}`;
  const metadata = { escalation_id: escalationId, codes };
  return new ControlPlaneError(ErrorReason.EDIT_BLOCKED, message.toWellFormed(), metadata, {
    violations: violationsOf(reasons),
  });
}

/** Names the arguments that the reasons are about, so that an editor shows each at its place. */
function violationsOf(reasons: Outcome["reasons"]): readonly FieldViolation[] {
  const found = reasons.slice(0, MAX_VIOLATIONS).flatMap(({ argument, message, code }) => {
    if (argument === undefined || argument === null) return [];
    const description = message.slice(0, MAX_TOLD).toWellFormed();
    return [{ field: `arguments.${argument}`.toWellFormed(), description, reason: code }];
  });
  return found.sort((a, b) => (a.field < b.field ? -1 : 1));
}

function unchanged(): ControlPlaneError {
  return invalidField("arguments", "must differ from the action's own; approve the escalation as it is instead");
}
