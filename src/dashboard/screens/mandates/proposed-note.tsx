import { useQuery } from "@connectrpc/connect-query";
import { Link } from "wouter";
import { ProposalService } from "../../../../gen/agentcontrol/v1/proposal_service_pb.js";
import { type Proposal, ProposalStatus } from "../../../../gen/agentcontrol/v1/resources_pb.js";
import { proposalHref, waitText } from "../../kit/proposed.ts";

/** Milliseconds between two looks while it waits. */
const LOOK_MS = 10_000;
const ENDS: Readonly<Record<number, string>> = {
  [ProposalStatus.ACCEPTED]: "Accepted: it is in force",
  [ProposalStatus.REJECTED]: "Rejected: nothing changed",
  [ProposalStatus.EXPIRED]: "Expired: nothing changed",
  [ProposalStatus.STALE]: "Out of date: something else changed first",
};

/** Says of a published text that it waits for others, or how that ended, and leads to its proposal. */
export function ProposedNote({ proposal: made }: { readonly proposal: Proposal }) {
  const { proposalId } = made;
  const query = useQuery(
    ProposalService.method.getProposal,
    { proposalId },
    {
      refetchInterval: ({ state: { data } }) =>
        (data?.proposal ?? made).status === ProposalStatus.PENDING ? LOOK_MS : false,
    },
  );
  const proposal = query.data?.proposal ?? made;
  const isWaiting = proposal.status === ProposalStatus.PENDING;
  return (
    <p role="status" className={isWaiting ? "proposed is-waiting" : "proposed"} data-proposed={proposalId}>
      {isWaiting ? `${waitText(proposal)}. What is in force stays until then.` : `${ENDS[proposal.status]}.`}{" "}
      <Link href={proposalHref(proposal)}>Open the proposal</Link>
    </p>
  );
}
