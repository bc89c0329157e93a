import { amountFrom, millionthsFrom } from "../policy/decimal.ts";
import { normaliseName } from "../policy/names.ts";
import { OVERDRAWN } from "../state/fold.ts";
import {
  capturedBy,
  type FollowUps,
  followUpId,
  memberOf,
  type OutcomeSource,
  type Overdraft,
  type ReportedAmount,
  type SealedClaim,
  type SealedOutcome,
  type SealedStatus,
} from "../state/outcomes.ts";
import { type Action, EntryKind, OUTCOME_STATUS_NUMBERS } from "../state/types.ts";
import type { WorkspaceState } from "../state/workspace.ts";
import type { EntryColumn } from "../store/sql/append-entries.ts";
import { canonicalJson } from "../tree/canonical.ts";
import { json, listText, objectWriter } from "./canonical-object.ts";
import { type DecisionPlace, RESERVATION_MEMBERS } from "./entry.ts";
import type { DecisionReceipt } from "./receipts.ts";

/** A decision with all entries about it. */
export interface FollowedDecision extends FollowUps {
  readonly receipt: DecisionReceipt;
}

/** Content of an entry about a decision, before it has its place in the log. */
export type FollowUpDraft =
  | {
      readonly type: "claim";
      readonly claimId: string;
      readonly claimedBy: string;
      /** Time from which the outcome becomes unknown, epoch milliseconds; undefined if it is not tracked. */
      readonly outcomeDueAtMs: number | undefined;
    }
  | {
      readonly type: "outcome";
      readonly status: SealedStatus;
      readonly amount: number | undefined;
      readonly error: string | undefined;
      readonly resultDigest: string | undefined;
      readonly reportedBy: string;
      readonly source: OutcomeSource;
      readonly settles: boolean;
      /** RFC 3339; set if it settles an unknown outcome. */
      readonly unknownAt: string | undefined;
      /** Keys of the pots that hold their amount. Default: none. */
      readonly heldPots?: readonly string[];
      /** The agent's report that it confirms or corrects. Default: none. */
      readonly confirms?: SealedOutcome | undefined;
    };

/**
 * Decides at an item's place in the log what to seal about a decision. Returns undefined if what the log holds answers the item.
 * MUST be synchronous and change nothing. Throws the refusal.
 */
export type FollowUpStep = (
  followed: FollowedDecision,
  state: WorkspaceState,
  nowMs: number,
) => FollowUpDraft | undefined;

/** An entry about a decision as the log stores it. */
export interface FollowUpEntry {
  readonly sealed: SealedClaim | SealedOutcome;
  /** RFC 8785 text of the entry. */
  readonly body: string;
}

interface Sealing {
  readonly draft: FollowUpDraft;
  readonly decision: DecisionReceipt["body"];
  readonly place: DecisionPlace;
}

const claimOf = ({ draft }: Sealing) => (draft.type === "claim" ? draft : undefined);
const outcomeOf = ({ draft }: Sealing) => (draft.type === "outcome" ? draft : undefined);

const writeReported = objectWriter<ReportedAmount>({
  ...RESERVATION_MEMBERS,
  was: ({ was }) => json(was),
  held: ({ held }) => json(held),
  captured: ({ captured }) => json(captured),
});

/** Lists what an outcome finds of the amounts that its action reserved. */
function reservedIn({ draft, decision: { reserved = [] } }: Sealing): readonly ReportedAmount[] {
  if (draft.type !== "outcome") return [];
  const { heldPots = [], confirms } = draft;
  return reserved.map((amount): ReportedAmount => {
    if (confirms === undefined) return heldPots.includes(amount.pot) ? { ...amount, held: true } : amount;
    const isHeld = confirms.reserved?.some(({ pot, held }) => pot === amount.pot && held === true) === true;
    if (isHeld) return amount;
    const captured = capturedBy(confirms, amount);
    return { ...amount, captured, ...(amount.outcomes !== undefined && { was: confirms.status }) };
  });
}

const writeOverdraft = objectWriter<Overdraft>({
  mandate_id: ({ mandate_id }) => json(mandate_id),
  rule: ({ rule }) => json(rule),
  scope: ({ scope }) => json(scope),
  group: ({ group }) => json(group),
  pot: ({ pot }) => json(pot),
  currency: ({ currency }) => json(currency),
  reserved: ({ reserved }) => canonicalJson(reserved),
  captured: ({ captured }) => canonicalJson(captured),
});

/** Lists the budgets in which an outcome captures more than its action reserved. */
function overdraftsOf({ draft, decision }: Sealing): readonly Overdraft[] {
  if (draft.type !== "outcome" || draft.status !== "succeeded" || draft.amount === undefined) return [];
  const paid = millionthsFrom(draft.amount) ?? 0;
  const { reserved = [], authorisation } = decision;
  return reserved
    .filter(({ millionths, unit, outcomes = ["succeeded"] }) => {
      return unit === undefined && outcomes.includes("succeeded") && paid > millionths;
    })
    .flatMap(({ pot, millionths, currency }): readonly Overdraft[] => {
      const amounts = { reserved: amountFrom(BigInt(millionths)), captured: amountFrom(BigInt(paid)) };
      const overdraft = { pot, ...(currency !== undefined && { currency }), ...amounts };
      const limits = authorisation.collective_limits.filter(({ budget }) => budget?.pot === pot);
      if (limits.length === 0) return [overdraft];
      return limits.map(({ mandate_id, rule, scope, group }) => ({ mandate_id, rule, scope, group, ...overdraft }));
    });
}

/** Writes a claim or an outcome. It says everything that folding it needs, so that no replica looks up the decision. */
const writeFollowUp = objectWriter<Sealing>({
  type: ({ draft }) => json(draft.type),
  // Place in the log.
  workspace_id: ({ place }) => json(place.workspaceId),
  seq: ({ place }) => json(place.seq),
  at: ({ place }) => json(new Date(place.atMs).toISOString()),
  previous_root: ({ place }) => json(place.previousRoot),
  previous_size: ({ place }) => json(place.previousSize),
  // The decision.
  decision_id: ({ decision }) => json(decision.decision_id),
  decision_seq: ({ decision }) => json(decision.seq),
  decided_at: ({ decision }) => json(decision.at),
  agent_id: ({ decision }) => json(decision.action.agent_id),
  principal_id: ({ decision }) => json(decision.on_behalf_of ?? decision.principal_id),
  action_type: ({ decision }) => json(decision.action.action_type),
  // The claim.
  claim_id: (sealing) => json(claimOf(sealing)?.claimId),
  claimed_by: (sealing) => json(claimOf(sealing)?.claimedBy),
  outcome_due_at: (sealing) => {
    const dueMs = claimOf(sealing)?.outcomeDueAtMs;
    return dueMs === undefined ? undefined : json(new Date(dueMs).toISOString());
  },
  // The outcome.
  status: (sealing) => json(outcomeOf(sealing)?.status),
  amount: (sealing) => {
    const amount = outcomeOf(sealing)?.amount;
    return amount === undefined ? undefined : canonicalJson(amount);
  },
  error: (sealing) => json(outcomeOf(sealing)?.error),
  result_digest: (sealing) => json(outcomeOf(sealing)?.resultDigest),
  reported_by: (sealing) => json(outcomeOf(sealing)?.reportedBy),
  source: (sealing) => json(outcomeOf(sealing)?.source),
  reserved: (sealing) => listText(reservedIn(sealing), writeReported),
  overdrawn: (sealing) => listText(overdraftsOf(sealing), writeOverdraft),
  settles: (sealing) => json(outcomeOf(sealing)?.settles),
  unknown_at: (sealing) => json(outcomeOf(sealing)?.unknownAt),
});

/** Seals an entry about a decision at its place. */
export function followUpEntry(
  draft: FollowUpDraft,
  { body: decision }: DecisionReceipt,
  place: DecisionPlace,
): FollowUpEntry {
  const body = writeFollowUp({ draft, decision, place });
  return { sealed: JSON.parse(body) as SealedClaim | SealedOutcome, body };
}

/** Returns a decision with one more entry about it. */
export const withFollowUp = (followed: FollowedDecision, { sealed }: FollowUpEntry): FollowedDecision => ({
  ...followed,
  [memberOf(sealed)]: sealed,
});

/**
 * Number in the column `decision` of a claim; those of outcomes lie above it. INVARIANT: not below 2, so that the index
 * `ledger_entry_event` holds them: what it does not hold counts as an allowed action.
 */
const CLAIM_NUMBER = 16;

/** Returns the number in the column `decision` of an outcome. */
export const outcomeNumber = (status: SealedStatus): number => CLAIM_NUMBER + OUTCOME_STATUS_NUMBERS[status];

/** Tests whether an entry captures more than the action reserved. */
export const isOverdrawn = (sealed: SealedClaim | SealedOutcome): boolean =>
  sealed.type === "outcome" && sealed.overdrawn !== undefined;

/** The columns of an entry about a decision, each with its value. */
export const FOLLOW_UP_COLUMNS: Readonly<Record<EntryColumn, (entry: FollowUpEntry) => string | number>> = {
  entry_id: ({ sealed }) => followUpId[memberOf(sealed)](sealed.decision_id),
  kind: ({ sealed }) => (sealed.type === "claim" ? EntryKind.CLAIM : EntryKind.OUTCOME),
  agent_id: ({ sealed }) => sealed.agent_id,
  principal_id: ({ sealed }) => sealed.principal_id ?? "",
  action_type: ({ sealed }) => normaliseName(sealed.action_type),
  decision: ({ sealed }) => (sealed.type === "claim" ? CLAIM_NUMBER : outcomeNumber(sealed.status)),
  ref_id: ({ sealed }) => (isOverdrawn(sealed) ? OVERDRAWN : ""),
  session_id: () => "",
  body: ({ body }) => body,
};

/** Time from which the outcome of a decision becomes unknown, epoch milliseconds; undefined if it is not tracked. */
export function outcomeDueMs({ receipt, claim }: FollowedDecision): number | undefined {
  const due = claim?.outcome_due_at ?? receipt.body.outcome_due_at;
  return due === undefined ? undefined : Date.parse(due);
}

/** Returns the action of a decision, as far as its authority is concerned: a repeat of it, which its uses do not end. */
export function actionFromReceipt({ body }: DecisionReceipt): Action {
  const { action } = body;
  return {
    decisionId: body.decision_id,
    isRetryable: false,
    agentId: action.agent_id,
    actionType: action.action_type,
    normalisedType: normaliseName(action.action_type),
    actionContent: "",
    metadata: undefined,
    metadataText: "",
    tool: action.tool,
    sessionId: body.session_id,
    onBehalfOf: body.on_behalf_of,
    grantId: body.grant_id,
    intentContractId: body.intent_contract_id,
    escalationId: undefined,
    keyId: body.key_id,
    replayOf: body.decision_id,
  };
}
