import { type BreakableLink, startBreakableLink } from "../support/breakable-link.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { sessionUrlOf } from "../support/pooler.ts";
import { type ServedHere, serveHere } from "../support/served-here.ts";
import { type RestCall, restCallTo } from "../support/service.ts";

/** A gateway with the MCP server `bank` and an agent, whose way to PostgreSQL can be broken. */
export interface GatewayBehindLink {
  readonly database: TestDatabase;
  readonly link: BreakableLink;
  readonly server: ServedHere;
  readonly rest: RestCall;
  readonly agentId: string;
}

/** Starts a gateway behind a link of its own; all of it ends with `cleanup`. */
export async function startGatewayBehindLink(
  upstreamUrl: string,
  cleanup: AsyncDisposableStack,
): Promise<GatewayBehindLink> {
  const database = await createTestDatabase();
  cleanup.defer(() => database.drop());
  const linked = new URL(sessionUrlOf(database.url));
  const link = await startBreakableLink({ host: linked.hostname, port: Number(linked.port) });
  cleanup.defer(() => link.close());
  linked.host = `127.0.0.1:${link.port}`;
  const server = await serveHere({ databaseUrl: linked.href, env: { ACP_MCP_ALLOW: "127.0.0.0/8" } });
  cleanup.defer(async () => void (await server.stop()));
  const rest = restCallTo(server);
  await rest("POST /v1/enforce/mcp-servers", { name: "bank", url: upstreamUrl, drift: "86400" });
  const registered = await rest("POST /v1/enforce/agents", { name: "payer" });
  return {
    database,
    link,
    server,
    rest,
    agentId: (registered as unknown as { agent: { agent_id: string } }).agent.agent_id,
  };
}
