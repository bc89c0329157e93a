import type { AgentState } from "../state/agents.ts";
import type { AuthorityItem } from "../state/authority.ts";
import { isInForce } from "../state/authority-status.ts";
import type { Action, DecisionReason, PermissionsResult } from "../state/types.ts";
import type { WorkspaceState } from "../state/workspace.ts";
import type { Identity } from "./identity.ts";

/** Finds the open temporal window of an agent that admits an action type: the first to close, ties by id. */
function openWindow(
  { authority }: WorkspaceState,
  { agentId }: AgentState,
  normalisedType: string,
  nowMs: number,
): AuthorityItem | undefined {
  let first: AuthorityItem | undefined;
  const endOf = ({ sealed }: AuthorityItem): number => sealed.expires_at_ms ?? Number.POSITIVE_INFINITY;
  for (const window of authority.heldBy(agentId, "temporal_window")) {
    if (!isInForce(window, nowMs) || !window.admits?.matches(normalisedType)) continue;
    const isEarlier = first === undefined || endOf(window) < endOf(first);
    const isTie = first !== undefined && endOf(window) === endOf(first) && window.sealed.id < first.sealed.id;
    if (isEarlier || isTie) first = window;
  }
  return first;
}

/** Result of checking an action against permissions, with the reason of a refusal. */
export interface PermissionsCheck {
  readonly result: PermissionsResult;
  readonly reason: DecisionReason | undefined;
  /** The temporal window that admits an action outside the lists. */
  readonly window: AuthorityItem | undefined;
}

const ADMITTED: PermissionsCheck = { result: "admitted", reason: undefined, window: undefined };

function denied(whose: string, actionType: string): PermissionsCheck {
  const message = `\`${actionType}\` is among ${whose} denied action types`;
  return { result: "denied", reason: { code: "ACTION_DENIED", message }, window: undefined };
}

function notListed(whose: string, { registration }: AgentState, actionType: string): PermissionsCheck {
  const message = `\`${actionType}\` is in neither ${whose} allowed action types nor its capabilities`;
  const { allowed_action_types, capabilities } = registration;
  const listed = [...new Set([...allowed_action_types, ...capabilities])].slice(0, 5).map((type) => `\`${type}\``);
  return {
    result: "not_listed",
    reason: { code: "ACTION_NOT_ALLOWED", message: `${message}: ${listed.join(", ")}` },
    window: undefined,
  };
}

/** Checks one agent's own lists: denied types first, then the allow-list and capabilities, then its open windows. */
function checkLists(
  state: WorkspaceState,
  agent: AgentState,
  { actionType, normalisedType }: Action,
  whose: string,
  nowMs: number,
): PermissionsCheck {
  if (agent.denied.matches(normalisedType)) return denied(whose, actionType);
  if (agent.admitted === null || agent.admitted.matches(normalisedType)) return ADMITTED;
  const window = openWindow(state, agent, normalisedType, nowMs);
  return window === undefined ? notListed(whose, agent, actionType) : { ...ADMITTED, window };
}

/**
 * Checks an action against permissions. On behalf of a principal, the lent authority takes the place of the actor's allow-list:
 * the principal's own permissions must admit the action, and the denials of the actor and of everyone who lent a part of the
 * authority still hold.
 */
export function checkPermissions(
  state: WorkspaceState,
  agent: AgentState,
  { principal, grantors }: Identity,
  action: Action,
  nowMs: number,
): PermissionsCheck {
  if (principal === undefined) return checkLists(state, agent, action, "the agent's", nowMs);
  if (agent.denied.matches(action.normalisedType)) return denied("the agent's", action.actionType);
  const denying = grantors.find((each) => each !== principal && each.denied.matches(action.normalisedType));
  if (denying !== undefined) return denied(`grantor \`${denying.agentId}\`'s`, action.actionType);
  return checkLists(state, principal, action, "the principal's", nowMs);
}
