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

/** The MCP server that an action calls: `metadata.mcp_server`, else what stands before the first `/` of the tool's name. */
function serverOf({ metadata }: Action, toolName: string): { readonly server: string; readonly tool: string } {
  const slash = toolName.indexOf("/");
  const tool = slash < 0 ? toolName : toolName.slice(slash + 1);
  const named = metadata?.mcp_server;
  if (typeof named === "string" && named !== "") return { server: named, tool };
  return { server: slash < 0 ? "" : toolName.slice(0, slash), tool };
}

/**
 * What the MCP tool policies of the agent and of every agent say of a call: the most restrictive of those that match, ties
 * by id. Undefined when none matches or the strictest allows.
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
    for (const policy of authority.ofAgent(agentId, "mcp_tool_policy")) {
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
