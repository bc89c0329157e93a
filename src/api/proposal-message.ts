import type { MessageInitShape } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import type { ProposalSchema } from "../../gen/agentcontrol/v1/resources_pb.js";
import type { ActorNames, NameOf } from "../registry/actor-names.ts";
import type { ProposalView } from "../registry/proposals.ts";
import { proposalKindMapping, proposalStatusMapping } from "./enum-mapping.ts";
import { optionalTimestamp } from "./field-values.ts";

type ProposalMessage = MessageInitShape<typeof ProposalSchema>;

/** Writes proposals with the names of those who made and answered them. */
export async function proposalMessages(
  names: Pick<ActorNames, "find">,
  workspaceId: string,
  proposals: readonly ProposalView[],
): Promise<ProposalMessage[]> {
  const nameOf = await names.find(
    workspaceId,
    proposals.flatMap(({ createdBy, endedBy, acceptances }) => [
      createdBy,
      endedBy,
      ...acceptances.map(({ by }) => by),
    ]),
  );
  return proposals.map((proposal) => messageFrom(proposal, nameOf));
}

function messageFrom(proposal: ProposalView, nameOf: NameOf): ProposalMessage {
  const { proposalId, subject, needed, kind, target, createdBy, endedBy, endNote } = proposal;
  const isOfMandate = kind === "update_mandate" || kind === "restore_mandate" || kind === "archive_mandate";
  return {
    proposalId,
    subject,
    needed,
    createdBy,
    endedBy,
    endNote,
    kind: proposalKindMapping.toProto[kind],
    mandateId: isOfMandate ? target : undefined,
    status: proposalStatusMapping.toProto[proposal.status],
    acceptances: proposal.acceptances.map(({ by, atMs }) => ({
      acceptedBy: by,
      acceptedByName: nameOf(by),
      acceptedAt: timestampFromMs(atMs),
    })),
    createdByName: nameOf(createdBy),
    createdAt: timestampFromMs(proposal.createdAtMs),
    expiresAt: timestampFromMs(proposal.expiresAtMs),
    digest: proposal.changeDigest,
    seq: BigInt(proposal.createdSeq),
    endedByName: nameOf(endedBy),
    endedAt: optionalTimestamp(proposal.endedAtMs ?? null),
  };
}
