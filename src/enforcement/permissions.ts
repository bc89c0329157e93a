import type { Action, AgentState, DecisionReason, PermissionsResult } from "../ledger/index.ts";

/** What an agent's own permissions say of an action, and why when they refuse it. */
export interface PermissionsCheck {
  readonly result: PermissionsResult;
  readonly reason: DecisionReason | undefined;
}

const ADMITTED: PermissionsCheck = { result: "admitted", reason: undefined };

/** Checks an action against denied types first, then against the allow-list and capabilities where there are any. */
export function checkPermissions(agent: AgentState, { actionType, normalisedType }: Action): PermissionsCheck {
  if (agent.denied.matches(normalisedType)) {
    const message = `\`${actionType}\` is among the agent's denied action types`;
    return { result: "denied", reason: { code: "ACTION_DENIED", message } };
  }
  if (agent.admitted === null || agent.admitted.matches(normalisedType)) return ADMITTED;
  const message = `\`${actionType}\` is in neither the agent's allowed action types nor its capabilities`;
  const { allowed_action_types, capabilities } = agent.registration;
  const listed = [...new Set([...allowed_action_types, ...capabilities])].slice(0, 5).map((type) => `\`${type}\``);
  const wouldPass = `would pass as one of ${listed.join(", ")}`;
  return { result: "not_listed", reason: { code: "ACTION_NOT_ALLOWED", message, wouldPass } };
}
