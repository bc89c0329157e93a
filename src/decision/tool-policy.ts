import { normaliseActionType } from "../policy/action-pattern.ts";
import type { Decision } from "../policy/types.ts";
import type { AuthorityItem } from "../state/authority.ts";
import type { Action } from "../state/types.ts";
import type { WorkspaceState } from "../state/workspace.ts";

/** A policy for the tools of an MCP server that refuses a call. */
export interface ToolPolicyVerdict {
  readonly decision: Exclude<Decision, "allow">;
  readonly policy: AuthorityItem;
}

const SEVERITY: Readonly<Record<Decision, number>> = { allow: 0, escalate: 1, block: 2 };

/** The MCP server of a call: `metadata.mcp_server`, else the part of the tool's name before the first `/`. */
function serverOf({ metadata }: Action, toolName: string): { readonly server: string; readonly tool: string } {
  const slash = toolName.indexOf("/");
  const tool = slash < 0 ? toolName : toolName.slice(slash + 1);
  const named = metadata?.mcp_server;
  if (typeof named === "string" && named !== "") return { server: named, tool };
  return { server: slash < 0 ? "" : toolName.slice(0, slash), tool };
}

/**
 * Finds the most restrictive of the MCP tool policies that match a call, among those of the agent and those of every agent;
 * ties by id. Returns undefined when none matches or the strictest allows.
 */
export function checkToolPolicies(
  { authority }: WorkspaceState,
  action: Action,
  toolName: string | undefined,
): ToolPolicyVerdict | undefined {
  if (toolName === undefined) return undefined;
  const { server, tool } = serverOf(action, toolName);
  const name = normaliseActionType(tool);
  const matching: AuthorityItem[] = [];
  for (const agentId of [action.agentId, null]) {
    for (const policy of authority.heldBy(agentId, "mcp_tool_policy")) {
      const isServer = policy.sealed.server === "*" || policy.sealed.server === server;
      if (isServer && policy.tools?.matches(name)) matching.push(policy);
    }
  }
  const severity = ({ sealed }: AuthorityItem): number => SEVERITY[sealed.decision ?? "block"];
  matching.sort((a, b) => severity(b) - severity(a) || (a.sealed.id < b.sealed.id ? -1 : 1));
  const [strictest] = matching;
  const decision = strictest?.sealed.decision ?? "allow";
  return strictest === undefined || decision === "allow" ? undefined : { decision, policy: strictest };
}
