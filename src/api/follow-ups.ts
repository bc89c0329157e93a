import type { MessageInitShape } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import type { DecisionUpdateSchema } from "../../gen/agentcontrol/v1/enforcement_service_pb.js";
import type { ActionOutcomeSchema, ClaimSchema } from "../../gen/agentcontrol/v1/resources_pb.js";
import { type FollowedDecision, outcomeDueMs } from "../log/follow-up.ts";
import type { NameOf } from "../registry/actor-names.ts";
import { awaitsConfirmation, type SealedClaim, type SealedOutcome } from "../state/outcomes.ts";
import { outcomeStatusMapping } from "./enum-mapping.ts";

const timestampFrom = (time: string) => timestampFromMs(Date.parse(time));

/** Lists the keys and people who claimed an action or reported its outcome. */
export function actorsOf({ receipt: { body }, claim, outcome, settlement }: FollowedDecision): readonly string[] {
  const claimed = body.claim_id === undefined ? claim?.claimed_by : body.key_id;
  return [claimed, reporterOf(settlement ?? outcome)].filter((id) => id !== undefined);
}

/** Returns the key or person in an entry about a decision; undefined if the service made it after the time was over. */
export function actorOf(sealed: SealedClaim | SealedOutcome): string | undefined {
  return sealed.type === "claim" ? sealed.claimed_by : reporterOf(sealed);
}

const reporterOf = (sealed: SealedOutcome | undefined): string | undefined =>
  sealed?.source === "timeout" ? undefined : sealed?.reported_by;

/** Returns the outcome of an action; undefined for one that is neither tracked nor reported. */
export function outcomeMessageFrom(
  followed: FollowedDecision,
  nameOf?: NameOf,
): MessageInitShape<typeof ActionOutcomeSchema> | undefined {
  const { outcome, settlement } = followed;
  const sealed = settlement ?? outcome;
  if (sealed === undefined) {
    const dueMs = outcomeDueMs(followed);
    if (dueMs === undefined) return undefined;
    return { status: outcomeStatusMapping.toProto.pending, dueAt: timestampFromMs(dueMs) };
  }
  return sealedOutcomeMessage(sealed, nameOf);
}

function sealedOutcomeMessage(sealed: SealedOutcome, nameOf?: NameOf): MessageInitShape<typeof ActionOutcomeSchema> {
  return {
    status: outcomeStatusMapping.toProto[sealed.status],
    amount: sealed.amount,
    reportedAt: timestampFrom(sealed.at),
    reportedBy: sealed.reported_by,
    reportedByName: nameOf?.(sealed.reported_by),
    error: sealed.error,
    resultDigest: sealed.result_digest,
    seq: BigInt(sealed.seq),
    awaitsConfirmation: awaitsConfirmation(sealed),
    ...(sealed.unknown_at === undefined ? {} : { unknownAt: timestampFrom(sealed.unknown_at) }),
  };
}

/** Returns the claim of an action; undefined while nobody has claimed it. */
export function claimMessageFrom(
  { receipt: { body }, claim }: FollowedDecision,
  nameOf?: NameOf,
): MessageInitShape<typeof ClaimSchema> | undefined {
  if (body.claim_id !== undefined) {
    const { claim_id: claimId, at, key_id: claimedBy, seq } = body;
    return { claimId, claimedAt: timestampFrom(at), claimedBy, claimedByName: nameOf?.(claimedBy), seq: BigInt(seq) };
  }
  return claim === undefined ? undefined : sealedClaimMessage(claim, nameOf);
}

function sealedClaimMessage({ claim_id: claimId, at, claimed_by: claimedBy, seq }: SealedClaim, nameOf?: NameOf) {
  return { claimId, claimedAt: timestampFrom(at), claimedBy, claimedByName: nameOf?.(claimedBy), seq: BigInt(seq) };
}

/** Converts a claim or an outcome to the message that watches send. */
export function decisionUpdateFrom(
  sealed: SealedClaim | SealedOutcome,
  nameOf?: NameOf,
): MessageInitShape<typeof DecisionUpdateSchema> {
  const { decision_id: decisionId, agent_id: agentId, action_type: actionType } = sealed;
  const update = { decisionId, agentId, actionType };
  if (sealed.type === "claim") return { ...update, claim: sealedClaimMessage(sealed, nameOf) };
  return { ...update, outcome: sealedOutcomeMessage(sealed, nameOf) };
}
