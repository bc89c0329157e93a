import { invalidField } from "../errors.ts";
import type { Steps } from "../log/queue.ts";
import { Checks } from "../policy/checks.ts";
import { withLimitResets } from "../policy/limit-resets.ts";
import { argumentsFrom, toolKey } from "../policy/names.ts";
import type { Decision, EvaluationContext } from "../policy/types.ts";
import type { AgentState } from "../state/agents.ts";
import type { AuthorityItem } from "../state/authority.ts";
import type { Reservation } from "../state/counters/budget-pots.ts";
import { readCounter } from "../state/counters/read-counter.ts";
import { createResetReader } from "../state/counters/reset-reader.ts";
import { isCounted, outcomeTimeoutMs, trustAfter } from "../state/fold.ts";
import { type Action, DEFAULT_REASONS, type Outcome } from "../state/types.ts";
import type { StateJournal, WorkspaceState } from "../state/workspace.ts";
import { applyApproval } from "./approval.ts";
import { type ContractCheck, checkContracts, literalsOf } from "./contract.ts";
import { checkIdentity, type Identity, type IdentityCheck, isKeyEnded } from "./identity.ts";
import { knowledgeOf } from "./knowledge.ts";
import { checkPermissions } from "./permissions.ts";
import { checkContractRequired, checkSessionRequired } from "./requirements.ts";
import { checkTool } from "./tool-policy.ts";
import { type Attempt, NO_APPROVAL, type Refusal, refusal, type Verdict } from "./verdict.ts";

/**
 * Decides one action against the state of its workspace. Synchronous. It changes nothing that a decision could see: the journal
 * notes how to undo what counters build for it, and windows forget actions that have left them. The agent MUST be in the state.
 * Throws INVALID_FIELD for an action that names two tools.
 */
export function decide(state: WorkspaceState, action: Action, nowMs: number, journal: StateJournal): Outcome {
  const attempt = attemptFrom(state, action, nowMs, journal);
  assertOneTool(attempt);
  return outcomeFrom(attempt, verdictOf(attempt));
}

/** Returns the steps that the log takes when the action's turn has come. */
export function steps(action: Action): Steps {
  return { decide: (state, nowMs, journal) => decide(state, action, nowMs, journal), refuseReplay };
}

/**
 * Checks whether a repeated request may still get its first decision, `action.replayOf`. Checks the halt, status, principal,
 * session and key as they are now. Returns the refusal to seal; undefined if nothing refuses.
 */
export function refuseReplay(state: WorkspaceState, action: Action, nowMs: number): Outcome | undefined {
  const attempt = attemptFrom(state, action, nowMs, { undo: [] });
  const identified = identify(attempt);
  return identified.kind === "refused" ? outcomeFrom(attempt, refuse(identified)) : undefined;
}

function attemptFrom(state: WorkspaceState, action: Action, nowMs: number, journal: StateJournal): Attempt {
  const agent = state.agents.get(action.agentId);
  if (agent === undefined) throw new Error(`agent \`${action.agentId}\` is not in the state`);
  const { name: toolName, schema: tool } = state.policies.toolCalledBy(action);
  return { state, action, agent, toolName, tool, nowMs, journal };
}

/** Throws INVALID_FIELD if the action type is the name of a registered tool and the request names another one. */
function assertOneTool({ state: { policies }, action, toolName }: Attempt): void {
  const { actionType, normalisedType } = action;
  if (toolName === undefined) return;
  const typed = policies.tool(actionType) ?? policies.tool(normalisedType);
  if (typed === undefined || toolKey(typed.schema.name) === toolKey(toolName)) return;
  const conflict = `names \`${toolName}\`, but the action type is the name of the registered tool \`${typed.schema.name}\``;
  throw invalidField(action.tool === undefined ? "metadata.tool" : "tool", `${conflict}; name one tool`);
}

function outcomeFrom(attempt: Attempt, verdict: Verdict): Outcome {
  const { state, action, agent, toolName, tool, nowMs } = attempt;
  const keyEnded = { isKeyEnded: isKeyEnded(state, action, nowMs) };
  const counts = isCounted(action, { ...keyEnded, path: verdict.path });
  const changesTrust = counts && action.keepsTrust !== true;
  const reservations = counts && verdict.decision === "allow" ? reservationsOf(attempt) : [];
  return {
    policy: undefined,
    policyName: undefined,
    ...NO_APPROVAL,
    authority: [],
    contracts: [],
    principalId: undefined,
    ...verdict,
    ...limitResets(attempt, verdict, counts),
    agentName: agent.registration.name,
    policyDigest: state.policies.policySet().digest,
    toolName,
    tool,
    trustBeforeTenths: agent.trustTenths,
    cappedTrustTenths: cappedTrust(state, action, agent),
    outcomeDueAtMs: isTracked(state, action, verdict, reservations) ? nowMs + outcomeTimeoutMs(state) : undefined,
    reservations,
    trustAfterTenths: changesTrust ? trustAfter(agent.trustTenths, verdict.decision) : agent.trustTenths,
    ...keyEnded,
  };
}

/** Lists what an allowed action adds to the pots in force: its amounts, and itself where outcomes say which actions count. */
function reservationsOf({ state: { budgets }, action, toolName }: Attempt): readonly Reservation[] {
  const counted = budgets.countsOf(action.normalisedType);
  if (toolName === undefined) return counted;
  const reserved = budgets.reservationsOf(toolKey(toolName), argumentsFrom(action.metadata));
  return counted.length === 0 ? reserved : [...reserved, ...counted];
}

/**
 * Tests whether the outcome of an action is tracked: of one that reserves amounts or counts by its outcome, of one that is claimed and will be reported, or of
 * all that are allowed.
 */
function isTracked(
  { settings }: WorkspaceState,
  action: Action,
  { decision }: Verdict,
  reservations: readonly Reservation[],
): boolean {
  if (decision !== "allow") return false;
  if (reservations.length > 0) return true;
  return settings.outcomes === "all" || (action.claimId !== undefined && action.reportsOutcome !== false);
}

/** Adds to the limits that are reached, and to the reasons that they give, when they have room again. */
function limitResets(
  { state, nowMs }: Attempt,
  { policy, reasons, decision }: Verdict,
  counts: boolean,
): Partial<Pick<Outcome, "policy" | "reasons">> {
  if (policy === undefined) return {};
  return withLimitResets({ policy, reasons }, nowMs, createResetReader(state, { decision, counts, nowMs }));
}

/** Takes the steps in order. The first refusal ends them. */
function verdictOf(attempt: Attempt): Verdict {
  const { state, agent, action, nowMs } = attempt;
  // The workspace's halt and the agent's status, then the principal with its grants, the session and the key.
  const identified = identify(attempt);
  if (identified.kind === "refused") return refuse(identified);
  const { identity } = identified;
  const principalId = identity.principal?.agentId;
  // The session and the prompt that the agent must have.
  const sessionless = checkSessionRequired(attempt, identity);
  if (sessionless !== undefined) return { ...refuse(sessionless), principalId };
  // The permissions of the agent, or of its principal.
  const permitted = checkPermissions(state, agent, identity, action, nowMs);
  if (permitted.reason !== undefined)
    return { ...refuse({ path: "permissions", reason: permitted.reason }, permitted.result), principalId };
  // The intent contracts that the action and its session have.
  const contracted = checkContracts(attempt, () => contextFrom(attempt, identity.grantors));
  if (contracted.kind === "refused") return { ...refuse(contracted, "admitted"), principalId };
  const { contracts, admitting } = contracted;
  const uncovered = checkContractRequired(attempt, identity, contracts);
  if (uncovered !== undefined) return { ...refuse(uncovered, "admitted"), principalId };
  // Tool policies, mandates and the workspace's default; then an approval that lifts an escalation.
  const verdict = applyPolicies(attempt, identity, contracted);
  const authority = idsOf([...identity.chain, permitted.window, ...admitting, identity.token]);
  return { ...verdict, authority, contracts, principalId };
}

/** Checks that the workspace is not halted, then the agent's status, then the authority that the action claims. */
function identify({ state, agent, action, nowMs }: Attempt): IdentityCheck {
  if (state.settings.halted) return refusal("halted", "WORKSPACE_HALTED", "the workspace is halted: no action may run");
  if (agent.status === "active") return checkIdentity(state, action, nowMs);
  return refusal("revoked", "AGENT_REVOKED", `the agent is ${agent.status}`);
}

/**
 * Applies tool policies, then mandates. If an intent contract or a tool policy escalates a call and a person approves it, it still has to
 * pass the mandates.
 */
function applyPolicies(attempt: Attempt, identity: Identity, contracted: ContractCheck): Verdict {
  const held = heldBack(attempt, contracted);
  if (held?.decision === "block") return held;
  const ofMandates = evaluateMandates(attempt, identity, contracted);
  if (held === undefined) return applyApproval(attempt, ofMandates);
  // The rules that escalate as well ask for their approvers with the first ask: one approval lifts them too.
  const approved = applyApproval(attempt, held, ofMandates.policy?.demands);
  if (approved.decision !== "allow") return approved;
  if (ofMandates.decision === "block") return ofMandates;
  return { ...approved, policy: ofMandates.policy };
}

/** Returns the block of a tool policy, else the escalation of an intent contract or a tool policy; undefined for a call without either. */
function heldBack(attempt: Attempt, { escalating }: ContractCheck): Verdict | undefined {
  const ofTool = checkTool(attempt);
  if (escalating.length === 0 || ofTool?.decision === "block") return ofTool;
  const reasons = [...escalating, ...(ofTool?.reasons ?? [])];
  return { decision: "escalate", path: "intent_contract", reasons, permissions: "admitted" };
}

/** Evaluates the mandates. Without a rule that fires, the workspace's default decides. */
function evaluateMandates(attempt: Attempt, { grantors }: Identity, { planState }: ContractCheck): Verdict {
  const { policies, settings } = attempt.state;
  const policy = policies.policySet().evaluate({ ...contextFrom(attempt, grantors), planState });
  if (policy.decision === undefined) {
    const decision = settings.default_decision as Decision;
    return { decision, path: "default", reasons: DEFAULT_REASONS[decision], permissions: "admitted", policy };
  }
  const { decision, reasons, winner } = policy;
  return { decision, path: "policy", reasons, permissions: "admitted", policy, policyName: winner?.mandate.name };
}

/** Builds the context that rules read, also for an action that an earlier step refuses. */
export function contextOf(
  state: WorkspaceState,
  action: Action,
  nowMs: number,
  journal: StateJournal,
): EvaluationContext {
  const attempt = attemptFrom(state, action, nowMs, journal);
  const identified = identify(attempt);
  const context = contextFrom(attempt, identified.kind === "refused" ? [] : identified.identity.grantors);
  const contracted = checkContracts(attempt, () => context);
  return { ...context, planState: contracted.kind === "refused" ? "outside" : contracted.planState };
}

function contextFrom(attempt: Attempt, grantors: Identity["grantors"]): EvaluationContext {
  const { state, action, agent, tool, toolName, nowMs, journal } = attempt;
  return {
    agentId: agent.agentId,
    agentName: agent.registration.name,
    framework: agent.registration.framework ?? undefined,
    sessionId: action.sessionId,
    departmentIds: agent.departmentIds,
    actionType: action.normalisedType,
    actionContent: action.actionContent,
    tool,
    toolName,
    arguments: argumentsFrom(action.metadata),
    metadata: action.metadata,
    trustTenths: cappedTrust(state, action, agent) ?? agent.trustTenths,
    nowMs,
    checks: new Checks(action.longAnswers, state.lists),
    counterValue: (spec, { agentId }) => readCounter(state, spec, agentId, nowMs),
    potValue: (budget, { agentId }) => state.budgets.read(budget, agentId, nowMs),
    sequenceStartedAtMs: (spec) => state.sequences.read(spec, agent.agentId, nowMs, journal.undo),
    guardAnswerFor: action.answers && ((spec) => action.answers?.get(spec.key)),
    knowledge: knowledgeOf(attempt),
    contractLiterals: () => literalsOf(attempt),
    principals: grantors.length === 0 ? undefined : grantors,
    defaultDecision: state.settings.default_decision as Decision,
  };
}

/** Returns the cap of the call's federation token on the agent's trust; undefined if it does not lower the trust. */
function cappedTrust(
  { authority }: WorkspaceState,
  { keyId }: Action,
  { trustTenths }: AgentState,
): number | undefined {
  const cap = keyId.startsWith("fed_") ? authority.get(keyId)?.sealed.max_trust_tenths : undefined;
  return cap !== undefined && cap < trustTenths ? cap : undefined;
}

function refuse({ path, reason }: Refusal, permissions: Outcome["permissions"] = "not_evaluated"): Verdict {
  return { decision: "block", path, reasons: [reason], permissions };
}

const idsOf = (items: readonly (AuthorityItem | undefined)[]): string[] =>
  items.flatMap((item) => (item === undefined ? [] : [item.sealed.id]));
