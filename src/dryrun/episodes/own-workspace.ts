import { doesNotCompile, ErrorReason, notFound } from "../../errors.ts";
import { compilePlanStep } from "../../policy/compile/plan-step.ts";
import { CompileBudget } from "../../policy/violations.ts";
import { checkedPatterns } from "../../registry/checked-text.ts";
import { type AgentState, createAgentState, Departments } from "../../state/agents.ts";
import { AuthorityIndex } from "../../state/authority.ts";
import type { SealedAgent, SealedAuthority } from "../../state/control-changes.ts";
import { BudgetPots } from "../../state/counters/budget-pots.ts";
import { OrderedSequences } from "../../state/counters/ordered.ts";
import { VelocityWindows } from "../../state/counters/windows.ts";
import { Escalations } from "../../state/escalations.ts";
import { ObservedSessions } from "../../state/observed-sessions.ts";
import { ActionOutcomes } from "../../state/outcomes.ts";
import { requireCounters, type WorkspaceState } from "../../state/workspace.ts";
import type { EpisodeContract } from "./episode.ts";

/** Ids in the workspace of an episode. */
export const REPLAYED_AGENT = "agt_replay";
export const REPLAYED_SESSION = "ses_replay";
const CONTRACT = "itc_replay";

/** All that is recorded here stays in memory: there is no log to read it from again. */
const KEPT = { kept: Number.POSITIVE_INFINITY, minKept: Number.POSITIVE_INFINITY };

/**
 * Creates the workspace of one episode: the rules, lists, MCP tool policies and settings of `own`, one agent with one session, and
 * nothing that happened before. `agentId`: the agent of `own` whose registration, departments and tool policies the agent has. Temporal
 * windows stay out: they are open at times of the real clock. Throws AGENT_NOT_FOUND.
 */
export function createOwnWorkspace(own: WorkspaceState, agentId: string | undefined, startMs: number): WorkspaceState {
  const agents = new Map<string, AgentState>();
  const departments = new Departments(agents);
  const agent = agentFrom(own, agentId);
  agents.set(agent.agentId, agent);
  for (const { department, createdAtMs, createdSeq, members } of own.departments.all.values()) {
    departments.add(department, createdAtMs, createdSeq);
    if (members.has(agent.agentId)) departments.addMember(department.department_id, agent.agentId);
  }
  const state: WorkspaceState = {
    ...own,
    settings: { ...own.settings, halted: false },
    seq: 0,
    lastAtMs: startMs,
    agents,
    departments,
    windows: new VelocityWindows(departments, own.workspaceId, KEPT),
    sequences: new OrderedSequences(departments),
    budgets: new BudgetPots(departments, own.workspaceId, KEPT),
    escalations: new Escalations(),
    outcomes: new ActionOutcomes(),
    authority: new AuthorityIndex(),
    sessions: new ObservedSessions(),
    usesChangedAt: new Map(),
    trustChangedAt: new Map(),
  };
  requireCounters(state, 0);
  state.authority.put(authorityOf(agent.agentId, REPLAYED_SESSION, { kind: "session" }), startMs, 0);
  for (const holder of [agent.agentId, null]) {
    for (const { sealed } of own.authority.heldBy(holder, "mcp_tool_policy")) state.authority.put(sealed, startMs, 0);
  }
  return state;
}

function agentFrom({ agents, settings, patterns }: WorkspaceState, agentId: string | undefined): AgentState {
  if (agentId === undefined) {
    const registration: SealedAgent = {
      agent_id: REPLAYED_AGENT,
      name: "replayed agent",
      framework: "",
      description: "",
      capabilities: [],
      allowed_action_types: [],
      denied_action_types: [],
      trust_tenths: settings.initial_trust_tenths,
    };
    return createAgentState(registration, { createdSeq: 0, registeredAtMs: 0 }, patterns);
  }
  const known = agents.get(agentId);
  if (known === undefined) throw notFound(ErrorReason.AGENT_NOT_FOUND, "agent", { agent_id: agentId });
  const { registration, createdSeq, registeredAtMs } = known;
  return createAgentState(registration, { createdSeq, registeredAtMs }, patterns);
}

/** Puts the contract of an episode in force. Throws PLAN_INVALID and INVALID_FIELD with the fields below `path`. */
export function putContract(state: WorkspaceState, agentId: string, contract: EpisodeContract, path: string): void {
  const { goal, actionTypes, tools, maxActions, steps, outside } = contract;
  const budget = new CompileBudget();
  const faults = steps.flatMap((step, index) => {
    const result = compilePlanStep(step, index, state.policies.lookup, budget);
    return result.kind === "compiled" ? [] : result.violations;
  });
  if (faults.length > 0) {
    const placed = faults.map((fault) => ({ ...fault, path: `${path}.${fault.path}` }));
    throw doesNotCompile(ErrorReason.PLAN_INVALID, "plan", placed);
  }
  const sealed = authorityOf(agentId, CONTRACT, {
    kind: "intent_contract",
    max_uses: maxActions ?? null,
    text: goal,
    tools,
    steps,
    outside,
    session_id: REPLAYED_SESSION,
    ...(actionTypes.length > 0 && { action_types: checkedPatterns(`${path}.allowed_action_types`, actionTypes) }),
  });
  state.authority.put(sealed, state.lastAtMs, 0);
}

function authorityOf(
  agentId: string,
  id: string,
  members: Partial<SealedAuthority> & Pick<SealedAuthority, "kind">,
): SealedAuthority {
  return { id, agent_id: agentId, expires_at_ms: null, max_uses: null, ...members };
}

/** Completes what rules read of the past as of a time: there is none but what is recorded here. */
export function completeCounters({ windows, sequences, budgets, seq }: WorkspaceState, nowMs: number): void {
  if (!sequences.isComplete) sequences.replay().finish();
  const history = { expired: [], entries: [], nextIndex: seq, rest: [], source: "decision_log" } as const;
  for (let missing = windows.missing(nowMs, seq); missing !== undefined; missing = windows.missing(nowMs, seq))
    windows.load(missing, history);
  for (let missing = budgets.missing(nowMs); missing !== undefined; missing = budgets.missing(nowMs))
    budgets.load(missing, { oldest: [], left: undefined, rest: [], newest: [] });
}
