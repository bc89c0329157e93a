/* The program itself, as a process on a database, with what tests do to it through the library and over REST. */
import { randomUUID } from "node:crypto";
import type { MessageInitShape } from "@bufbuild/protobuf";
import { AgentService } from "../../gen/agentcontrol/v1/agent_service_pb.js";
import { EnforcementService } from "../../gen/agentcontrol/v1/enforcement_service_pb.js";
import { EscalationService, Resolution } from "../../gen/agentcontrol/v1/escalation_service_pb.js";
import { MandateService, type RuleSchema } from "../../gen/agentcontrol/v1/mandate_service_pb.js";
import type { ControlPlane } from "../../src/client/index.ts";
import { createNodeControlPlane } from "../../src/client/node/index.ts";
import { createTestDatabase, type TestDatabase } from "./database.ts";
import { startServer, type TestServer } from "./server.ts";

/** Calls the service over REST with the administrator's key. Rejects with what it says is wrong. */
export type RestCall = (request: string, body?: object) => Promise<Record<string, never>>;

/** A service on a database of its own. */
export interface TestService extends TestServer {
  readonly database: TestDatabase;
  /** The library with the administrator's key, over HTTP. */
  readonly admin: ControlPlane;
  /** `rest("POST /v1/enforce/agents", { name })`. */
  readonly rest: RestCall;
  /** Registers an agent; gives its id. */
  agent(name?: string): Promise<string>;
  resolve(escalationId: string, how: "approved" | "rejected"): Promise<void>;
  /** The ids of all decisions on an agent's actions, newest first. */
  decisionIdsOf(agentId: string): Promise<string[]>;
}

/** How a service is started. */
export interface TestServiceOptions {
  readonly env?: Readonly<Record<string, string>>;
  /** Account that the service runs as, if this is root. Default: this process's own. */
  readonly account?: { readonly uid: number; readonly gid: number };
  /** Published as one mandate. Default none. */
  readonly rules?: readonly MessageInitShape<typeof RuleSchema>[];
}

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

function restCallTo({ http, adminKey }: TestServer): RestCall {
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

/** Starts the service on a new database; both are gone once it stopped. */
export async function startService({ env = {}, rules, account }: TestServiceOptions = {}): Promise<TestService> {
  const database = await createTestDatabase();
  const server = await startServer({ databaseUrl: database.url, env, ...(account && { account }) });
  const admin = connect(server);
  if (rules !== undefined) await admin.client(MandateService).createMandate({ name: "house rules", rules: [...rules] });
  return {
    ...server,
    database,
    admin,
    rest: restCallTo(server),
    agent: (name) => registerAgent(admin, name),
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
