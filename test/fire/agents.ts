import { post } from "../log/rest.ts";
import type { TestServer } from "../support/server.ts";
import type { Actor } from "./retrying-callers.ts";

/** Registers agents. */
export async function registerAgents(
  server: Pick<TestServer, "http" | "adminKey">,
  count: number,
): Promise<readonly Actor[]> {
  type Reply = { readonly agent: { readonly agent_id: string } };
  const replies = Array.from({ length: count }, () => post<Reply>(server, "/v1/enforce/agents", { name: "fire" }));
  return (await Promise.all(replies)).map(({ agent }) => ({ agentId: agent.agent_id }));
}

/** A workspace of its own, with its first admin key and an agent. */
export interface FireWorkspace extends Required<Actor> {
  readonly workspaceId: string;
}

/** Creates a workspace with an agent, with the defaults but for the settings that are given. */
export async function createFireWorkspace(
  server: TestServer,
  workspaceId: string,
  settings: object = {},
): Promise<FireWorkspace> {
  type Reply = { readonly secret: string };
  const { secret } = await post<Reply>(server, "/v1/admin/workspaces", { workspace_id: workspaceId, ...settings });
  const [actor] = await registerAgents({ http: server.http, adminKey: secret }, 1);
  return { workspaceId, agentId: (actor as Actor).agentId, apiKey: secret };
}
