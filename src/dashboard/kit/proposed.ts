import type { Proposal } from "../../../gen/agentcontrol/v1/resources_pb.js";

/** Answer of a call that makes a change, or a proposal of it where the workspace reviews such changes. */
interface Answer {
  readonly proposal?: Proposal | undefined;
}

/** Tells of the proposal that waits in place of a change; undefined if the change was made. */
export function proposedText({ proposal }: Answer): string | undefined {
  if (proposal === undefined) return undefined;
  const { needed, proposalId } = proposal;
  return `Proposed as ${proposalId}: ${needed === 1 ? "another person" : `${needed} others`} must accept it`;
}
