import type { AgentState } from "../state/agents.ts";
import { type AuthorityItem, chainOf } from "../state/authority.ts";
import { isInForce, isUsedUp, itemStatus } from "../state/authority-status.ts";
import type { Action } from "../state/types.ts";
import type { WorkspaceState } from "../state/workspace.ts";
import { type Refusal, refusal } from "./verdict.ts";

/** Lent authority: the grants from the actor's own up to the first of the chain. */
export type GrantChain = readonly AuthorityItem[];

/** Verified authority of an action: every part of it is in force. */
export interface Identity {
  /** Lenders of the authority, the principal first; empty when the actor acts for itself. */
  readonly grantors: readonly AgentState[];
  /** The agent that the action is for; undefined when the actor acts for itself. */
  readonly principal: AgentState | undefined;
  /** Grants from the actor's up to the principal's; empty when the actor acts for itself. */
  readonly chain: GrantChain;
  /** The federation token that the call came with. */
  readonly token: AuthorityItem | undefined;
}

/** Result of checking the identity of an action. */
export type IdentityCheck =
  | { readonly kind: "holds"; readonly identity: Identity }
  | ({ readonly kind: "refused" } & Refusal);

/**
 * Checks every authority that an action claims: the principal with its grants, the session, and the credential or token of the
 * call. Authority that is unknown, has ended or belongs to another agent refuses the action; it is never ignored.
 */
export function checkIdentity(state: WorkspaceState, action: Action, nowMs: number): IdentityCheck {
  const delegation = checkDelegation(state, action, nowMs);
  if (delegation.kind !== "lent") return delegation;
  const session = checkSession(state, action, nowMs);
  if (session !== undefined) return session;
  const credential = checkCredential(state, action, nowMs);
  if (credential.kind !== "open") return credential;
  const { principal, chain } = delegation;
  const grantors = principal === undefined ? [] : grantorsOf(state, principal, chain);
  return { kind: "holds", identity: { grantors, principal, chain, token: credential.token } };
}

function grantorsOf({ agents }: WorkspaceState, principal: AgentState, chain: GrantChain): readonly AgentState[] {
  const lenders = chain.flatMap(({ sealed }) => agents.get(sealed.grantor_agent_id ?? "") ?? []);
  return [...new Set([principal, ...lenders])];
}

/** Checks that the actor may act for the principal, or the grant, that the action names. */
function checkDelegation(
  state: WorkspaceState,
  action: Action,
  nowMs: number,
): IdentityCheck | { principal: AgentState | undefined; chain: GrantChain; kind: "lent" } {
  const { grantId, agentId, onBehalfOf } = action;
  if (onBehalfOf === undefined && grantId === undefined) return { kind: "lent", principal: undefined, chain: [] };
  const principalId = principalIdOf(state, action);
  if (principalId === undefined) {
    return refusal("delegation", "GRANT_UNKNOWN", `grant \`${grantId}\` does not exist for this agent, or has ended`);
  }
  const principal = state.agents.get(principalId);
  if (principal?.status === "revoked") {
    return refusal("revoked", "PRINCIPAL_REVOKED", `principal \`${principalId}\` is revoked and lends no authority`);
  }
  const isReplay = action.replayOf !== undefined;
  const delegated = { actorId: agentId, principalId, grantId, normalisedType: action.normalisedType, isReplay };
  const chain = principal === undefined ? undefined : findChain(state, delegated, nowMs);
  if (grantId !== undefined && onBehalfOf === undefined && state.authority.get(grantId) === undefined) {
    return refusal("delegation", "GRANT_UNKNOWN", `grant \`${grantId}\` has ended`);
  }
  if (principal === undefined || chain === undefined) {
    const message = `no active grant lets the agent do \`${action.actionType}\` for \`${principalId}\``;
    return refusal("delegation", "GRANT_MISSING", message);
  }
  return { kind: "lent", principal, chain };
}

/** Returns the id of the agent that the action is for: the named one, else the lender of the named grant. */
function principalIdOf({ authority }: WorkspaceState, { onBehalfOf, grantId, agentId }: Action): string | undefined {
  if (onBehalfOf !== undefined || grantId === undefined) return onBehalfOf;
  const grant = authority.get(grantId);
  // A grant without a named principal acts for the agent that lent it.
  if (grant !== undefined) return grant.sealed.agent_id === agentId ? grant.sealed.grantor_agent_id : undefined;
  const ended = authority.endedGrants.get(grantId)?.grant;
  return ended?.agentId === agentId ? ended.grantorAgentId : undefined;
}

/** True if every grant of a chain holds at a time and admits an action type (normalised). */
function chainAdmits(chain: GrantChain, normalisedType: string, nowMs: number): boolean {
  return chain.every((grant) => isInForce(grant, nowMs) && admits(grant, normalisedType));
}

const admits = (grant: AuthorityItem, normalisedType: string): boolean =>
  grant.admits?.matches(normalisedType) ?? false;

/** One action that an actor attempts under lent authority. */
interface DelegatedAction {
  readonly actorId: string;
  readonly principalId: string;
  /** Grant to use. Undefined: any grant that fits. */
  readonly grantId: string | undefined;
  readonly normalisedType: string;
  /** True for a retry, whose first attempt may have been the last use of a grant. */
  readonly isReplay?: boolean;
}

/** Finds a chain of grants that lets an actor act for a principal now. */
function findChain({ authority }: WorkspaceState, action: DelegatedAction, nowMs: number): GrantChain | undefined {
  for (const grant of authority.grantsFor(action.actorId, action.principalId)) {
    if (action.grantId !== undefined && grant.sealed.id !== action.grantId) continue;
    const chain = chainOf(grant);
    if (chainAdmits(chain, action.normalisedType, nowMs)) return chain;
    if (action.isReplay !== true) continue;
    const stands = (each: AuthorityItem): boolean => isInForce(each, nowMs) || isUsedUp(each, nowMs);
    if (chain.every((each) => stands(each) && admits(each, action.normalisedType))) return chain;
  }
  return undefined;
}

/** Tests that authority is in force. For a retry it may be used up, because the first attempt may have been its last use. */
function holds(item: AuthorityItem, { replayOf }: Action, nowMs: number): boolean {
  return isInForce(item, nowMs) || (replayOf !== undefined && isUsedUp(item, nowMs));
}

/** Finds authority that the action names; undefined if it belongs to another agent or has ended. */
function ownItem({ authority }: WorkspaceState, id: string, agentId: string): AuthorityItem | undefined {
  const item = authority.get(id);
  return item?.sealed.agent_id === agentId ? item : undefined;
}

/** Checks the session that the action names. */
function checkSession(state: WorkspaceState, action: Action, nowMs: number): IdentityCheck | undefined {
  const { sessionId, agentId } = action;
  if (sessionId === undefined) return undefined;
  const session = sessionId.startsWith("ses_") ? ownItem(state, sessionId, agentId) : undefined;
  if (session === undefined) {
    return refusal(
      "session",
      "SESSION_UNKNOWN",
      `session \`${sessionId}\` does not exist for this agent, or has ended`,
    );
  }
  if (holds(session, action, nowMs)) return undefined;
  return refusal("session", "SESSION_EXPIRED", `session \`${sessionId}\` has expired`);
}

/** Checks the credential or token that the call came with; keys of the workspace are checked before deciding. */
function checkCredential(
  state: WorkspaceState,
  action: Action,
  nowMs: number,
): IdentityCheck | { readonly kind: "open"; readonly token: AuthorityItem | undefined } {
  const { keyId, agentId, actionType, normalisedType } = action;
  const isToken = keyId.startsWith("fed_");
  if (!isToken && !keyId.startsWith("crd_")) return { kind: "open", token: undefined };
  const what = isToken ? "federation token" : "credential";
  const item = ownItem(state, keyId, agentId);
  if (item === undefined) return refusal("credential", "CREDENTIAL_ENDED", `the ${what} has ended`);
  if (!holds(item, action, nowMs)) {
    const standing = itemStatus(item, nowMs) === "used_up" ? "is used up" : "has expired";
    return refusal("credential", "CREDENTIAL_EXPIRED", `the ${what} ${standing}`);
  }
  if (item.admits !== null && !item.admits.matches(normalisedType)) {
    return refusal("credential", "ACTION_NOT_ALLOWED", `the ${what} does not cover \`${actionType}\``);
  }
  return { kind: "open", token: isToken ? item : undefined };
}

/**
 * Tests whether the key of a call has ended: a credential or token that ended, expired or was used up, or an API key that ended
 * with its agent. Its calls are blocked, and change neither trust nor counters.
 */
export function isKeyEnded(state: WorkspaceState, { keyId, agentId, isKeyBound }: Action, nowMs: number): boolean {
  if (keyId.startsWith("crd_") || keyId.startsWith("fed_")) {
    const item = state.authority.get(keyId);
    return item === undefined || !isInForce(item, nowMs);
  }
  return isKeyBound === true && state.agents.get(agentId)?.status === "revoked";
}
