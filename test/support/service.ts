/* The service on a database of its own, with what tests do to it through the library and over REST. */
import { randomUUID } from "node:crypto";
import type { MessageInitShape } from "@bufbuild/protobuf";
import { AgentService } from "../../gen/agentcontrol/v1/agent_service_pb.js";
import { EnforcementService } from "../../gen/agentcontrol/v1/enforcement_service_pb.js";
import { EscalationService, Resolution } from "../../gen/agentcontrol/v1/escalation_service_pb.js";
import { MandateService, type RuleSchema } from "../../gen/agentcontrol/v1/mandate_service_pb.js";
import type { ControlPlane } from "../../src/client/index.ts";
import { createNodeControlPlane } from "../../src/client/node/index.ts";
import { createTestDatabase, type TestDatabase } from "./database.ts";
import { type ServedHere, type ServedHereOptions, serveHere } from "./served-here.ts";
import { type ServerOptions, startServer, type TestServer } from "./server.ts";

/** Calls the service over REST, by default with the administrator's key. Rejects with what it says is wrong. */
export type RestCall = (request: string, body?: object, key?: string) => Promise<Record<string, never>>;

/** A service on a database of its own. */
export interface TestService extends ServedHere {
  readonly database: TestDatabase;
  /** The library with the administrator's key, over HTTP. */
  readonly admin: ControlPlane;
  /** `rest("POST /v1/enforce/agents", { name })`. */
  readonly rest: RestCall;
  /** Registers an agent; gives its id. */
  agent(name?: string): Promise<string>;
  /** Makes a workspace with an agent. */
  workspace(workspaceId: string): Promise<{ readonly key: string; readonly agentId: string }>;
  resolve(escalationId: string, how: "approved" | "rejected"): Promise<void>;
  /** The ids of all decisions on an agent's actions, newest first. */
  decisionIdsOf(agentId: string): Promise<string[]>;
}

/** The same as a process of its own. */
export interface TestServiceProcess extends TestService, TestServer {
  stop(): Promise<number | null>;
}

interface Rules {
  /** Published as one mandate. Default none. */
  readonly rules?: readonly MessageInitShape<typeof RuleSchema>[];
}

/** How a service is started. */
export interface TestServiceOptions extends Omit<ServedHereOptions, "databaseUrl">, Rules {}

/** How a service is started as a process. */
export interface TestServiceProcessOptions extends Omit<ServerOptions, "databaseUrl">, Rules {}

/** Connects the library over the HTTP port alone, or with the gRPC port for intercepts. */
export function connect(
  { http, grpc, adminKey }: Pick<TestServer, "http" | "grpc" | "adminKey">,
  wire: "http" | "grpc" = "http",
): ControlPlane {
  return createNodeControlPlane({ baseUrl: http, apiKey: adminKey, ...(wire === "grpc" && { grpcUrl: grpc }) });
}

/** Registers an agent; gives its id. */
export async function registerAgent(admin: ControlPlane, name = `agent ${randomUUID()}`): Promise<string> {
  const { agent } = await admin.client(AgentService).registerAgent({ name });
  return agent?.agentId ?? "";
}

/** The ids of all decisions on an agent's actions, newest first. */
export async function decisionIdsOf(admin: ControlPlane, agentId: string): Promise<string[]> {
  const ids: string[] = [];
  for (let pageToken = ""; ; ) {
    const page = await admin.client(EnforcementService).listDecisions({ agentId, pageSize: 500, pageToken });
    ids.push(...page.decisions.map(({ decisionId }) => decisionId));
    if (page.nextPageToken === undefined) return ids;
    pageToken = page.nextPageToken;
  }
}

/** Returns how to call a service over REST. */
export function restCallTo({ http, adminKey }: Pick<TestServer, "http" | "adminKey">): RestCall {
  return async (request, body, key = adminKey) => {
    const [method = "", path = ""] = request.split(" ");
    const headers = { "x-api-key": key, "content-type": "application/json" };
    const init = body === undefined ? { method, headers } : { method, headers, body: JSON.stringify(body) };
    const response = await fetch(http + path, init);
    const text = await response.text();
    if (!response.ok) throw new Error(`${request} answered ${response.status}: ${text}`);
    return JSON.parse(text) as Record<string, never>;
  };
}

/** Adds what tests do to a service; the database goes with it. */
async function serviceOf<S extends ServedHere>(
  server: S,
  database: TestDatabase,
  { rules }: Rules,
): Promise<TestService & S> {
  const admin = connect(server);
  const rest = restCallTo(server);
  if (rules !== undefined) await admin.client(MandateService).createMandate({ name: "house rules", rules: [...rules] });
  return {
    ...server,
    database,
    admin,
    rest,
    agent: (name) => registerAgent(admin, name),
    async workspace(workspaceId) {
      const made = await rest("POST /v1/admin/workspaces", { workspace_id: workspaceId, name: workspaceId });
      const { secret: key } = made as unknown as { secret: string };
      const registered = await rest("POST /v1/enforce/agents", { name: "test" }, key);
      const { agent } = registered as unknown as { agent: { agent_id: string } };
      return { key, agentId: agent.agent_id };
    },
    async resolve(escalationId, how) {
      const resolution = how === "approved" ? Resolution.APPROVED : Resolution.REJECTED;
      await admin.client(EscalationService).resolveEscalation({ escalationId, resolution });
    },
    decisionIdsOf: (agentId) => decisionIdsOf(admin, agentId),
    async stop() {
      admin.close();
      const code = await server.stop();
      await database.drop();
      return code;
    },
  };
}

/** Starts the service in this process on a new database; both are gone once it stopped. */
export async function startService({ rules, ...options }: TestServiceOptions = {}): Promise<TestService> {
  const database = await createTestDatabase();
  return serviceOf(await serveHere({ databaseUrl: database.url, ...options }), database, { ...(rules && { rules }) });
}

/**
 * Starts the service as a process on a new database, for tests of what a process is: its end, its account, its environment,
 * whether it survives.
 */
export async function startServiceProcess({
  rules,
  ...options
}: TestServiceProcessOptions = {}): Promise<TestServiceProcess> {
  const database = await createTestDatabase();
  const server = await startServer({ databaseUrl: database.url, ...options });
  return serviceOf(server, database, { ...(rules && { rules }) });
}
