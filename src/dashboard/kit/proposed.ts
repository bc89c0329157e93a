import { type Proposal, ProposalKind } from "../../../gen/agentcontrol/v1/resources_pb.js";
import type { Announcement } from "./toast.tsx";

/** Answer of a call that makes a change, or a proposal of it where the workspace reviews such changes. */
interface Answer {
  readonly proposal?: Proposal | undefined;
}

const CHANGES: Readonly<Record<number, string>> = {
  [ProposalKind.CREATE_MANDATE]: "Create mandate",
  [ProposalKind.UPDATE_MANDATE]: "Change mandate",
  [ProposalKind.RESTORE_MANDATE]: "Restore an older version of mandate",
  [ProposalKind.ARCHIVE_MANDATE]: "Archive mandate",
  [ProposalKind.APPLY_PACK]: "Apply pack",
  [ProposalKind.PUT_LIST]: "Set the values of list",
  [ProposalKind.ADD_LIST_VALUES]: "Add values to list",
  [ProposalKind.REMOVE_LIST_VALUES]: "Remove values from list",
  [ProposalKind.DELETE_LIST]: "Delete list",
  [ProposalKind.UPDATE_WORKSPACE]: "Change setting",
};

/** Says what a proposal would do, before the name of its subject. */
export const changeText = (kind: ProposalKind): string => CHANGES[kind] ?? "Change";

/** Says for whom a proposal waits: `Proposed; waits for 2 others`. */
export function waitText({ needed, acceptances }: Proposal): string {
  const left = needed - acceptances.length;
  return `Proposed; waits for ${left === 1 ? "another person" : `${left} others`}`;
}

/** Returns the address of a proposal's page. */
export const proposalHref = ({ proposalId }: Pick<Proposal, "proposalId">): string => `/proposals/${proposalId}`;

/** Tells of the proposal that waits in place of a change; undefined if the change was made. */
export function toldProposal({ proposal }: Answer): Announcement | undefined {
  if (proposal === undefined) return undefined;
  return {
    tone: "plain",
    text: waitText(proposal),
    link: { href: proposalHref(proposal), label: "Open the proposal" },
  };
}
