import { normaliseName } from "../policy/names.ts";
import { SEVERITY } from "../policy/severity.ts";
import type { Decision } from "../policy/types.ts";
import type { AuthorityItem } from "../state/authority.ts";
import type { Action } from "../state/types.ts";
import type { WorkspaceState } from "../state/workspace.ts";
import type { Attempt, Verdict } from "./verdict.ts";

/**
 * Refuses a call whose tool's definition is not in force, as the tool gateway has found; else applies the MCP tool policies or
 * the setting for unknown tools, whichever is stricter.
 */
export function checkTool(attempt: Attempt): Verdict | undefined {
  const { refusal } = attempt.action;
  if (refusal !== undefined) {
    return { decision: "block", path: "mcp_definition", reasons: [refusal], permissions: "admitted" };
  }
  const ofServer = mcpToolVerdict(attempt);
  const ofUnknown = ofServer?.decision === "block" ? undefined : unknownToolVerdict(attempt);
  return ofServer === undefined || ofUnknown?.decision === "block" ? ofUnknown : ofServer;
}

/** Applies the workspace's setting to a call that names a tool which is not registered; undefined if it allows the call. */
function unknownToolVerdict({ state, tool, toolName }: Attempt): Verdict | undefined {
  const decision = state.settings.unknown_tools as Decision;
  if (decision === "allow" || toolName === undefined || tool !== undefined) return undefined;
  const message = `tool \`${toolName}\` is not registered; register it, or name one that is`;
  return { decision, path: "unknown_tool", reasons: [{ code: "TOOL_UNKNOWN", message }], permissions: "admitted" };
}

/** Applies the policies for MCP tools; undefined if they allow the call. */
function mcpToolVerdict({ state, action, toolName }: Attempt): Verdict | undefined {
  const found = checkToolPolicies(state, action, toolName);
  if (found === undefined) return undefined;
  const { decision, policy } = found;
  const verb = decision === "block" ? "blocks" : "escalates";
  const message = `MCP tool policy \`${policy.sealed.id}\` ${verb} tool \`${toolName ?? action.actionType}\``;
  return {
    decision,
    path: "mcp_tool_policy",
    reasons: [{ code: "MCP_TOOL_POLICY", message }],
    permissions: "admitted",
  };
}

/** Refusal of a call by an MCP tool policy. */
export interface ToolPolicyVerdict {
  readonly decision: Exclude<Decision, "allow">;
  readonly policy: AuthorityItem;
}

/** Separators between the name of a server and that of its tool. */
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
 * Lists the names under which a server's policy may match a called tool. They are the names after the server in `S/T`, `S.T`,
 * `S__T` and `mcp__S__T`, and any prefixed form if the call names the server. `*` stands for any server. A call without a tool
 * belongs to a server only if it names the server or begins with `mcp__`.
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

/** Lists a name and the part of it after each separator. */
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
 * Finds the most restrictive MCP tool policy that matches a call, among those of the agent and those of every agent; ties by
 * id. Without a tool, the action type is matched. Undefined if none matches or the strictest allows.
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
