import { ControlPlaneError, ErrorReason } from "../errors.ts";
import { toolKey } from "../policy/names.ts";
import type { SealedClaim } from "../state/outcomes.ts";
import type { Action, SealedDecision } from "../state/types.ts";
import type { WorkspaceState } from "../state/workspace.ts";
import { createId, idFromDigest } from "../store/ids.ts";
import type { Reader } from "../store/transaction.ts";
import { canonicalJson } from "../tree/canonical.ts";
import { type Decide, isDecision, type PendingDecision, type PendingItem } from "./queue.ts";
import { readFollowed } from "./read-follow-ups.ts";
import { type DecisionRow, readDecisionRows, receiptFromRow } from "./read-receipts.ts";
import { type DecisionReceipt, sealedDecisionFromReceipt } from "./receipts.ts";

/** Time for which a `request_id` names its first decision, milliseconds. */
const REQUEST_ID_TTL_MS = 86_400_000;

function isSameRequest(action: Action, { body }: DecisionReceipt): boolean {
  const { metadata } = body.action;
  return (
    body.key_id === action.keyId &&
    body.action.agent_id === action.agentId &&
    body.action.action_type === action.actionType &&
    body.action.action_content === action.actionContent &&
    (metadata === undefined ? "" : canonicalJson(metadata)) === action.metadataText &&
    body.on_behalf_of === action.onBehalfOf &&
    body.presented_escalation_id === action.escalationId &&
    body.session_id === action.sessionId &&
    body.grant_id === action.grantId &&
    body.intent_contract_id === action.intentContractId &&
    (body.action.tool_requested === true ? toolKey(body.action.tool ?? "") : undefined) ===
      (action.tool === undefined ? undefined : toolKey(action.tool))
  );
}

/**
 * Checks that a repeated request (AIP-155) may still be answered with its first decision. Throws REQUEST_ID_REUSED if it was for
 * another action or by another key, and REQUEST_ID_EXPIRED after 24 hours.
 */
function assertRepeatable(action: Action, receipt: DecisionReceipt, nowMs: number): void {
  const { body } = receipt;
  const { decision_id, decision, decision_path, at } = body;
  if (!isSameRequest(action, receipt)) {
    const message = "the `request_id` was used for another request; send a new one";
    throw new ControlPlaneError(ErrorReason.REQUEST_ID_REUSED, message, { decision_id });
  }
  if (nowMs - Date.parse(at) < REQUEST_ID_TTL_MS) return;
  const message = `the \`request_id\` was used more than 24 hours ago, for decision \`${decision_id}\`; send a new one`;
  const first = { decision_id, decision, decision_path, decided_at: at };
  throw new ControlPlaneError(ErrorReason.REQUEST_ID_EXPIRED, message, first);
}

/** Returns the action that seals the refusal of a repeated request. Its id is the same for every repeat: one refusal is enough. */
function refusalFromRepeat(action: Action): Action {
  const decisionId = idFromDigest("dec", `refused replay of ${action.decisionId}`);
  return { ...action, decisionId, replayOf: action.decisionId };
}

/**
 * Answers repeats (AIP-155) with their first decisions, unless their callers are refused now. Returns the actions to decide:
 * those that the log does not hold, and the refusals to seal in place of refused repeats. `now`
 * returns the time of a decision made now; it is called after the first decisions were read.
 */
export async function answerRepeats(
  reader: Reader,
  items: readonly PendingItem[],
  state: WorkspaceState,
  now: () => number,
): Promise<readonly PendingItem[]> {
  const retryable = items.flatMap((item) => (isDecision(item) && item.action.isRetryable ? item.action : []));
  if (retryable.length === 0) return items;
  const { workspaceId } = state;
  const rows = await readDecisionRows(
    reader,
    workspaceId,
    retryable.map(({ decisionId }) => decisionId),
  );
  const claims = await readClaims(reader, workspaceId, retryable);
  const refusals: PendingDecision[] = [];
  const unanswered = items.filter((item) => {
    const row = isDecision(item) ? rows.get(item.action.decisionId) : undefined;
    if (row === undefined || !isDecision(item)) return true;
    const refusal = answerRepeat(item, row, claims.get(item.action.decisionId), state, now());
    if (refusal !== undefined) refusals.push(refusal);
    return false;
  });
  // A refusal may have been sealed for an earlier repeat.
  return refusals.length === 0 ? unanswered : [...unanswered, ...(await answerRepeats(reader, refusals, state, now))];
}

/** Answers a repeat with its first decision. If its caller is refused now, returns the refusal to seal instead. */
function answerRepeat(
  item: PendingDecision,
  row: DecisionRow,
  claim: SealedClaim | undefined,
  state: WorkspaceState,
  nowMs: number,
): PendingDecision | undefined {
  const { action, steps } = item;
  try {
    const receipt = receiptFromRow(state.workspaceId, row);
    if (action.replayOf !== undefined) return answerRefusal(item, receipt);
    assertRepeatable(action, receipt, nowMs);
    const replay = refusalFromRepeat(action);
    const refusal = steps.refuseReplay(state, replay, nowMs);
    if (refusal !== undefined) {
      const decide: Decide = (current, atMs) => steps.refuseReplay(current, replay, atMs) ?? refusal;
      return { ...item, action: replay, steps: { ...steps, decide } };
    }
    item.resolve({ ...sealedDecisionFromReceipt(receipt), ...claimedIn(receipt, claim, action.claimId) });
  } catch (error) {
    item.reject(error);
  }
  return undefined;
}

/** Reads the claims, each in an entry of its own, of the decisions whose repeats ask for one. */
async function readClaims(
  reader: Reader,
  workspaceId: string,
  actions: readonly Action[],
): Promise<ReadonlyMap<string, SealedClaim>> {
  const ids = actions.flatMap(({ claimId, decisionId }) => (claimId === undefined ? [] : decisionId));
  if (ids.length === 0) return new Map();
  const read = await readFollowed(reader, workspaceId, ids);
  return new Map(
    ids.flatMap((id) => {
      const followed = read(id);
      return followed instanceof ControlPlaneError || followed.claim === undefined ? [] : [[id, followed.claim]];
    }),
  );
}

/** Tells whether a repeat's claim is the one that holds the action, and whether the outcome is tracked. */
function claimedIn(
  { body }: DecisionReceipt,
  claim: SealedClaim | undefined,
  claimId: string | undefined,
): Pick<SealedDecision, "isClaimed" | "isTracked"> {
  const isTracked = (claim?.outcome_due_at ?? body.outcome_due_at) !== undefined;
  if (claimId === undefined || body.decision !== "allow") return { isClaimed: undefined, isTracked };
  return { isClaimed: (body.claim_id ?? claim?.claim_id) === claimId, isTracked };
}

/**
 * Answers a repeat that is refused with the refusal that an earlier repeat got. A `request_id` may have been chosen so that its
 * decision has the refusal's id: the refusal is then sealed under a new one.
 */
function answerRefusal(item: PendingDecision, receipt: DecisionReceipt): PendingDecision | undefined {
  const { action } = item;
  if (receipt.body.replay_of !== action.replayOf)
    return { ...item, action: { ...action, decisionId: createId("dec") } };
  item.resolve(sealedDecisionFromReceipt(receipt));
  return undefined;
}
