import type { MessageInitShape } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import type { DecisionUpdateSchema } from "../../gen/agentcontrol/v1/enforcement_service_pb.js";
import type { ActionOutcomeSchema, ClaimSchema } from "../../gen/agentcontrol/v1/resources_pb.js";
import { type FollowedDecision, outcomeDueMs } from "../log/follow-up.ts";
import { awaitsConfirmation, type SealedClaim, type SealedOutcome } from "../state/outcomes.ts";
import { outcomeStatusMapping } from "./enum-mapping.ts";

const timestampFrom = (time: string) => timestampFromMs(Date.parse(time));

/** Returns the outcome of an action; undefined for one that is neither tracked nor reported. */
export function outcomeMessageFrom(
  followed: FollowedDecision,
): MessageInitShape<typeof ActionOutcomeSchema> | undefined {
  const { outcome, settlement } = followed;
  const sealed = settlement ?? outcome;
  if (sealed === undefined) {
    const dueMs = outcomeDueMs(followed);
    if (dueMs === undefined) return undefined;
    return { status: outcomeStatusMapping.toProto.pending, dueAt: timestampFromMs(dueMs) };
  }
  return sealedOutcomeMessage(sealed);
}

function sealedOutcomeMessage(sealed: SealedOutcome): MessageInitShape<typeof ActionOutcomeSchema> {
  return {
    status: outcomeStatusMapping.toProto[sealed.status],
    amount: sealed.amount,
    reportedAt: timestampFrom(sealed.at),
    reportedBy: sealed.reported_by,
    error: sealed.error,
    resultDigest: sealed.result_digest,
    seq: BigInt(sealed.seq),
    awaitsConfirmation: awaitsConfirmation(sealed),
    ...(sealed.unknown_at === undefined ? {} : { unknownAt: timestampFrom(sealed.unknown_at) }),
  };
}

/** Returns the claim of an action; undefined while nobody has claimed it. */
export function claimMessageFrom({
  receipt: { body },
  claim,
}: FollowedDecision): MessageInitShape<typeof ClaimSchema> | undefined {
  if (body.claim_id !== undefined) {
    const { claim_id: claimId, at, key_id: claimedBy, seq } = body;
    return { claimId, claimedAt: timestampFrom(at), claimedBy, seq: BigInt(seq) };
  }
  return claim === undefined ? undefined : sealedClaimMessage(claim);
}

function sealedClaimMessage({ claim_id: claimId, at, claimed_by: claimedBy, seq }: SealedClaim) {
  return { claimId, claimedAt: timestampFrom(at), claimedBy, seq: BigInt(seq) };
}

/** Converts a claim or an outcome to the message that watches send. */
export function decisionUpdateFrom(sealed: SealedClaim | SealedOutcome): MessageInitShape<typeof DecisionUpdateSchema> {
  const { decision_id: decisionId, agent_id: agentId, action_type: actionType } = sealed;
  const update = { decisionId, agentId, actionType };
  if (sealed.type === "claim") return { ...update, claim: sealedClaimMessage(sealed) };
  return { ...update, outcome: sealedOutcomeMessage(sealed) };
}
