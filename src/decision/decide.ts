import type { Steps } from "../log/batch.ts";
import { Checks } from "../policy/checks.ts";
import { argumentsFrom, toolNameFrom } from "../policy/names.ts";
import type { Decision, EvaluationContext, PolicyResult, ToolSchema } from "../policy/types.ts";
import type { AgentState } from "../state/agents.ts";
import type { AuthorityItem } from "../state/authority.ts";
import { trustAfter } from "../state/fold.ts";
import { type Action, DEFAULT_REASONS, type DecisionReason, isCounted, type Outcome } from "../state/types.ts";
import type { StateJournal, WorkspaceState } from "../state/workspace.ts";
import { actionDigest, askApproval, checkApproval } from "./approval.ts";
import {
  checkContract,
  checkIdentity,
  checkPermissions,
  checkToolPolicies,
  type Identity,
  type IdentityCheck,
  isKeyEnded,
  type Refusal,
} from "./authority-checks.ts";

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
export function refuseReplay(state: WorkspaceState, action: Action, nowMs: number): Outcome | undefined {
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
