import { ControlPlaneError, ErrorReason } from "../errors.ts";
import type { AgentState } from "../state/agents.ts";
import type { DepartmentState } from "../state/departments.ts";
import type { ToolState } from "../state/policies.ts";
import type { WorkspaceState } from "../state/workspace.ts";

/** The agent with an id. Throws AGENT_NOT_FOUND. */
export function agentOf(state: WorkspaceState, agentId: string): AgentState {
  const agent = state.agents.get(agentId);
  if (agent !== undefined) return agent;
  throw new ControlPlaneError(ErrorReason.AGENT_NOT_FOUND, `no agent \`${agentId}\``, { agent_id: agentId });
}

/** The department with an id. Throws DEPARTMENT_NOT_FOUND. */
export function departmentOf(state: WorkspaceState, departmentId: string): DepartmentState {
  const department = state.departments.all.get(departmentId);
  if (department !== undefined) return department;
  const metadata = { department_id: departmentId };
  throw new ControlPlaneError(ErrorReason.DEPARTMENT_NOT_FOUND, `no department \`${departmentId}\``, metadata);
}

/** The current version of a tool. Throws TOOL_NOT_FOUND; names are compared as they are. */
export function toolOf(state: WorkspaceState, name: string): ToolState {
  const tool = state.policies.tools.get(name);
  if (tool !== undefined) return tool;
  throw new ControlPlaneError(ErrorReason.TOOL_NOT_FOUND, `no tool \`${name}\` is registered`, { tool: name });
}
