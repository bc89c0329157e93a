import { ControlPlaneError, ErrorReason } from "../errors.ts";
import { actionFromReceipt, type FollowedDecision, type FollowUpDraft, outcomeDueMs } from "../log/follow-up.ts";
import type { WorkspaceLog } from "../log/writer.ts";
import { outcomeTimeoutMs } from "../state/fold.ts";
import type { WorkspaceState } from "../state/workspace.ts";
import { refuseReplay } from "./decide.ts";
import { assertFollowable, type FollowUpCaller } from "./report-outcome.ts";

/** Claim of an allowed action by the one who is to run it. */
export interface ClaimCommand {
  readonly decisionId: string;
  /** UUID in lower case. */
  readonly claimId: string;
  /** False if the caller does not report the outcome. */
  readonly reportsOutcome: boolean;
  /** Tests whether the API key of the decision, if it came with one, has ended. */
  readonly hasKeyEnded: (keyId: string) => Promise<boolean>;
}

/**
 * Claims an allowed action, or finds that the same id has claimed it before. Resolves with the decision and all entries about it; whoever
 * gets no answer MUST NOT run the action. Rejects with DECISION_NOT_FOUND, NOT_ALLOWED, ALREADY_CLAIMED and CLAIM_REFUSED.
 */
export async function claimDecision(
  log: WorkspaceLog,
  { decisionId, claimId, reportsOutcome, hasKeyEnded }: ClaimCommand,
  caller: FollowUpCaller,
): Promise<FollowedDecision> {
  const { receipt } = await log.followed(decisionId);
  assertFollowable(receipt, caller);
  const { key_id: keyId } = receipt.body;
  if (keyId !== caller.keyId && (await hasKeyEnded(keyId)))
    throw claimRefused(decisionId, "the key that asked has ended", "CREDENTIAL_ENDED", "credential");
  const step = (followed: FollowedDecision, state: WorkspaceState, nowMs: number): FollowUpDraft | undefined => {
    assertFollowable(followed.receipt, caller);
    const holder = holderOf(followed);
    if (holder !== undefined && holder !== claimId) throw alreadyClaimed(decisionId);
    assertClaimable(followed, state, nowMs);
    if (holder !== undefined) return undefined;
    const isTracked = reportsOutcome || outcomeDueMs(followed) !== undefined || state.settings.outcomes === "all";
    const outcomeDueAtMs = isTracked ? nowMs + outcomeTimeoutMs(state) : undefined;
    return { type: "claim", claimId, claimedBy: caller.keyId, outcomeDueAtMs };
  };
  return log.followUp(decisionId, step, { isAbandoned: caller.isOver });
}

/** Returns the id under which an action is claimed; undefined while nobody has claimed it. */
const holderOf = ({ receipt, claim }: FollowedDecision): string | undefined => receipt.body.claim_id ?? claim?.claim_id;

/** Throws CLAIM_REFUSED unless an allowed action may still be run. */
function assertClaimable(followed: FollowedDecision, state: WorkspaceState, nowMs: number): void {
  const { receipt, outcome, settlement } = followed;
  const { decision_id: decisionId, at } = receipt.body;
  const refusal = refuseReplay(state, actionFromReceipt(receipt), nowMs);
  const reason = refusal?.reasons[0];
  if (refusal !== undefined && reason !== undefined)
    throw claimRefused(decisionId, reason.message, reason.code, refusal.path);
  const standing = settlement ?? outcome;
  if (standing !== undefined)
    throw claimRefused(decisionId, `its outcome is \`${standing.status}\``, "OUTCOME_SETTLED");
  const overMs = outcomeDueMs(followed) ?? Date.parse(at) + outcomeTimeoutMs(state);
  if (overMs <= nowMs) {
    const until = new Date(overMs).toISOString();
    throw claimRefused(decisionId, `it might be claimed until ${until}`, "CLAIM_TIME_OVER");
  }
}

function claimRefused(decisionId: string, why: string, code: string, path?: string): ControlPlaneError {
  return new ControlPlaneError(ErrorReason.CLAIM_REFUSED, `decision \`${decisionId}\` may not be run: ${why}`, {
    decision_id: decisionId,
    code,
    ...(path === undefined ? {} : { decision_path: path }),
  });
}

function alreadyClaimed(decisionId: string): ControlPlaneError {
  const message = `decision \`${decisionId}\` is claimed under another \`claim_id\`; do not run its action`;
  return new ControlPlaneError(ErrorReason.ALREADY_CLAIMED, message, { decision_id: decisionId });
}
