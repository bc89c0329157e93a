import { RuleType } from "../../gen/agentcontrol/v1/mandate_service_pb.js";
import { checkIdentity } from "../decision/identity.ts";
import { checkPermissions } from "../decision/permissions.ts";
import { checkToolPolicies } from "../decision/tool-policy.ts";
import { normaliseName } from "../policy/names.ts";
import type { CompiledRule } from "../policy/types.ts";
import type { Action } from "../state/types.ts";
import type { WorkspaceState } from "../state/workspace.ts";

/** Tests whether an action is blocked now, whatever its arguments. */
export type AlwaysBlocked = (action: Action) => boolean;

/**
 * Creates the test for the actions of one agent. It checks what does not depend on arguments: the agent's status and authority,
 * its permissions, the policies for MCP tools, and the blocking rules of type `action`. Limits, trust and schedules are left out,
 * since they change over time.
 */
export function alwaysBlockedFor(state: WorkspaceState, agentId: string, nowMs: number): AlwaysBlocked {
  const agent = state.agents.get(agentId);
  if (agent === undefined || agent.status !== "active") return () => true;
  const rules = blockingRules(state, agentId, agent.departmentIds);
  return (action) => {
    const checked = checkIdentity(state, action, nowMs);
    if (checked.kind === "refused") return true;
    if (checkPermissions(state, agent, checked.identity, action, nowMs).reason !== undefined) return true;
    const { tool, normalisedType } = action;
    if (checkToolPolicies(state, action, tool)?.decision === "block") return true;
    return rules.some((rule) => covers(rule, normalisedType, normaliseName(tool ?? "")));
  };
}

/** Returns the rules that block an agent's actions by the action type alone. */
function blockingRules(
  state: WorkspaceState,
  agentId: string,
  departmentIds: readonly string[],
): readonly CompiledRule[] {
  const found: CompiledRule[] = [];
  for (const mandate of state.policies.policySet().mandates()) {
    if (mandate.mode !== "enforce") continue;
    if (mandate.scope === "agent" && mandate.agentId !== agentId) continue;
    if (mandate.scope === "department" && !departmentIds.includes(mandate.departmentId ?? "")) continue;
    found.push(...mandate.rules.filter(blocksByType));
  }
  return found;
}

const blocksByType = ({ type, decision, stale }: CompiledRule): boolean =>
  type === RuleType.ACTION && decision === "block" && !stale;

function covers({ tool, types }: CompiledRule, actionType: string, toolName: string): boolean {
  return (tool === undefined || normaliseName(tool) === toolName) && types.matches(actionType);
}
