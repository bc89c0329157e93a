import type { Steps } from "../log/batch.ts";
import { Checks } from "../policy/checks.ts";
import { argumentsFrom, normaliseName, toolKey, toolNameFrom } from "../policy/names.ts";
import type { ReasonCode } from "../policy/reason-codes.ts";
import type { Decision, EvaluationContext, PolicyResult, ToolSchema } from "../policy/types.ts";
import type { AgentState } from "../state/agents.ts";
import { type AuthorityItem, chainOf } from "../state/authority.ts";
import { isInForce, isUsedUp, itemStatus } from "../state/authority-status.ts";
import { isCounted, trustAfter } from "../state/fold.ts";
import {
  type Action,
  DEFAULT_REASONS,
  type DecisionPath,
  type DecisionReason,
  type Outcome,
  type PermissionsResult,
} from "../state/types.ts";
import type { StateJournal, WorkspaceState } from "../state/workspace.ts";
import { actionDigest, askApproval, checkApproval } from "./approval.ts";

/** One action to decide, with everything that the steps look at. */
interface Attempt {
  readonly state: WorkspaceState;
  readonly action: Action;
  readonly agent: AgentState;
  readonly toolName: string | undefined;
  readonly tool: ToolSchema | undefined;
  readonly nowMs: number;
  readonly journal: StateJournal;
}

/** The result of the steps. The other members of an outcome follow from it. */
type Verdict = Pick<Outcome, "decision" | "path" | "reasons" | "permissions"> &
  Partial<Pick<Outcome, "policy" | "policyName" | "authority" | "principalId" | keyof typeof NO_APPROVAL>>;

const NO_NAMES: readonly string[] = [];

/** Members of the outcome of an action that neither asks for an approval nor presents one. */
const NO_APPROVAL = {
  actionDigest: undefined,
  digestIgnores: NO_NAMES,
  usedEscalationId: undefined,
  escalationId: undefined,
  escalationExpiresAtMs: undefined,
  replacedEscalationId: undefined,
} satisfies Partial<Outcome>;

/**
 * Decides one action against the state of its workspace. Synchronous, and pure but for the journal, in which counters note
 * the entries they built so that a batch can be rolled back. The agent MUST be in the state.
 */
export function decide(state: WorkspaceState, action: Action, nowMs: number, journal: StateJournal): Outcome {
  const attempt = attemptFrom(state, action, nowMs, journal);
  return outcomeFrom(attempt, verdictOf(attempt));
}

/** Returns the steps that the log takes when the action's turn has come. */
export function steps(action: Action): Steps {
  return { decide: (state, nowMs, journal) => decide(state, action, nowMs, journal), refuseReplay };
}

/**
 * Checks whether a repeated request may still have its first decision, `action.replayOf`: status, principal, session and key
 * are checked as they are now. Returns the refusal to seal; undefined if nothing refuses.
 */
function refuseReplay(state: WorkspaceState, action: Action, nowMs: number): Outcome | undefined {
  const attempt = attemptFrom(state, action, nowMs, { undo: [] });
  const identified = identify(attempt);
  return identified.kind === "refused" ? outcomeFrom(attempt, refuse(identified)) : undefined;
}

function attemptFrom(state: WorkspaceState, action: Action, nowMs: number, journal: StateJournal): Attempt {
  const agent = state.agents.get(action.agentId);
  if (agent === undefined) throw new Error(`agent \`${action.agentId}\` is not in the state`);
  const { policies } = state;
  const named = toolNameFrom(
    action.tool,
    action.metadata,
    action.actionType,
    (name) => policies.tool(name) !== undefined,
  );
  const tool = named === undefined ? undefined : policies.tool(named)?.schema;
  const toolName = tool?.name ?? named;
  return { state, action, agent, toolName, tool, nowMs, journal };
}

function outcomeFrom({ state, action, agent, toolName, tool, nowMs }: Attempt, verdict: Verdict): Outcome {
  const keyEnded = { isKeyEnded: isKeyEnded(state, action, nowMs) };
  const counts = isCounted(action, keyEnded);
  return {
    policy: undefined,
    policyName: undefined,
    ...NO_APPROVAL,
    authority: NO_NAMES,
    principalId: undefined,
    ...verdict,
    agentName: agent.registration.name,
    policyDigest: state.policies.policySet().digest,
    toolName,
    tool,
    trustBeforeTenths: agent.trustTenths,
    cappedTrustTenths: cappedTrust(state, action, agent),
    trustAfterTenths: counts ? trustAfter(agent.trustTenths, verdict.decision) : agent.trustTenths,
    ...keyEnded,
  };
}

/** Takes the steps in order: status, authority, permissions, contract, tool policies, mandates. The first refusal ends it. */
function verdictOf(attempt: Attempt): Verdict {
  const { state, agent, action, toolName, nowMs } = attempt;
  const identified = identify(attempt);
  if (identified.kind === "refused") return refuse(identified);
  const { identity } = identified;
  const { result, reason, window } = checkPermissions(state, agent, identity, action, nowMs);
  if (reason !== undefined) return refuse({ path: "permissions", reason }, result);
  const contracted = checkContract(state, action, toolName, nowMs);
  if (contracted.kind === "refused") return refuse(contracted, "admitted");
  const contract = contracted.kind === "inside" ? contracted.contract : undefined;
  const authority = idsOf([...identity.chain, window, contract, identity.token]);
  const principalId = action.onBehalfOf === undefined ? identity.principal?.agentId : undefined;
  return { ...applyPolicies(attempt, identity), authority, principalId };
}

/** Checks the agent's status, then the authority that the action claims. */
function identify({ state, agent, action, nowMs }: Attempt): IdentityCheck {
  if (agent.status === "active") return checkIdentity(state, action, nowMs);
  const reason: DecisionReason = { code: "AGENT_REVOKED", message: `the agent is ${agent.status}` };
  return { kind: "refused", path: "revoked", reason };
}

/** Applies tool policies, then mandates. A call that a tool policy escalates and a person approved still has to pass the mandates. */
function applyPolicies(attempt: Attempt, identity: Identity): Verdict {
  const ofTool = toolPolicyVerdict(attempt);
  if (ofTool === undefined) return applyApproval(attempt, policyVerdict(attempt, identity));
  const approved = applyApproval(attempt, ofTool);
  if (approved.decision !== "allow") return approved;
  const ofMandates = policyVerdict(attempt, identity);
  if (ofMandates.decision === "block") return ofMandates;
  return { ...approved, policy: ofMandates.policy };
}

/** Applies what holds for the tool itself: the stricter of the MCP tool policies and the setting for unknown tools. */
function toolPolicyVerdict(attempt: Attempt): Verdict | undefined {
  const ofServer = mcpToolVerdict(attempt);
  const ofUnknown = ofServer?.decision === "block" ? undefined : unknownToolVerdict(attempt);
  return ofServer === undefined || ofUnknown?.decision === "block" ? ofUnknown : ofServer;
}

/** Applies the workspace's setting to a call that names a tool which is not registered; undefined if it allows the call. */
function unknownToolVerdict({ state, tool, toolName }: Attempt): Verdict | undefined {
  const decision = state.settings.unknown_tools as Decision;
  if (decision === "allow" || toolName === undefined || tool !== undefined) return undefined;
  const message = `tool \`${toolName}\` is not registered; register it, or name one that is`;
  const reasons: DecisionReason[] = [{ code: "TOOL_UNKNOWN", message }];
  return { decision, path: "unknown_tool", reasons, permissions: "admitted" };
}

/** Applies the policies for MCP tools; undefined if none of them refuses the call. */
function mcpToolVerdict({ state, action, toolName }: Attempt): Verdict | undefined {
  const found = checkToolPolicies(state, action, toolName);
  if (found === undefined) return undefined;
  const { decision, policy } = found;
  const verb = decision === "block" ? "blocks" : "escalates";
  const message = `MCP tool policy \`${policy.sealed.id}\` ${verb} tool \`${toolName ?? action.actionType}\``;
  const reasons: DecisionReason[] = [{ code: "MCP_TOOL_POLICY", message }];
  return { decision, path: "mcp_tool_policy", reasons, permissions: "admitted" };
}

/** Evaluates the mandates. Without a rule that fires, the workspace's default decides. */
function policyVerdict(attempt: Attempt, identity: Identity): Verdict {
  const permissions = "admitted";
  const policy = evaluatePolicy(attempt, identity);
  if (policy.decision === undefined) {
    const decision = attempt.state.settings.default_decision as Decision;
    return { decision, path: "default", reasons: DEFAULT_REASONS[decision], permissions, policy };
  }
  const policyName = policy.winner?.mandate.name;
  return { decision: policy.decision, path: "policy", reasons: policy.reasons, permissions, policy, policyName };
}

function evaluatePolicy(attempt: Attempt, { grantors }: Identity): PolicyResult {
  return attempt.state.policies.policySet().evaluate(contextFrom(attempt, grantors));
}

/** Returns what the rules look at in an action, also in one that an earlier step refuses. */
export function contextOf(
  state: WorkspaceState,
  action: Action,
  nowMs: number,
  journal: StateJournal,
): EvaluationContext {
  const attempt = attemptFrom(state, action, nowMs, journal);
  const identified = identify(attempt);
  return contextFrom(attempt, identified.kind === "refused" ? [] : identified.identity.grantors);
}

function contextFrom(attempt: Attempt, grantors: Identity["grantors"]): EvaluationContext {
  const { state, action, agent, tool, toolName, nowMs, journal } = attempt;
  return {
    agentId: agent.agentId,
    departmentIds: agent.departmentIds,
    actionType: action.normalisedType,
    actionContent: action.actionContent,
    tool,
    toolName,
    arguments: argumentsFrom(action.metadata),
    metadata: action.metadata,
    trustTenths: cappedTrust(state, action, agent) ?? agent.trustTenths,
    nowMs,
    checks: new Checks(action.longAnswers),
    counterValue: (spec) => state.windows.read(spec, agent.agentId, nowMs),
    sequenceStartedAtMs: (spec) => state.sequences.read(spec, agent.agentId, nowMs, journal.undo),
    guardAnswerFor: action.answers && ((spec) => action.answers?.get(spec.key)),
    principals: grantors.length === 0 ? undefined : grantors,
    defaultDecision: state.settings.default_decision as Decision,
  };
}

/** Returns the cap that the federation token of the call puts on the agent's trust; undefined if it takes nothing away. */
function cappedTrust(
  { authority }: WorkspaceState,
  { keyId }: Action,
  { trustTenths }: AgentState,
): number | undefined {
  const cap = keyId.startsWith("fed_") ? authority.get(keyId)?.sealed.max_trust_tenths : undefined;
  return cap !== undefined && cap < trustTenths ? cap : undefined;
}

/** Turns an escalation into `allow` if the action presents an unused approval of this very action; else asks for one. */
function applyApproval(attempt: Attempt, verdict: Verdict): Verdict {
  if (verdict.decision !== "escalate") return verdict;
  const { state, action, tool, toolName, nowMs } = attempt;
  const { digest, ignored } = actionDigest(action, toolName, tool, state.settings.approval_ignores);
  const approval = checkApproval(state, action, digest, nowMs);
  const escalated = { ...verdict, actionDigest: digest, digestIgnores: ignored };
  if (approval === undefined) return askFor(attempt, escalated, digest);
  if (approval.kind === "unusable") {
    const replacedEscalationId = approval.spent?.escalationId;
    return askFor(
      attempt,
      { ...escalated, reasons: [...verdict.reasons, approval.reason], replacedEscalationId },
      digest,
    );
  }
  const { escalationId } = approval.escalation;
  const reason: DecisionReason = { code: "APPROVED", message: `escalation \`${escalationId}\` approved this action` };
  const reasons = [reason, ...verdict.reasons];
  return { ...escalated, decision: "allow", path: "approved", reasons, usedEscalationId: escalationId };
}

/** Joins or creates the escalation of an action. Blocks it when too many of the agent's are pending. */
function askFor({ state, action, nowMs }: Attempt, verdict: Verdict, digest: string): Verdict {
  const ttlSeconds = verdict.policy?.winner?.rule.source.escalationTtlSeconds;
  const result = askApproval(state, action, digest, nowMs, ttlSeconds);
  if (result.kind === "asked") return { ...verdict, ...result.asked };
  const reasons = [result.reason, ...verdict.reasons];
  return { ...verdict, decision: "block", reasons, replacedEscalationId: undefined };
}

function refuse({ path, reason }: Refusal, permissions: Outcome["permissions"] = "not_evaluated"): Verdict {
  return { decision: "block", path, reasons: [reason], permissions };
}

const idsOf = (items: readonly (AuthorityItem | undefined)[]): string[] =>
  items.flatMap((item) => (item === undefined ? [] : [item.sealed.id]));

// The checks of who acts and under what authority, in the order in which they are made. Each is a pure function of the state,
// the action and the time.

/** Refusal of an action by one of the steps. */
export interface Refusal {
  readonly path: DecisionPath;
  readonly reason: DecisionReason;
}

/** The authority that an action is attempted under, after every part of it was found to hold. */
export interface Identity {
  /** Everyone who lent a part of the authority, the principal first; empty when the actor acts for itself. */
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

const refused = (path: DecisionPath, code: ReasonCode, message: string): IdentityCheck => ({
  kind: "refused",
  path,
  reason: { code, message },
});

function principalIdOf({ authority }: WorkspaceState, { onBehalfOf, grantId, agentId }: Action): string | undefined {
  if (onBehalfOf !== undefined || grantId === undefined) return onBehalfOf;
  const grant = authority.get(grantId);
  // A grant without a named principal acts for the agent that lent it.
  if (grant !== undefined) return grant.sealed.agent_id === agentId ? grant.sealed.grantor_agent_id : undefined;
  const ended = authority.endedGrants.get(grantId)?.grant;
  return ended?.agentId === agentId ? ended.grantorAgentId : undefined;
}

function checkDelegation(
  state: WorkspaceState,
  action: Action,
  nowMs: number,
): IdentityCheck | { principal: AgentState | undefined; chain: GrantChain; kind: "lent" } {
  const { grantId, agentId, onBehalfOf } = action;
  if (onBehalfOf === undefined && grantId === undefined) return { kind: "lent", principal: undefined, chain: [] };
  const principalId = principalIdOf(state, action);
  if (principalId === undefined) {
    return refused("delegation", "GRANT_UNKNOWN", `grant \`${grantId}\` does not exist for this agent, or has ended`);
  }
  const principal = state.agents.get(principalId);
  if (principal?.status === "revoked") {
    return refused("revoked", "PRINCIPAL_REVOKED", `principal \`${principalId}\` is revoked and lends no authority`);
  }
  const isReplay = action.replayOf !== undefined;
  const delegated = { actorId: agentId, principalId, grantId, normalisedType: action.normalisedType, isReplay };
  const chain = principal === undefined ? undefined : findChain(state, delegated, nowMs);
  if (grantId !== undefined && onBehalfOf === undefined && state.authority.get(grantId) === undefined) {
    return refused("delegation", "GRANT_UNKNOWN", `grant \`${grantId}\` has ended`);
  }
  if (principal === undefined || chain === undefined) {
    const message = `no active grant lets the agent do \`${action.actionType}\` for \`${principalId}\``;
    return refused("delegation", "GRANT_MISSING", message);
  }
  return { kind: "lent", principal, chain };
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

function checkSession(state: WorkspaceState, action: Action, nowMs: number): IdentityCheck | undefined {
  const { sessionId, agentId } = action;
  if (sessionId === undefined) return undefined;
  const session = sessionId.startsWith("ses_") ? ownItem(state, sessionId, agentId) : undefined;
  if (session === undefined) {
    return refused(
      "session",
      "SESSION_UNKNOWN",
      `session \`${sessionId}\` does not exist for this agent, or has ended`,
    );
  }
  if (holds(session, action, nowMs)) return undefined;
  return refused("session", "SESSION_EXPIRED", `session \`${sessionId}\` has expired`);
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
  if (item === undefined) return refused("credential", "CREDENTIAL_ENDED", `the ${what} has ended`);
  if (!holds(item, action, nowMs)) {
    const standing = itemStatus(item, nowMs) === "used_up" ? "is used up" : "has expired";
    return refused("credential", "CREDENTIAL_EXPIRED", `the ${what} ${standing}`);
  }
  if (item.admits !== null && !item.admits.matches(normalisedType)) {
    return refused("credential", "ACTION_NOT_ALLOWED", `the ${what} is not good for \`${actionType}\``);
  }
  return { kind: "open", token: isToken ? item : undefined };
}

/**
 * Tests whether the key of a call has ended: a credential or token that ended, expired or was used up, or an API key that ended
 * with its agent. Its calls are blocked, and cost the agent nothing.
 */
export function isKeyEnded(state: WorkspaceState, { keyId, agentId, isKeyBound }: Action, nowMs: number): boolean {
  if (keyId.startsWith("crd_") || keyId.startsWith("fed_")) {
    const item = state.authority.get(keyId);
    return item === undefined || !isInForce(item, nowMs);
  }
  return isKeyBound === true && state.agents.get(agentId)?.status === "revoked";
}

function grantorsOf({ agents }: WorkspaceState, principal: AgentState, chain: GrantChain): readonly AgentState[] {
  const lenders = chain.flatMap(({ sealed }) => agents.get(sealed.grantor_agent_id ?? "") ?? []);
  return [...new Set([principal, ...lenders])];
}

/**
 * Checks every authority that an action claims: the principal with its grants, the session, and the credential or token of
 * the call. Authority that is unknown, another agent's, or ended refuses the action; it is never ignored.
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

/** Lent authority: the grants from the actor's own up to the first of the chain. */
export type GrantChain = readonly AuthorityItem[];

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
  /** The grant to use; undefined for any that fits. */
  readonly grantId: string | undefined;
  readonly normalisedType: string;
  /** True for a retry, whose first attempt may have been the last use of a grant. */
  readonly isReplay?: boolean;
}

/** Finds a chain of grants that lets an actor act for a principal now; undefined if none does. */
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

const contains = (wider: string, narrower: string): boolean => {
  const [outer, inner] = [normaliseName(wider), normaliseName(narrower)];
  if (!outer.endsWith("*")) return outer === inner;
  // `a*` covers `ab*` and `ab`: the star of the narrower pattern only adds longer names.
  return inner.replace(/\*$/, "").startsWith(outer.slice(0, -1));
};

/** Returns the patterns that exceed a wider list: no single pattern of the list covers them. */
export function patternsBeyond(wider: readonly string[], narrower: readonly string[]): string[] {
  return narrower.filter((pattern) => !wider.some((outer) => contains(outer, pattern)));
}

/** Finds the open temporal window of an agent that admits an action type: the one that closes first, ties by id. */
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
 * Checks an action against permissions. On behalf of a principal the lent authority takes the place of the actor's
 * allow-list: the principal's own permissions must admit the action, and the denials of the actor and of everyone who lent a part
 * of the authority still hold.
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

/** Result of checking the intent contract that an action names. */
type ContractCheck =
  | { readonly kind: "none" }
  | { readonly kind: "inside"; readonly contract: AuthorityItem }
  | ({ readonly kind: "refused" } & Refusal);

const outsideContract = (code: ReasonCode, message: string): ContractCheck => ({
  kind: "refused",
  path: "intent_contract",
  reason: { code, message },
});

/** Checks the intent contract that an action names. */
function checkContract(
  { authority }: WorkspaceState,
  { intentContractId, agentId, actionType, normalisedType }: Action,
  toolName: string | undefined,
  nowMs: number,
): ContractCheck {
  if (intentContractId === undefined) return { kind: "none" };
  const contract = authority.get(intentContractId);
  const name = `intent contract \`${intentContractId}\``;
  if (contract?.sealed.kind !== "intent_contract" || contract.sealed.agent_id !== agentId) {
    return outsideContract("INTENT_CONTRACT_UNKNOWN", `${name} does not exist for this agent, or has ended`);
  }
  if (!isInForce(contract, nowMs)) {
    const why = itemStatus(contract, nowMs) === "used_up" ? "is used up" : "has expired";
    return outsideContract("INTENT_CONTRACT_EXPIRED", `${name} ${why}`);
  }
  if (!contract.admits?.matches(normalisedType))
    return outsideContract("OUTSIDE_CONTRACT", `\`${actionType}\` is outside ${name}`);
  const { tools = [] } = contract.sealed;
  if (tools.length > 0 && !tools.some((tool) => toolName !== undefined && toolKey(tool) === toolKey(toolName))) {
    const called = toolName === undefined ? "a call without a tool" : `tool \`${toolName}\``;
    return outsideContract("OUTSIDE_CONTRACT", `${called} is outside ${name}`);
  }
  return { kind: "inside", contract };
}

/** A policy for the tools of an MCP server that refuses a call. */
export interface ToolPolicyVerdict {
  readonly decision: Exclude<Decision, "allow">;
  readonly policy: AuthorityItem;
}

const SEVERITY: Readonly<Record<Decision, number>> = { allow: 0, escalate: 1, block: 2 };
/** Separators between the name of a server and that of its tool. */
const SEPARATORS = ["/", ".", "__"];

/** The names that a call gives for an MCP server and its tool, normalised. */
interface CalledNames {
  /** Empty if the call names no server. */
  readonly server: string;
  /** The action type where the call names no tool. */
  readonly tool: string;
  readonly isTool: boolean;
}

/**
 * Lists the names by which a server's policy knows a called tool: those that follow the server in `S/T`, `S.T`, `S__T` and
 * `mcp__S__T`, and any prefixed form if the call names the server. `*` stands for any server; a call without a tool is one of a
 * server only if it names the server or begins with `mcp__`.
 */
function namesUnder(policyServer: string, { server, tool, isTool }: CalledNames): readonly string[] {
  const unprefixed = tool.startsWith("mcp__") ? tool.slice("mcp__".length) : tool;
  const isAny = policyServer === "*" && (isTool || server !== "" || unprefixed !== tool);
  if (isAny || policyServer === server) return [tool, ...formsOf(unprefixed)];
  return SEPARATORS.flatMap((separator) => {
    const prefix = policyServer + separator;
    return unprefixed.startsWith(prefix) ? formsOf(unprefixed.slice(prefix.length).trim()) : [];
  });
}

/** Lists a name and what follows each separator in it. */
function formsOf(name: string): readonly string[] {
  const forms = [name];
  for (const separator of SEPARATORS) {
    for (let at = name.indexOf(separator); at >= 0; at = name.indexOf(separator, at + 1)) {
      forms.push(name.slice(at + separator.length).trim());
    }
  }
  return forms;
}

/**
 * Finds the most restrictive of the MCP tool policies that match a call, among those of the agent and those of every agent;
 * ties by id. Without a tool the action type stands for it. Returns undefined when none matches or the strictest allows.
 */
export function checkToolPolicies(
  { authority }: WorkspaceState,
  { agentId: actingId, metadata, normalisedType }: Action,
  toolName: string | undefined,
): ToolPolicyVerdict | undefined {
  const called: CalledNames = {
    server: typeof metadata?.mcp_server === "string" ? normaliseName(metadata.mcp_server) : "",
    tool: toolName === undefined ? normalisedType : normaliseName(toolName),
    isTool: toolName !== undefined,
  };
  const matching: AuthorityItem[] = [];
  for (const agentId of [actingId, null]) {
    for (const policy of authority.heldBy(agentId, "mcp_tool_policy")) {
      const names = namesUnder(normaliseName(policy.sealed.server ?? ""), called);
      if (names.some((name) => policy.tools?.matches(name))) matching.push(policy);
    }
  }
  const severity = ({ sealed }: AuthorityItem): number => SEVERITY[sealed.decision ?? "block"];
  matching.sort((a, b) => severity(b) - severity(a) || (a.sealed.id < b.sealed.id ? -1 : 1));
  const [strictest] = matching;
  const decision = strictest?.sealed.decision ?? "allow";
  return strictest === undefined || decision === "allow" ? undefined : { decision, policy: strictest };
}
