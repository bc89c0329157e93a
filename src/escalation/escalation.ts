import type { Pool } from "pg";
import { ControlPlaneError, ErrorReason, invalidField, notFound } from "../errors.ts";
import type { ChangeScope } from "../log/changes.ts";
import { intactReceipt } from "../log/read-receipts.ts";
import { type DecisionBody, type DecisionReceipt, receiptFrom } from "../log/receipts.ts";
import type { WorkspaceLog } from "../log/writer.ts";
import { checkedText } from "../registry/checked-text.ts";
import { type PartyLines, readPartyLines } from "../registry/parties.ts";
import type { SealedApproval } from "../state/control-changes.ts";
import type { EscalationStatus } from "../state/escalations.ts";
import { type Action, ESCALATION_STATUS_NUMBERS, escalationStatusFromNumber } from "../state/types.ts";
import { stored } from "../store/database.ts";
import { EscalationEntity, type EscalationRow as EscalationTableRow } from "../store/entities.ts";
import {
  listAnsweredEscalations,
  listEscalations,
  readEscalations,
  readExpired,
} from "../store/sql/read-escalations.ts";
import { readerWithin } from "../store/transaction.ts";
import {
  countsFor,
  type GivenApproval,
  givenFor,
  isSameParty,
  membershipOf,
  missingNeeds,
  type Need,
  nextReminder,
  notAnApprover,
  partiesOf,
  readApproverOf,
  standingApprovals,
} from "./approvals.ts";
import { type AskedAction, approveValues } from "./approved-values.ts";
import { rejectExpired } from "./expiry.ts";

/** An action that waits, or waited, for a person's approval. */
export interface Escalation {
  readonly escalationId: string;
  readonly agentId: string;
  readonly status: EscalationStatus;
  /** Log index of the decision that escalated. */
  readonly createdSeq: number;
  /** Log index of the resolution; null while pending. */
  readonly resolvedSeq: number | null;
  readonly resolvedAtMs: number | null;
  /** The key that resolved it, `expiry` or `withdrawal`. */
  readonly resolvedBy: string | null;
  readonly note: string | null;
  /** The decision that used up the approval. */
  readonly usedBy: string | null;
  readonly usedAtMs: number | null;
  /** Time at which it is rejected unless resolved before; once approved, the end of the approval. */
  readonly expiresAtMs: number;
  /** Asks that were not withdrawn. */
  readonly asked: number;
  /** The escalation that a later asker got once the approval was spent, or that of the action as a person edited it. */
  readonly replacedBy: string | null;
  /** The expiry that people gave it while it was pending; null if nobody extended it. */
  readonly extendedUntilMs: number | null;
  /** The arguments, as JSON text, that a person approved in place of the action's own. */
  readonly editedArguments: string | null;
  /** The escalation whose edit asked for this one. */
  readonly editedFrom: string | null;
  /** Demands of rules with approvers; empty if one operator is enough. */
  readonly needs: readonly Need[];
  /** Approvals that people have given for them, and that stand, the oldest first. */
  readonly approvals: readonly GivenApproval[];
  /** Keys that asked. */
  readonly askedBy: readonly string[];
  /** The decision that escalated. */
  readonly receipt: DecisionReceipt;
}

/** An escalation's row, joined with the log entry of its decision. */
export interface EscalationRow extends Omit<Escalation, "status" | "receipt" | "needs" | "approvals"> {
  readonly status: number;
  readonly needs: readonly Need[] | null;
  readonly approvals: readonly GivenApproval[] | null;
  readonly body: string;
  readonly leafHash: Buffer;
}

/** Reads an escalation from its row, without comparing the text of its decision with the hash. */
export function escalationFromRow(row: EscalationRow): Escalation {
  return withReceipt(row, receiptFrom(row.body, row.leafHash));
}

function withReceipt({ body: _, leafHash: __, status, ...row }: EscalationRow, receipt: DecisionReceipt): Escalation {
  const { needs, approvals } = row;
  return {
    ...row,
    needs: needs ?? [],
    approvals: approvals ?? [],
    status: escalationStatusFromNumber(status),
    receipt,
  };
}

/** Returns escalations without the approvals of those who have asked for the action since. */
export async function withStandingApprovals(
  pool: Pool,
  workspaceId: string,
  escalations: readonly Escalation[],
): Promise<Escalation[]> {
  const isPending = ({ status }: Escalation): boolean => status === "pending";
  const lines = await stored(readPartyLines(pool, workspaceId, escalations.filter(isPending).flatMap(partiesOf)));
  return escalations.map((escalation) =>
    isPending(escalation) ? { ...escalation, approvals: standingApprovals(lines, escalation) } : escalation,
  );
}

/** Reads an escalation from its row. Throws ENTRY_DAMAGED if its decision is not as it was sealed: people decide by its text. */
function intactEscalation(workspaceId: string, row: EscalationRow): Escalation {
  const { createdSeq: seq, leafHash, body, escalationId: escalation_id, agentId: agent_id } = row;
  const sealedIn = ({ escalation_id, action: { agent_id } }: DecisionBody) => ({ escalation_id, agent_id });
  const entry = { workspaceId, seq, leafHash, body };
  return withReceipt(row, intactReceipt(entry, { escalation_id, agent_id }, sealedIn, { escalation_id }));
}

/** The end of a wait: a person's answer, an expiry or a withdrawal. */
export interface EscalationResolution {
  readonly status: Exclude<EscalationStatus, "pending">;
  /** Log index of the resolution. */
  readonly seq: number;
  readonly atMs: number;
  /** The key that resolved it, `expiry` or `withdrawal`. */
  readonly by: string;
  readonly note: string | null;
  /** Asks that were not withdrawn. */
  readonly asked: number;
  /** End of the approval; null for a rejection. */
  readonly expiresAtMs: number | null;
  readonly replacedBy: string | null;
  readonly editedArguments: string | null;
  readonly editedFrom: string | null;
}

/** Returns an escalation as it was while it was pending, whatever happened since, with the asks, edits and extensions that it has now. */
export function asPending(escalation: Escalation): Escalation {
  const unresolved = { resolvedSeq: null, resolvedAtMs: null, resolvedBy: null, note: null };
  const unused = { usedBy: null, usedAtMs: null, replacedBy: null, editedArguments: null };
  const { extendedUntilMs, receipt } = escalation;
  const expiresAtMs = extendedUntilMs ?? Date.parse(receipt.body.escalation_expires_at ?? "");
  return { ...escalation, ...unresolved, ...unused, expiresAtMs, status: "pending" };
}

/** Returns a pending escalation as it is right after its resolution. */
export function asResolved(
  pending: Escalation,
  { status, seq, atMs, by, note, ...end }: EscalationResolution,
): Escalation {
  const { asked, expiresAtMs, replacedBy, editedArguments } = end;
  const edit = { replacedBy, editedArguments, editedFrom: end.editedFrom ?? pending.editedFrom };
  const resolved = { status, resolvedSeq: seq, resolvedAtMs: atMs, resolvedBy: by, note, asked, ...edit };
  return { ...pending, ...resolved, expiresAtMs: expiresAtMs ?? pending.expiresAtMs };
}

/** The log and the tables of the workspace whose escalations are read or changed. */
export interface EscalationContext {
  readonly log: WorkspaceLog;
  readonly pool: Pool;
}

/** Reads several escalations by id; unknown ids are missing in the result. Rejects with ENTRY_DAMAGED. */
export async function findEscalations(
  pool: Pool,
  workspaceId: string,
  escalationIds: readonly string[],
): Promise<Map<string, Escalation>> {
  const { rows } = await stored(
    pool.query<EscalationRow>({ ...readEscalations, values: [workspaceId, escalationIds] }),
  );
  return new Map(rows.map((row) => [row.escalationId, intactEscalation(workspaceId, row)]));
}

/** Returns an escalation. Throws ESCALATION_NOT_FOUND, also for another agent's if `agentId` is given, and ENTRY_DAMAGED. */
export async function getEscalation(
  { log, pool }: EscalationContext,
  escalationId: string,
  agentId: string | null,
): Promise<Escalation> {
  const read = async () => (await findEscalations(pool, log.workspaceId, [escalationId])).get(escalationId);
  let found = await read();
  if (found !== undefined && hasExpired(found, log.nowMs)) {
    await rejectExpired(log);
    found = await read();
  }
  if (found !== undefined && (agentId === null || found.agentId === agentId)) return found;
  throw notFound(ErrorReason.ESCALATION_NOT_FOUND, "escalation", { escalation_id: escalationId });
}

const hasExpired = ({ status, expiresAtMs }: Escalation, nowMs: number): boolean =>
  status === "pending" && expiresAtMs <= nowMs;

/** Seals the expiry of every escalation that has expired, so that later reads show it. */
export async function settleExpired({ log, pool }: EscalationContext): Promise<void> {
  const { rows } = await stored(pool.query({ ...readExpired, values: [log.workspaceId, log.nowMs] }));
  if (rows.length > 0) await rejectExpired(log);
}

/** Filter and page of a list of escalations. */
export interface EscalationFilter {
  /** Number of the proto enum `EscalationStatus`; null: any. */
  readonly status: number | null;
  readonly agentId: string | null;
  /** Key or person that answered, who also stands for the keys that they own; null: any. */
  readonly resolvedBy: string | null;
  /** Only escalations created before this log index; null: from the newest. */
  readonly before: number | null;
  readonly size: number;
  /** Bytes of their log entries after which the page ends; the first escalation is always in it. */
  readonly bytes: number;
}

/** Lists escalations, newest first. `bytes` is the size of each one's log entry. One surplus shows that the list continues. */
export async function findEscalationPage(
  context: EscalationContext,
  filter: EscalationFilter,
): Promise<{ readonly escalation: Escalation; readonly bytes: number }[]> {
  await settleExpired(context);
  const { log, pool } = context;
  const { before, status, agentId, resolvedBy, size, bytes } = filter;
  const values = [log.workspaceId, before, status, agentId, size + 1, bytes];
  const query =
    resolvedBy === null
      ? { ...listEscalations, values }
      : { ...listAnsweredEscalations, values: [...values, resolvedBy] };
  const { rows } = await stored(pool.query<EscalationRow>(query));
  return rows.map((row) => ({
    escalation: escalationFromRow(row),
    bytes: Buffer.byteLength(row.body) + Buffer.byteLength(row.editedArguments ?? ""),
  }));
}

/** A person's request to resolve an escalation. */
interface ResolveCommand {
  readonly escalationId: string;
  readonly resolution: EscalationResolution["status"];
  readonly note: string | null;
  /** The caller's key. */
  readonly by: string;
}

/**
 * Resolves an escalation; the first resolution wins, on whichever replica it arrives. Returns the escalation as resolved.
 * Where rules name approvers, an approval that leaves others missing keeps it pending. Throws ESCALATION_NOT_FOUND,
 * ESCALATION_RESOLVED, also when it has expired, FOUR_EYES if the workspace or a rule requires them and the key counts as one that
 * asked, NOT_AN_APPROVER, and INVALID_FIELD for a note that cannot be stored.
 */
export async function resolveEscalation(context: EscalationContext, command: ResolveCommand): Promise<Escalation> {
  const { escalationId, resolution: status, by } = command;
  const note = command.note === null ? null : checkedText("note", command.note);
  const pending = await getEscalation(context, escalationId, null);
  return changePending(context, by, escalationId, async (scope, row) => {
    const { transaction, state, nowMs, nextSeq, seal } = scope;
    const needs = needsOf(row);
    const isApproved = status === "approved";
    const last = isApproved && needs.length > 0 ? await countApproval(scope, row, { by, note }) : undefined;
    if (last !== undefined && !last.isLast) return { ...pending, ...stateOf(row), approvals: last.approvals };
    if (last === undefined) await assertFourEyes(scope, row, by);
    const { editedFrom } = row;
    const approvedValues = isApproved ? await approveValues(scope, askedIn(pending.receipt)) : {};
    const expiresAtMs = isApproved ? nowMs + state.settings.approval_ttl_seconds * 1000 : row.expiresAtMs;
    const resolved = { resolvedSeq: nextSeq(), resolvedAtMs: nowMs, resolvedBy: by, note, expiresAtMs };
    transaction.assign(row, { ...resolved, status: ESCALATION_STATUS_NUMBERS[status] });
    seal({
      type: "escalation_resolved",
      escalation_id: escalationId,
      agent_id: row.agentId,
      resolution: status,
      note,
      asked: row.asked,
      ...(isApproved ? { expires_at: new Date(expiresAtMs).toISOString() } : {}),
      ...(isApproved && (editedFrom ?? null) !== null ? { edited_from: editedFrom as string } : {}),
      ...(last === undefined ? {} : { approvals: last.approvals.map(sealedApproval) }),
      ...approvedValues,
    });
    const approvals = last?.approvals ?? pending.approvals;
    return { ...pending, ...resolved, asked: row.asked, needs, approvals, status };
  });
}

const askedIn = ({ body: { session_id: sessionId, action, reasons } }: DecisionReceipt): AskedAction => ({
  sessionId,
  metadata: action.metadata,
  reasons: reasons.map(({ argument, value_kind: valueKind }) => ({
    ...(argument !== undefined && { argument }),
    ...(valueKind !== undefined && { valueKind }),
  })),
});

/** Returns what an escalation needs, as its row has it now. */
const needsOf = ({ needs }: EscalationTableRow): readonly Need[] => (needs ?? []) as unknown as readonly Need[];

const approvalsOf = ({ approvals }: EscalationTableRow): readonly GivenApproval[] =>
  (approvals ?? []) as unknown as readonly GivenApproval[];

/** Returns what may have changed of a pending escalation since it was read. */
const stateOf = (row: EscalationTableRow): Pick<Escalation, "asked" | "needs" | "expiresAtMs" | "askedBy"> => ({
  asked: row.asked,
  needs: needsOf(row),
  expiresAtMs: row.expiresAtMs,
  askedBy: row.askedBy,
});

const sealedApproval = ({ by, seq, groups, deputy_of, party }: GivenApproval): SealedApproval => ({
  by,
  ...(seq === undefined ? {} : { seq }),
  groups: [...new Set([...groups, ...deputy_of])].sort(),
  ...(party === undefined ? {} : { party }),
});

/**
 * Counts an approval of an escalation that needs the approvers of rules. One that leaves something missing is sealed, unless it adds
 * nothing; the last one is sealed with the resolution. Throws FOUR_EYES for whoever asked, and NOT_AN_APPROVER.
 */
async function countApproval(
  { transaction, state, nowMs, nextSeq, seal }: ChangeScope,
  row: EscalationTableRow,
  { by, note }: Pick<ResolveCommand, "by" | "note">,
): Promise<{ readonly isLast: boolean; readonly approvals: readonly GivenApproval[] }> {
  const { escalationId, agentId, askedBy } = row;
  const { workspaceId } = state;
  const needs = needsOf(row);
  const reader = readerWithin(transaction);
  const given = { approvals: approvalsOf(row), askedBy };
  const lines = await readPartyLines(reader, workspaceId, [by, ...askedBy, ...partiesOf(given)]);
  assertAskedBySomeoneElse(lines, row, by, "a rule names approvers, and wants others to approve");
  const approver = await readApproverOf(reader, workspaceId, by, nowMs);
  const { party } = approver;
  const own = {
    by,
    ...membershipOf(state, approver, needs),
    ...(party === undefined ? {} : { party }),
    at_ms: nowMs,
    note,
  };
  if (!needs.some((need) => countsFor(need, own))) throw notAnApprover(escalationId, needs);
  const standing = standingApprovals(lines, given);
  const others = standing.filter((each) => !isSameParty(each, own));
  const maker = lines.makerAmong(
    by,
    others.map((each) => each.by),
  );
  if (maker !== undefined) throw fourEyes(escalationId, `${maker} has approved`, "a key and who made it approve once");
  const before = missingNeeds(needs, standing);
  const after = missingNeeds(needs, [...others, own]);
  if (after.length === 0) {
    transaction.assign(row, { approvals: [...others, own] as never, remindAtMs: null });
    return { isLast: true, approvals: [...others, own] };
  }
  // An approval that is there already, or that counts only for what has enough, leaves everything as it is.
  const isUseful = before.some(
    (need) => countsFor(need, own) && givenFor(need, [...others, own]) > givenFor(need, standing),
  );
  if (!isUseful) return { isLast: false, approvals: standing };
  const seq = nextSeq();
  const approvals = [...others, { ...own, seq }];
  transaction.assign(row, {
    approvals: approvals as never,
    updatedSeq: seq,
    remindAtMs: nextReminder(needs, approvals),
  });
  const { groups } = sealedApproval(own);
  const names = { escalation_id: escalationId, agent_id: agentId };
  seal({ type: "escalation_approval_given", ...names, note, groups, ...(party === undefined ? {} : { party }) });
  return { isLast: false, approvals };
}

/**
 * Takes an approval back while the escalation is pending; nothing is sealed if the caller has given none. Throws ESCALATION_NOT_FOUND
 * and ESCALATION_RESOLVED.
 */
export async function withdrawApproval(
  context: EscalationContext,
  { escalationId, by }: Pick<ResolveCommand, "escalationId" | "by">,
): Promise<Escalation> {
  const pending = await getEscalation(context, escalationId, null);
  return changePending(context, by, escalationId, async ({ transaction, state, nowMs, nextSeq, seal }, row) => {
    const reader = readerWithin(transaction);
    const { party } = await readApproverOf(reader, state.workspaceId, by, nowMs);
    const own = { by, ...(party === undefined ? {} : { party }) };
    const given = approvalsOf(row);
    const approvals = given.filter((each) => !isSameParty(each, own));
    if (approvals.length < given.length) {
      const updatedSeq = nextSeq();
      const remindAtMs = nextReminder(needsOf(row), approvals);
      transaction.assign(row, { approvals: approvals as never, updatedSeq, remindAtMs });
      seal({ type: "escalation_approval_withdrawn", escalation_id: escalationId, agent_id: row.agentId });
    }
    const left = { approvals, askedBy: row.askedBy };
    const lines = await readPartyLines(reader, state.workspaceId, partiesOf(left));
    return { ...pending, ...stateOf(row), approvals: standingApprovals(lines, left) };
  });
}

/** Request to withdraw one ask for an approval. */
interface WithdrawCommand {
  readonly escalationId: string;
  /** The caller's key. */
  readonly by: string;
  /** The agent that the key is bound to; null for an unbound key. */
  readonly agentId: string | null;
}

/**
 * Withdraws one ask. Withdrawing the last one ends the escalation as rejected. Throws ESCALATION_NOT_FOUND,
 * ESCALATION_RESOLVED, and NOT_AN_ASKER for a key that neither asked nor is bound to the agent.
 */
export async function withdrawEscalation(
  context: EscalationContext,
  { escalationId, by, agentId: boundTo }: WithdrawCommand,
): Promise<Escalation> {
  const pending = await getEscalation(context, escalationId, boundTo);
  return changePending(context, by, escalationId, async ({ transaction, nowMs, nextSeq, seal }, row) => {
    const { agentId } = row;
    if (agentId !== boundTo && !row.askedBy.includes(by)) throw notAnAsker(escalationId);
    const asked = row.asked - 1;
    const names = { escalation_id: escalationId, agent_id: agentId };
    if (asked > 0) {
      transaction.assign(row, { asked, updatedSeq: nextSeq() });
      seal({ type: "escalation_withdrawn", ...names, asked });
      return { ...pending, asked };
    }
    const [status, cause] = ["rejected", "withdrawal"] as const;
    const resolved = { resolvedSeq: nextSeq(), resolvedAtMs: nowMs, resolvedBy: cause, asked };
    transaction.assign(row, { ...resolved, status: ESCALATION_STATUS_NUMBERS[status] });
    seal({ type: "escalation_resolved", ...names, resolution: status, note: null, asked, cause });
    return { ...pending, ...resolved, status };
  });
}

/** Request to give people more time. */
interface ExtendCommand {
  readonly escalationId: string;
  readonly seconds: number;
  /** The caller's key. */
  readonly by: string;
}

/** Maximum seconds from now to which an escalation may be extended: nobody can hold an action open for ever. */
const MAX_EXTENDED_SECONDS = 2_592_000;

/**
 * Moves the expiry of a pending escalation. Throws ESCALATION_NOT_FOUND, ESCALATION_RESOLVED, and INVALID_FIELD for an expiry
 * that is too far away.
 */
export async function extendEscalation(
  context: EscalationContext,
  { escalationId, seconds, by }: ExtendCommand,
): Promise<Escalation> {
  const pending = await getEscalation(context, escalationId, null);
  return changePending(context, by, escalationId, async ({ transaction, nowMs, nextSeq, seal }, row) => {
    const { agentId, asked } = row;
    assertExtendable(row.expiresAtMs, seconds, nowMs);
    const expiresAtMs = row.expiresAtMs + seconds * 1000;
    transaction.assign(row, { expiresAtMs, extendedUntilMs: expiresAtMs, updatedSeq: nextSeq() });
    const expires_at = new Date(expiresAtMs).toISOString();
    seal({ type: "escalation_extended", escalation_id: escalationId, agent_id: agentId, seconds, expires_at });
    return { ...pending, asked, expiresAtMs, extendedUntilMs: expiresAtMs };
  });
}

function assertExtendable(expiresAtMs: number, seconds: number, nowMs: number): void {
  const most = Math.floor((nowMs - expiresAtMs) / 1000) + MAX_EXTENDED_SECONDS;
  if (seconds <= most) return;
  const bound = `an escalation is extended to at most ${MAX_EXTENDED_SECONDS} seconds from now`;
  throw invalidField("seconds", most < 1 ? `goes too far: ${bound}` : `must be at most ${most}: ${bound}`);
}

/**
 * Changes an escalation while it is pending. The time of the log decides: an escalation that has expired by the time of the
 * entry is rejected instead. `action`: the action that `apply` decides, if any. Throws ESCALATION_RESOLVED.
 */
export async function changePending<T extends object>(
  { log }: Pick<EscalationContext, "log">,
  by: string,
  escalationId: string,
  apply: (scope: ChangeScope, row: EscalationTableRow) => Promise<T>,
  action?: Action,
): Promise<T> {
  const change = async (scope: ChangeScope): Promise<T | undefined> => {
    const { transaction, state, nowMs } = scope;
    const row = await transaction.findOneOrFail(EscalationEntity, { workspaceId: state.workspaceId, escalationId });
    const status = escalationStatusFromNumber(row.status);
    if (status !== "pending") throw alreadyResolved(escalationId, status);
    return row.expiresAtMs <= nowMs ? undefined : apply(scope, row);
  };
  const changed = await log.change(by, change, action);
  if (changed !== undefined) return changed;
  await rejectExpired(log);
  throw alreadyResolved(escalationId, "rejected");
}

function alreadyResolved(escalationId: string, status: EscalationStatus): ControlPlaneError {
  const message = `escalation \`${escalationId}\` was ${status} before; the first resolution stands`;
  return new ControlPlaneError(ErrorReason.ESCALATION_RESOLVED, message, { escalation_id: escalationId, status });
}

/**
 * Throws FOUR_EYES if the workspace requires them and the key asked for the escalation, or counts as the same party as one that
 * asked.
 */
export async function assertFourEyes(
  { transaction, state: { settings, workspaceId } }: ChangeScope,
  row: EscalationTableRow,
  by: string,
): Promise<void> {
  if (!settings.four_eyes) return;
  const lines = await readPartyLines(readerWithin(transaction), workspaceId, [by, ...row.askedBy]);
  assertAskedBySomeoneElse(lines, row, by, "the workspace wants another to resolve it");
}

/** Throws FOUR_EYES if the key asked for an escalation, or counts as the same party as one that did. */
function assertAskedBySomeoneElse(
  lines: PartyLines,
  { escalationId, askedBy }: EscalationTableRow,
  by: string,
  wanted: string,
): void {
  if (askedBy.includes(by)) throw fourEyes(escalationId, "the key asked for", wanted);
  const shared = lines.shared(by, askedBy);
  if (shared === undefined) return;
  throw fourEyes(escalationId, `the key counts as ${shared}, as one does that asked for`, wanted);
}

function fourEyes(escalationId: string, why: string, wanted: string): ControlPlaneError {
  const message = `${why} escalation \`${escalationId}\`; ${wanted}`;
  return new ControlPlaneError(ErrorReason.FOUR_EYES, message, { escalation_id: escalationId });
}

function notAnAsker(escalationId: string): ControlPlaneError {
  const message = `the key did not ask for escalation \`${escalationId}\` and cannot withdraw it`;
  return new ControlPlaneError(ErrorReason.NOT_AN_ASKER, message, { escalation_id: escalationId });
}
