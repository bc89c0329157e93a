/* The whole service in the process of the test, on a database of its own: for tests that share a part with it. */
import { randomBytes } from "node:crypto";
import { mkdtemp } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pino } from "pino";
import { loadConfig } from "../../src/config.ts";
import { type ControlPlaneOptions, createControlPlane } from "../../src/control-plane.ts";
import { prepareFirstStart } from "../../src/registry/first-start.ts";
import { createTestDatabase, removeAll } from "./database.ts";

/** A service that listens in this process. */
export interface ServedHere {
  /** `http://127.0.0.1:port`. */
  readonly http: string;
  /** `127.0.0.1:port`. */
  readonly grpc: string;
  readonly adminKey: string;
  /** Calls the service over REST as an administrator; by default of the first workspace. Rejects with what it says is wrong. */
  rest(request: string, body?: object, key?: string): Promise<Record<string, never>>;
  /** Registers an agent, by default in the first workspace; gives its id. */
  agent(key?: string): Promise<string>;
  /** Makes a workspace with an agent. */
  workspace(workspaceId: string): Promise<{ readonly key: string; readonly agentId: string }>;
  stop(): Promise<void>;
}

/** How the service is started. */
export interface ServedHereOptions extends Pick<ControlPlaneOptions, "largeRequests"> {
  readonly env?: Readonly<Record<string, string>>;
}

/** Starts the service; everything of it is gone once it stopped. */
export async function serveHere({ env = {}, ...parts }: ServedHereOptions = {}): Promise<ServedHere> {
  const database = await createTestDatabase();
  const dataDir = await mkdtemp(join(tmpdir(), "acp-here-"));
  const adminKey = randomBytes(24).toString("hex");
  const ports = { ACP_HTTP_PORT: "0", ACP_GRPC_PORT: "0" };
  const config = loadConfig({ ...ports, ACP_DATA_DIR: dataDir, ACP_ADMIN_KEY: adminKey, ...env });
  const log = pino({ level: "silent" });
  const controlPlane = await createControlPlane({ config, databaseUrl: database.url, log, ...parts });
  await prepareFirstStart({ ...controlPlane, adminKey, dataDir, log });
  const { http, grpc } = await controlPlane.listen();
  const rest: ServedHere["rest"] = async (request, body, key = adminKey) => {
    const [method = "", path = ""] = request.split(" ");
    const headers = { "x-api-key": key, "content-type": "application/json" };
    const init = body === undefined ? { method, headers } : { method, headers, body: JSON.stringify(body) };
    const response = await fetch(http + path, init);
    const text = await response.text();
    if (!response.ok) throw new Error(`${request} answered ${response.status}: ${text}`);
    return JSON.parse(text) as Record<string, never>;
  };
  const agent: ServedHere["agent"] = async (key) => {
    const made = await rest("POST /v1/enforce/agents", { name: "test" }, key);
    return (made as unknown as { agent: { agent_id: string } }).agent.agent_id;
  };
  return {
    http,
    grpc,
    adminKey,
    rest,
    agent,
    async workspace(workspaceId) {
      const made = await rest("POST /v1/admin/workspaces", { workspace_id: workspaceId, name: workspaceId });
      const { secret: key } = made as unknown as { secret: string };
      return { key, agentId: await agent(key) };
    },
    async stop() {
      await controlPlane.close();
      await database.drop();
      await removeAll(dataDir);
    },
  };
}
