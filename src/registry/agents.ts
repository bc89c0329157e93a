import type { ChangeScope, WorkspaceLog } from "../log/workspace-log.ts";
import type { AgentState, AgentStatus } from "../state/agents.ts";
import type { SealedAgent } from "../state/control-changes.ts";
import { numberFromAgentStatus } from "../state/stored-enums.ts";
import type { WorkspaceState } from "../state/workspace.ts";
import { AgentEntity } from "../store/entities.ts";
import { createId } from "../store/ids.ts";
import { agentOf, departmentOf } from "./lookups.ts";
import { newestPage, type Page, type PageRequest, valuesOfGrowing } from "./page.ts";
import { freeTextFrom, nameFrom, patternsFrom } from "./text.ts";

/** What is told of an agent when it is registered. */
export interface AgentRegistration {
  readonly name: string;
  readonly framework: string;
  readonly description: string;
  readonly capabilities: readonly string[];
  readonly allowedActionTypes: readonly string[];
  readonly deniedActionTypes: readonly string[];
}

/** Which agents a list holds; what is undefined does not narrow it. */
export interface AgentFilter {
  readonly status?: AgentStatus | undefined;
  readonly departmentId?: string | undefined;
}

function sealedFrom(registration: AgentRegistration): Omit<SealedAgent, "agent_id" | "trust_tenths"> {
  return {
    name: nameFrom("name", registration.name),
    framework: freeTextFrom("framework", registration.framework).trim(),
    description: freeTextFrom("description", registration.description),
    capabilities: patternsFrom("capabilities", registration.capabilities),
    allowed_action_types: patternsFrom("permissions.allowed_action_types", registration.allowedActionTypes),
    denied_action_types: patternsFrom("permissions.denied_action_types", registration.deniedActionTypes),
  };
}

/**
 * Registers an agent with the workspace's initial trust; it is active when this resolves. `by` is the key that does it.
 * Throws INVALID_FIELD for a blank name and for an action type that is none.
 */
export async function registerAgent(
  log: WorkspaceLog,
  by: string,
  registration: AgentRegistration,
): Promise<AgentState> {
  const told = sealedFrom(registration);
  const { state, agentId } = await log.change(by, (scope) => register(scope, told));
  return agentOf(state, agentId);
}

/** Registers an agent unless the workspace has one already, of whatever status; of several at once, one does. */
export async function registerFirstAgent(
  log: WorkspaceLog,
  by: string,
  registration: AgentRegistration,
): Promise<void> {
  const told = sealedFrom(registration);
  await log.change(by, async (scope) => void (scope.state.agents.size === 0 && (await register(scope, told))));
}

async function register(
  { transaction, state, nowMs, nextSeq, seal }: ChangeScope,
  told: ReturnType<typeof sealedFrom>,
): Promise<{ readonly state: WorkspaceState; readonly agentId: string }> {
  const agentId = createId("agt");
  const trust_tenths = state.settings.initial_trust_tenths;
  const agent: SealedAgent = { agent_id: agentId, ...told, trust_tenths };
  await transaction.insert(AgentEntity, {
    workspaceId: state.workspaceId,
    agentId,
    createdSeq: nextSeq(),
    resource: structuredClone(agent) as never,
    status: numberFromAgentStatus("active"),
    trustTenths: trust_tenths,
    registeredAtMs: nowMs,
    deactivatedAtMs: null,
  });
  seal({ type: "agent_registered", agent });
  return { state, agentId };
}

/** Deactivates an agent; one that is not active stays as it is and nothing is sealed. Throws AGENT_NOT_FOUND. */
export async function deactivateAgent(log: WorkspaceLog, by: string, agentId: string): Promise<AgentState> {
  return log.change(by, async ({ transaction, state, nowMs, seal }) => {
    const agent = agentOf(state, agentId);
    if (agent.status !== "active") return agent;
    const status = numberFromAgentStatus("deactivated");
    const key = { workspaceId: state.workspaceId, agentId };
    await transaction.nativeUpdate(AgentEntity, key, { status, deactivatedAtMs: nowMs });
    seal({ type: "agent_deactivated", agent_id: agentId });
    return agent;
  });
}

/**
 * Lists the agents, newest first; a page continues after the index of the entry that registered an agent. Throws
 * DEPARTMENT_NOT_FOUND when the filter names a department that is none.
 */
export function listAgents(state: WorkspaceState, filter: AgentFilter, page: PageRequest): Page<AgentState> {
  const members = filter.departmentId === undefined ? undefined : departmentOf(state, filter.departmentId).members;
  const isWanted = (agent: AgentState): boolean =>
    (filter.status === undefined || agent.status === filter.status) &&
    (members === undefined || members.has(agent.agentId));
  // No agent ever leaves a workspace's state, so the map only grows.
  return newestPage(valuesOfGrowing(state.agents), ({ createdSeq }) => createdSeq, page, isWanted);
}
