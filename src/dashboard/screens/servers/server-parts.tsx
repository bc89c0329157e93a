import { type McpServer, McpServerMode } from "../../../../gen/agentcontrol/v1/mcp_server_service_pb.js";
import { Badge } from "../../kit/badge.tsx";

/** Mode of a server. */
export function ModeBadge({ mode }: { readonly mode: McpServerMode }) {
  const isStrict = mode === McpServerMode.QUARANTINE;
  return <Badge tone={isStrict ? "good" : "plain"}>{isStrict ? "quarantine" : "open"}</Badge>;
}

/** Returns the location of a server: its URL or its command. */
export const targetOf = ({ url, command, args }: McpServer): string => url ?? [command, ...args].join(" ");
