import { type Proposal, ProposalStatus } from "../../../../gen/agentcontrol/v1/resources_pb.js";
import { Badge, type Tone } from "../../kit/badge.tsx";

const STATES: Readonly<Record<number, readonly [Tone, string]>> = {
  [ProposalStatus.PENDING]: ["wait", "waiting"],
  [ProposalStatus.ACCEPTED]: ["good", "accepted"],
  [ProposalStatus.REJECTED]: ["bad", "rejected"],
  [ProposalStatus.EXPIRED]: ["plain", "expired"],
  [ProposalStatus.STALE]: ["plain", "out of date"],
};

/** State of a proposal. */
export function ProposalState({ proposal: { status } }: { readonly proposal: Proposal }) {
  const [tone, word] = STATES[status] ?? ["plain", "unknown"];
  return <Badge tone={tone}>{word}</Badge>;
}

/** Number of those who accepted a proposal, of those who must. */
export function Accepted({ proposal: { acceptances, needed } }: { readonly proposal: Proposal }) {
  return (
    <>
      {acceptances.length} of {needed}
    </>
  );
}
