import {
  type ApprovalNeed,
  ApprovalObstacle,
  type Escalation,
  EscalationStatus,
} from "../../../../gen/agentcontrol/v1/escalation_service_pb.js";
import { shownText } from "../../kit/shown.tsx";

/** Groups that a sentence names. */
const MAX_GROUPS = 5;

const joined = (words: readonly string[], last: string): string =>
  words.length < 2 ? (words[0] ?? "") : `${words.slice(0, -1).join(", ")} ${last} ${words.at(-1)}`;

/** Names the groups of a demand: `finance or legal`. */
export function groupsText({ groups }: Pick<ApprovalNeed, "groups">): string {
  if (groups.length === 0) return "the operators";
  const named = groups.slice(0, MAX_GROUPS).map((name) => shownText(name, 63));
  return joined(groups.length > MAX_GROUPS ? [...named, `${groups.length - MAX_GROUPS} other groups`] : named, "or");
}

/** Returns the number of people whose approvals a demand misses. */
export const missingOf = ({ atLeast, given }: ApprovalNeed): number => Math.max(0, atLeast - given);

/** Tests whether rules name approvers, so that approvals are counted. */
export const hasApprovers = ({ approvalsNeeded }: Pick<Escalation, "approvalsNeeded">): boolean =>
  approvalsNeeded.some(({ groups, atLeast }) => groups.length > 0 || atLeast > 1);

/** Writes how many of the approvals are given: `1 of 2`; undefined where one person is enough. */
export function givenText({ approvalsNeeded }: Pick<Escalation, "approvalsNeeded">): string | undefined {
  const wanted = approvalsNeeded.reduce((sum, { atLeast }) => sum + atLeast, 0);
  const missing = approvalsNeeded.reduce((sum, need) => sum + missingOf(need), 0);
  return wanted < 2 || !hasApprovers({ approvalsNeeded }) ? undefined : `${wanted - missing} of ${wanted}`;
}

/** Writes what is missing: `1 more of finance and 2 more of legal`. */
export function missingText({ approvalsNeeded }: Pick<Escalation, "approvalsNeeded">): string {
  const missing = approvalsNeeded.filter((need) => missingOf(need) > 0);
  return joined([...new Set(missing.map((need) => `${missingOf(need)} more of ${groupsText(need)}`))], "and");
}

/** Why the signed-in person cannot usefully approve an escalation. */
export interface Standing {
  /** `data-obstacle` of the sentence. */
  readonly word: string;
  readonly text: string;
  /** True if the person has approved and may take it back. */
  readonly isGiven: boolean;
  /** True if the service takes no answer of the person, a rejection included. */
  readonly isShutOut: boolean;
}

function obstacleText(obstacle: ApprovalObstacle, escalation: Escalation): string {
  switch (obstacle) {
    case ApprovalObstacle.FOUR_EYES:
      return "You asked for this, or count as one who did. The workspace wants somebody else to answer.";
    case ApprovalObstacle.ASKED:
      return "You asked for this, or count as one who did. A rule wants others to approve; you may reject it.";
    case ApprovalObstacle.GIVEN:
      return `You approved; waiting for ${missingText(escalation)}.`;
    case ApprovalObstacle.MAKER:
      return "Somebody has approved who made your key, or whose key you made. The two of you count once; you may reject it.";
    case ApprovalObstacle.NO_OWNER:
      return "Your key has no owner, so its approval does not count here. Sign in as a person, or with a key that has an owner.";
    case ApprovalObstacle.MET:
      return `Enough of your groups have approved; waiting for ${missingText(escalation)}. You may reject it.`;
    default:
      return `Your approval does not count: you are not in ${neededText(escalation)}. You may reject it.`;
  }
}

const neededText = ({ approvalsNeeded }: Escalation): string =>
  joined([...new Set(approvalsNeeded.map(groupsText))], "or");

/** Returns why the signed-in person cannot usefully approve an escalation; undefined if they can, or if it is answered. */
export function standingOn(escalation: Escalation): Standing | undefined {
  const { status, awaitsCaller, approvalObstacle } = escalation;
  if (status !== EscalationStatus.PENDING || awaitsCaller !== false || approvalObstacle === undefined) return undefined;
  return {
    word: (ApprovalObstacle[approvalObstacle] ?? "").toLowerCase(),
    text: obstacleText(approvalObstacle, escalation),
    isGiven: approvalObstacle === ApprovalObstacle.GIVEN,
    isShutOut: approvalObstacle === ApprovalObstacle.FOUR_EYES,
  };
}
