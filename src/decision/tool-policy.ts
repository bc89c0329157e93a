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

/**
 * Lists the names by which a server's policy knows a called tool: the name as called, if the call names the server, and what follows
 * the server's name in `S/T`, `S.T`, `S__T` and `mcp__S__T`. `*` stands for any server.
 */
function namesUnder(server: string, calledServer: string, called: string): readonly string[] {
  const unprefixed = called.startsWith("mcp__") ? called.slice("mcp__".length) : called;
  if (server === "*") {
    const rests = SEPARATORS.flatMap((separator) => restsAfter(separator, unprefixed));
    return [called, unprefixed, ...rests];
  }
  const rests = SEPARATORS.flatMap((separator) =>
    unprefixed.startsWith(server + separator) ? [unprefixed.slice(server.length + separator.length)] : [],
  );
  return server === calledServer ? [called, unprefixed, ...rests] : rests;
}

function restsAfter(separator: string, called: string): string[] {
  const rests: string[] = [];
  for (let at = called.indexOf(separator); at >= 0; at = called.indexOf(separator, at + 1)) {
    rests.push(called.slice(at + separator.length));
  }
  return rests;
}

/**
 * Finds the most restrictive of the MCP tool policies that match a call, among those of the agent and those of every agent;
 * ties by id. Returns undefined when none matches or the strictest allows.
 */
export function checkToolPolicies(
  { authority }: WorkspaceState,
  { agentId: actingId, metadata }: Action,
  toolName: string | undefined,
): ToolPolicyVerdict | undefined {
  if (toolName === undefined) return undefined;
  const called = normaliseName(toolName);
  const calledServer = typeof metadata?.mcp_server === "string" ? normaliseName(metadata.mcp_server) : "";
  const matching: AuthorityItem[] = [];
  for (const agentId of [actingId, null]) {
    for (const policy of authority.heldBy(agentId, "mcp_tool_policy")) {
      const names = namesUnder(normaliseName(policy.sealed.server ?? ""), calledServer, called);
      if (names.some((name) => policy.tools?.matches(name))) matching.push(policy);
    }
  }
  const severity = ({ sealed }: AuthorityItem): number => SEVERITY[sealed.decision ?? "block"];
  matching.sort((a, b) => severity(b) - severity(a) || (a.sealed.id < b.sealed.id ? -1 : 1));
  const [strictest] = matching;
  const decision = strictest?.sealed.decision ?? "allow";
  return strictest === undefined || decision === "allow" ? undefined : { decision, policy: strictest };
}
