import { generateKeyPairSync, type KeyObject } from "node:crypto";
import {
  create,
  type DescMethodUnary,
  type DescService,
  type Message,
  type MessageInitShape,
  type MessageShape,
} from "@bufbuild/protobuf";
import pino from "pino";
import { Registry } from "prom-client";
import { Role } from "../../gen/agentcontrol/v1/access_pb.js";
import { AdminService } from "../../gen/agentcontrol/v1/admin_service_pb.js";
import { AgentService } from "../../gen/agentcontrol/v1/agent_service_pb.js";
import { AuthorityService } from "../../gen/agentcontrol/v1/authority_service_pb.js";
import { EnforcementService, InterceptRequestSchema } from "../../gen/agentcontrol/v1/enforcement_service_pb.js";
import { EscalationService } from "../../gen/agentcontrol/v1/escalation_service_pb.js";
import { MandateService } from "../../gen/agentcontrol/v1/mandate_service_pb.js";
import { ToolService } from "../../gen/agentcontrol/v1/tool_service_pb.js";
import { actionFrom } from "../../src/api/action.ts";
import { createAdminService } from "../../src/api/admin-service.ts";
import { createAgentService } from "../../src/api/agent-service.ts";
import { createAuthorityService } from "../../src/api/authority-service.ts";
import { createEnforcementService } from "../../src/api/enforcement-service.ts";
import { createEscalationService } from "../../src/api/escalation-service.ts";
import { createMandateService } from "../../src/api/mandate-service.ts";
import { createToolService } from "../../src/api/tool-service.ts";
import { createTokenVerifier } from "../../src/authority/federation-token.ts";
import { createSigningKeys, type SigningKeys } from "../../src/authority/signing-key.ts";
import { decide } from "../../src/decision/decide.ts";
import { createIntercept } from "../../src/decision/intercept.ts";
import type { WorkspaceLog } from "../../src/log/workspace-log.ts";
import { createWorkspaceLogs, type WorkspaceLogs } from "../../src/log/workspace-logs.ts";
import { createAuthenticator } from "../../src/registry/authenticator.ts";
import { createWorkspace } from "../../src/registry/workspaces.ts";
import { revokeAgent } from "../../src/revocation/revoke.ts";
import type { IncomingCall } from "../../src/server/incoming.ts";
import { createPipeline, type Pipeline } from "../../src/server/pipeline.ts";
import { createVelocityJournal } from "../../src/state/counters/windows.ts";
import type { Outcome } from "../../src/state/types.ts";
import { type Database, openDatabase } from "../../src/store/database.ts";
import { ENTITIES } from "../../src/store/entities.ts";
import { MIGRATIONS } from "../../src/store/migrations.ts";
import { createTestDatabase, SILENT_LOG } from "../support/database.ts";
import { NO_GUARD } from "../support/no-guard.ts";
import { failureOf } from "../support/workspace.ts";

/** The unary methods of a service, called through the pipeline with a key; without one by the workspace's admin. */
export type KeyedClient<S extends DescService> = {
  readonly [K in keyof S["method"]]: S["method"][K] extends DescMethodUnary<infer I, infer O>
    ? (request: MessageInitShape<I>, key?: string) => Promise<MessageShape<O>>
    : never;
};

/** An action to attempt. */
export type Tried = MessageInitShape<typeof InterceptRequestSchema>;

/** One process of the control plane, with all that authority touches. */
export interface AuthorityReplica {
  readonly database: Database;
  readonly logs: WorkspaceLogs;
  /** The log of the test's workspace. */
  readonly log: WorkspaceLog;
  readonly keys: SigningKeys;
  readonly admin: KeyedClient<typeof AdminService>;
  readonly agents: KeyedClient<typeof AgentService>;
  readonly authority: KeyedClient<typeof AuthorityService>;
  readonly enforcement: KeyedClient<typeof EnforcementService>;
  readonly escalations: KeyedClient<typeof EscalationService>;
  readonly mandates: KeyedClient<typeof MandateService>;
  readonly tools: KeyedClient<typeof ToolService>;
}

/** A workspace on a database of its own. */
export interface AuthorityHarness extends AuthorityReplica {
  readonly adminKey: string;
  /** The key of the admin of a second workspace. */
  readonly otherKey: string;
  /** Registers an agent and gives its id. Without lists it may do everything. */
  agent(name: string, allowed?: readonly string[], denied?: readonly string[]): Promise<string>;
  revoke(agentId: string): Promise<void>;
  /** What an action would come to at the end of the log, some milliseconds from now; nothing is sealed. */
  decideIn(ms: number, tried: Tried, keyId?: string): Promise<Outcome>;
  /** Another process on the same database, with the same signing key unless told otherwise; closed with this one. */
  replica(signingKey?: KeyObject): Promise<AuthorityReplica>;
  close(): Promise<void>;
}

function clientOf<S extends DescService>(service: S, pipeline: Pipeline, adminKey: string): KeyedClient<S> {
  const entries = service.methods.map((method) => {
    const call = (init: object, key = adminKey): Promise<Message> => {
      const header = (name: string) => (name === "x-api-key" ? key : undefined);
      const { signal } = new AbortController();
      const incoming: IncomingCall = { wire: "rest", hasLeft: false, signal, receivedAt: performance.now(), header };
      return pipeline.unary(method, create(method.input, init as never), incoming);
    };
    return [method.localName, call];
  });
  return Object.fromEntries(entries) as KeyedClient<S>;
}

/** Longer than any test: no stream is looked at here. */
const HEARTBEAT_MS = 60_000;

function servicesOf(database: Database, logs: WorkspaceLogs, keys: SigningKeys) {
  const { pool } = database;
  const verifyToken = createTokenVerifier(keys);
  const authenticator = createAuthenticator({ database, clock: logs.clock, verifyToken });
  const services = [
    createAdminService({ logs, database, authenticator }),
    createAgentService({ logs, database, heartbeatMs: HEARTBEAT_MS }),
    createAuthorityService({ logs, database, keys, authenticator }),
    createEnforcementService({ intercept: createIntercept(logs, NO_GUARD), pool }),
    createEscalationService({ logs, pool, heartbeatMs: HEARTBEAT_MS }),
    createMandateService({ logs, database }),
    createToolService({ logs, database }),
  ];
  return { authenticator, services };
}

const open = (url: string): Promise<Database> =>
  openDatabase({ url, poolSize: 5, log: SILENT_LOG, entities: [...ENTITIES], migrations: MIGRATIONS });

const WORKSPACE = "default";

async function createReplica(database: Database, privateKey: KeyObject, adminKey: string): Promise<AuthorityReplica> {
  const logs = await createWorkspaceLogs(database, decide, SILENT_LOG);
  const keys = await createSigningKeys(database, privateKey, Date.now());
  const { authenticator, services } = servicesOf(database, logs, keys);
  const silent = pino({ level: "silent" });
  const pipeline = createPipeline({ services, authenticate: authenticator, log: silent, metrics: new Registry() });
  const client = <S extends DescService>(service: S) => clientOf(service, pipeline, adminKey);
  return {
    ...{ database, logs, log: await logs.of(WORKSPACE), keys },
    admin: client(AdminService),
    agents: client(AgentService),
    authority: client(AuthorityService),
    enforcement: client(EnforcementService),
    escalations: client(EscalationService),
    mandates: client(MandateService),
    tools: client(ToolService),
  };
}

async function decideAt({ logs, log }: AuthorityReplica, ms: number, tried: Tried, keyId: string): Promise<Outcome> {
  const request = create(InterceptRequestSchema, tried);
  const caller = { keyId, workspaceId: WORKSPACE, role: Role.ADMIN, agentId: null };
  const journal = { velocity: createVelocityJournal(), undo: [] };
  const state = await log.caughtUp();
  const nowMs = Math.max(logs.clock.now(), state.lastAtMs) + ms;
  return decide(state, actionFrom(request, caller), nowMs, journal);
}

/** Creates the workspace `default` and a second one on a new database, behind the real pipeline. */
export async function createAuthorityHarness(): Promise<AuthorityHarness> {
  const test = await createTestDatabase();
  const database = await open(test.url);
  const { privateKey } = generateKeyPairSync("ec", { namedCurve: "prime256v1" });
  const context = { database, nowMs: Date.now(), by: "system" };
  const { secret: adminKey } = await createWorkspace(context, { workspaceId: WORKSPACE });
  const { secret: otherKey } = await createWorkspace(context, { workspaceId: "other" });
  const first = await createReplica(database, privateKey, adminKey);
  const replicas = [first];
  return {
    ...{ ...first, adminKey, otherKey },
    async agent(name, allowedActionTypes = [], deniedActionTypes = []) {
      const permissions = { allowedActionTypes: [...allowedActionTypes], deniedActionTypes: [...deniedActionTypes] };
      return (await first.agents.registerAgent({ name, permissions })).agent?.agentId ?? "";
    },
    async revoke(agentId) {
      await revokeAgent(first.log, first.keys, { agentId, reason: "", by: "key_test" });
    },
    decideIn: (ms, tried, keyId = "key_test") => decideAt(first, ms, tried, keyId),
    async replica(signingKey = privateKey) {
      const replica = await createReplica(await open(test.url), signingKey, adminKey);
      replicas.push(replica);
      return replica;
    },
    async close() {
      for (const { logs, database } of replicas) {
        await logs.close();
        await database.close();
      }
      await test.drop();
    },
  };
}

/** The fields that a call is refused for. */
export async function fieldsOf(call: Promise<unknown>): Promise<string[]> {
  return (await failureOf(call)).violations.map(({ field }) => field);
}
