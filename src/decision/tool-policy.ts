import { normaliseName } from "../policy/names.ts";
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
/** What gateways put between the name of a server and that of its tool. */
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
