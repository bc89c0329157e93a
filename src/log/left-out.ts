/*
 * Members that the body of a decision leaves out because they follow from the others. `entry.ts` omits them, `receipts.ts` restores
 * them, and the guide of this folder lists them for readers of the text.
 */

/** Form of the bodies that are written now, their member `v`. Bodies of the first form have no such member, and omit fewer members. */
export const BODY_VERSION = 2;

/** Step that decided where no mandate matched. */
export const USUAL_PATH = "default";
/** Result of the permission check that lets an action pass. */
export const USUAL_PERMISSIONS = "admitted";
/** Rule of a mandate that has one. */
export const USUAL_RULE = "rules[0]";
/** Source of a counter. */
export const USUAL_SOURCE = "decision_log";
/** Members of the group of a limit on an agent. */
export const USUAL_MEMBERS = 1;

/** Workspace and acting agent of a decision: the usual groups of its limits. */
export interface LimitOwner {
  readonly workspaceId: string;
  readonly agentId: string;
}

/** Returns the group of a limit that names none: the workspace, or the agent that acts. */
export const usualGroup = (scope: string, { workspaceId, agentId }: LimitOwner): string =>
  scope === "workspace" ? workspaceId : agentId;

/** Returns the scope of a limit that names none, by the group that it names. */
export const usualScope = (group: string | undefined): string =>
  group?.startsWith("dep_") === true ? "department" : "agent";
