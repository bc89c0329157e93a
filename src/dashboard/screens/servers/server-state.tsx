import type { McpServer } from "../../../../gen/agentcontrol/v1/mcp_server_service_pb.js";
import { Badge } from "../../kit/badge.tsx";
import { Message } from "../../kit/message.tsx";
import { Time } from "../../kit/time.tsx";

/** Orders servers by what a person should look at: those that are away, then those with changed, then with new definitions. */
export function compareServers(a: McpServer, b: McpServer): number {
  return urgencyOf(b) - urgencyOf(a) || (a.name < b.name ? -1 : 1);
}

function urgencyOf({ away, changedDefinitions, newDefinitions }: McpServer): number {
  if (away !== undefined) return 3;
  if (changedDefinitions > 0) return 2;
  return newDefinitions > 0 ? 1 : 0;
}

/** Says whether a server is away, and how many of its definitions wait for a person. */
export function ServerState({ server }: { readonly server: McpServer }) {
  const { away, changedDefinitions, newDefinitions } = server;
  if (urgencyOf(server) === 0) return <span className="hint">nothing waits</span>;
  return (
    <div className="server-state">
      {away === undefined ? null : <Badge tone="bad">away</Badge>}
      {changedDefinitions === 0 ? null : (
        <Badge tone="wait">{changedDefinitions.toLocaleString("en")} changed, to accept</Badge>
      )}
      {newDefinitions === 0 ? null : <Badge tone="wait">{newDefinitions.toLocaleString("en")} new, to accept</Badge>}
      {away === undefined ? null : (
        <p className="hint">
          since <Time at={away.since} />: <Message text={away.reason} />
        </p>
      )}
    </div>
  );
}
