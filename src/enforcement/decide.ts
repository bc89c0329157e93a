import {
  type Action,
  type AgentState,
  type Decide,
  type DecisionReason,
  escalationIdOf,
  type Outcome,
  type StateJournal,
  trustAfter,
  type WorkspaceState,
} from "../ledger/index.ts";
import { argumentsFrom, type Decision, type PolicyResult, type ToolSchema, toolNameFrom } from "../policy/index.ts";
import { actionDigest } from "./action-digest.ts";
import { checkApproval } from "./approval.ts";
import { checkIdentity, type Refusal } from "./identity.ts";
import { checkPermissions } from "./permissions.ts";

/** What every step of deciding one action looks at. */
interface Attempt {
  readonly state: WorkspaceState;
  readonly action: Action;
  readonly agent: AgentState;
  readonly toolName: string | undefined;
  readonly tool: ToolSchema | undefined;
}

/** The part of an outcome that the steps decide; the rest follows from it. */
type Verdict = Pick<Outcome, "decision" | "path" | "reasons" | "permissions"> &
  Partial<Pick<Outcome, "policy" | "policyName" | "actionDigest" | "usedEscalationId">>;

const DEFAULT_REASONS: Readonly<Record<Decision, readonly DecisionReason[]>> = {
  allow: [{ code: "DEFAULT", message: "no mandate matched; the workspace allows by default" }],
  block: [{ code: "DEFAULT", message: "no mandate matched; the workspace blocks by default" }],
  escalate: [{ code: "DEFAULT", message: "no mandate matched; the workspace escalates by default" }],
};

function refuse({ path, reason }: Refusal, permissions: Outcome["permissions"] = "not_evaluated"): Verdict {
  return { decision: "block", path, reasons: [reason], permissions };
}

function checkStatus({ agent }: Attempt): Refusal | undefined {
  if (agent.status === "active") return undefined;
  return { path: "revoked", reason: { code: "AGENT_REVOKED", message: `the agent is ${agent.status}` } };
}

function evaluatePolicy(
  { state, action, agent, tool, toolName }: Attempt,
  nowMs: number,
  journal: StateJournal,
): PolicyResult {
  return state.policies.policySet().evaluate({
    agentId: agent.agentId,
    departmentIds: agent.departmentIds,
    actionType: action.normalisedType,
    actionContent: action.actionContent,
    tool,
    toolName,
    arguments: argumentsFrom(action.metadata),
    metadata: action.metadata,
    trustTenths: agent.trustTenths,
    readCounter: (spec) => state.windows.read(spec, agent.agentId, nowMs, journal.velocity),
  });
}

function verdictFrom(attempt: Attempt, policy: PolicyResult): Verdict {
  const permissions = "admitted";
  if (policy.decision === undefined) {
    const decision = attempt.state.settings.default_decision as Decision;
    return { decision, path: "default", reasons: DEFAULT_REASONS[decision], permissions, policy };
  }
  const policyName = policy.winner?.mandate.name;
  return { decision: policy.decision, path: "policy", reasons: policy.reasons, permissions, policy, policyName };
}

/** Turns an escalation into `allow` when the action presents an approval of itself that nobody used yet. */
function applyApproval({ state, action, tool, toolName }: Attempt, verdict: Verdict): Verdict {
  if (verdict.decision !== "escalate") return verdict;
  const digest = actionDigest(action, toolName, tool);
  const approval = checkApproval(state, action, digest);
  const escalated = { ...verdict, actionDigest: digest };
  if (approval === undefined) return escalated;
  if (approval.kind === "unusable") return { ...escalated, reasons: [...verdict.reasons, approval.reason] };
  const { escalationId } = approval.escalation;
  const reason = { code: "APPROVED", message: `escalation \`${escalationId}\` approved this action` };
  const reasons = [reason, ...verdict.reasons];
  return { ...escalated, decision: "allow", path: "approved", reasons, usedEscalationId: escalationId };
}

/** The steps in order; the first that refuses ends it. */
function verdictOf(attempt: Attempt, nowMs: number, journal: StateJournal): Verdict {
  const refusal = checkStatus(attempt) ?? checkIdentity(attempt.action);
  if (refusal !== undefined) return refuse(refusal);
  const { result, reason } = checkPermissions(attempt.agent, attempt.action);
  if (reason !== undefined) return refuse({ path: "permissions", reason }, result);
  return applyApproval(attempt, verdictFrom(attempt, evaluatePolicy(attempt, nowMs, journal)));
}

/**
 * Decides one action against the state of its workspace: status, authority, permissions, mandates, default. Pure and
 * synchronous apart from the journal, into which counters note what they built. The agent MUST be in the state.
 */
export const decide: Decide = (state, action, nowMs, journal) => {
  const agent = state.agents.get(action.agentId);
  if (agent === undefined) throw new Error(`agent \`${action.agentId}\` is not in the state`);
  const toolName = toolNameFrom(action.tool, action.metadata, action.actionType, (name) =>
    state.policies.tools.has(name),
  );
  const tool = toolName === undefined ? undefined : state.policies.tools.get(toolName)?.schema;
  const verdict = verdictOf({ state, action, agent, toolName, tool }, nowMs, journal);
  return {
    policy: undefined,
    policyName: undefined,
    actionDigest: undefined,
    usedEscalationId: undefined,
    ...verdict,
    agentName: agent.registration.name,
    toolName,
    tool,
    trustBeforeTenths: agent.trustTenths,
    trustAfterTenths: trustAfter(agent.trustTenths, verdict.decision),
    escalationId: verdict.decision === "escalate" ? escalationIdOf(action.decisionId) : undefined,
  };
};
