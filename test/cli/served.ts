import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { startServer, type TestServer } from "../support/server.ts";
import { agentctl, createFolder, type Folder, type Run } from "./harness.ts";

/** Calls the service over REST with the administrator's key. Rejects with what it says is wrong. */
export type Call = (request: string, body?: object) => Promise<Record<string, never>>;

/** A service on a database of its own, and `agentctl` pointed at it. */
export interface Served {
  readonly database: TestDatabase;
  readonly server: TestServer;
  readonly folder: Folder;
  readonly call: Call;
  agentctl(...argv: readonly string[]): Promise<Run>;
  /** Registers an agent; gives its id. */
  agent(name?: string): Promise<string>;
  /** Has an action of an agent decided. */
  intercept(agentId: string, more?: object): Promise<{ readonly decision_id: string; readonly escalation_id: string }>;
  stop(): Promise<void>;
}

function createCall({ http, adminKey }: TestServer): Call {
  return async (request, body) => {
    const [method = "", path = ""] = request.split(" ");
    const headers = { "x-api-key": adminKey, "content-type": "application/json" };
    const init = body === undefined ? { method, headers } : { method, headers, body: JSON.stringify(body) };
    const response = await fetch(http + path, init);
    const text = await response.text();
    if (!response.ok) throw new Error(`${request} answered ${response.status}: ${text}`);
    return JSON.parse(text) as Record<string, never>;
  };
}

/** Starts a service. */
export async function startServed(): Promise<Served> {
  const database = await createTestDatabase();
  const server = await startServer({ databaseUrl: database.url });
  const folder = await createFolder();
  const call = createCall(server);
  return {
    ...{ database, server, folder, call },
    agentctl: (...argv) => agentctl(argv, { AGENTCTL_URL: server.http, AGENTCTL_KEY: server.adminKey }),
    async agent(name = "payer") {
      const { agent } = (await call("POST /v1/enforce/agents", { name })) as unknown as { agent: { agent_id: string } };
      return agent.agent_id;
    },
    intercept: (agentId, more = {}) =>
      call("POST /v1/enforce/intercept", { agent_id: agentId, action_type: "read", ...more }) as never,
    async stop() {
      await folder.remove();
      await server.stop();
      await database.drop();
    },
  };
}
