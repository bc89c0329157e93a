import {
  create,
  type DescMethodUnary,
  type DescService,
  type JsonObject,
  type Message,
  type MessageInitShape,
  type MessageShape,
} from "@bufbuild/protobuf";
import { Role } from "../../gen/agentcontrol/v1/access_pb.js";
import { AdminService } from "../../gen/agentcontrol/v1/admin_service_pb.js";
import { AgentService } from "../../gen/agentcontrol/v1/agent_service_pb.js";
import { DepartmentService } from "../../gen/agentcontrol/v1/department_service_pb.js";
import { MandateService } from "../../gen/agentcontrol/v1/mandate_service_pb.js";
import { ToolService } from "../../gen/agentcontrol/v1/tool_service_pb.js";
import { createAdminService } from "../../src/api/admin-service.ts";
import { createAgentService } from "../../src/api/agent-service.ts";
import type { Caller } from "../../src/api/context.ts";
import { createDepartmentService } from "../../src/api/department-service.ts";
import { createMandateService } from "../../src/api/mandate-service.ts";
import type { ServiceDefinition } from "../../src/api/service.ts";
import { createToolService } from "../../src/api/tool-service.ts";
import { decide } from "../../src/decision/decide.ts";
import { ControlPlaneError, ErrorReason } from "../../src/errors.ts";
import type { LogSurroundings, WorkspaceLog } from "../../src/log/workspace-log.ts";
import { createWorkspaceLogs, type WorkspaceLogs } from "../../src/log/workspace-logs.ts";
import { normaliseActionType } from "../../src/policy/action-pattern.ts";
import { type Authenticator, createAuthenticator } from "../../src/registry/authenticator.ts";
import { createWorkspace } from "../../src/registry/workspaces.ts";
import { createRequestChecks } from "../../src/server/request-check.ts";
import type { Action, SealedDecision } from "../../src/state/types.ts";
import { type Database, openDatabase } from "../../src/store/database.ts";
import { ENTITIES } from "../../src/store/entities.ts";
import { createId } from "../../src/store/ids.ts";
import { MIGRATIONS } from "../../src/store/migrations.ts";
import { canonicalJson, type JsonValue } from "../../src/tree/canonical.ts";
import { createTestDatabase, SILENT_LOG } from "./database.ts";

/** The unary methods of a service as a test calls them; without a caller the admin of the test's workspace calls. */
export type ServiceClient<S extends DescService> = {
  readonly [K in keyof S["method"]]: S["method"][K] extends DescMethodUnary<infer I, infer O>
    ? (request: MessageInitShape<I>, caller?: Caller) => Promise<MessageShape<O>>
    : never;
};

/** The services of the registry. */
export interface RegistryServices {
  readonly agents: ServiceClient<typeof AgentService>;
  readonly departments: ServiceClient<typeof DepartmentService>;
  readonly tools: ServiceClient<typeof ToolService>;
  readonly mandates: ServiceClient<typeof MandateService>;
  readonly admin: ServiceClient<typeof AdminService>;
}

/** One process of the control plane, as far as a workspace's log and the registry go. */
export interface Replica {
  readonly database: Database;
  readonly logs: WorkspaceLogs;
  /** The log of the test's workspace. */
  readonly log: WorkspaceLog;
  readonly authenticator: Authenticator;
  readonly services: RegistryServices;
}

/** A workspace on a database of its own, with the key of its admin. */
export interface TestWorkspace extends Replica {
  readonly url: string;
  readonly workspaceId: string;
  readonly adminCaller: Caller;
  /** The secret of the admin's key. */
  readonly secret: string;
  /** Another process on the same database; closed with the workspace. */
  replica(surroundings?: LogSurroundings): Promise<Replica>;
  close(): Promise<void>;
}

const checkOf = createRequestChecks(64);

/** Calls a service the way the pipeline does: request checked, reply made a message. */
export function clientOf<S extends DescService>(
  service: S,
  { functions }: ServiceDefinition,
  defaultCaller: Caller,
): ServiceClient<S> {
  const entries = service.methods.map((method) => {
    const check = checkOf(method.input);
    const call = async (init: object, caller = defaultCaller): Promise<Message> => {
      const request = create(method.input, init as never);
      check(request);
      const context = {
        caller,
        signal: new AbortController().signal,
        isOver: false,
        receivedAt: performance.now(),
        requestId: "test",
      };
      return create(method.output, (await functions[method.localName]?.(request as never, context)) as never);
    };
    return [method.localName, call];
  });
  return Object.fromEntries(entries) as ServiceClient<S>;
}

const open = (url: string): Promise<Database> =>
  openDatabase({ url, poolSize: 5, log: SILENT_LOG, entities: [...ENTITIES], migrations: MIGRATIONS });

async function createReplica(opened: Database, caller: Caller, surroundings?: LogSurroundings): Promise<Replica> {
  const logs = await createWorkspaceLogs(opened, decide, SILENT_LOG, surroundings);
  const log = await logs.of(caller.workspaceId);
  const authenticator = createAuthenticator({ database: opened, clock: logs.clock });
  const options = { logs, database: opened, authenticator, heartbeatMs: 15_000 };
  const services = {
    agents: clientOf(AgentService, createAgentService(options), caller),
    departments: clientOf(DepartmentService, createDepartmentService(options), caller),
    tools: clientOf(ToolService, createToolService(options), caller),
    mandates: clientOf(MandateService, createMandateService(options), caller),
    admin: clientOf(AdminService, createAdminService(options), caller),
  };
  return { database: opened, logs, log, authenticator, services };
}

/** Creates a workspace, by default `default`, on a new database. */
export async function createTestWorkspace(workspaceId = "default"): Promise<TestWorkspace> {
  const test = await createTestDatabase();
  const database = await open(test.url);
  const created = await createWorkspace({ database, nowMs: Date.now(), by: "system" }, { workspaceId });
  const adminCaller = { keyId: created.key.keyId, workspaceId, role: Role.ADMIN, agentId: null };
  const replicas = [await createReplica(database, adminCaller)];
  return {
    ...(replicas[0] as Replica),
    ...{ url: test.url, workspaceId, adminCaller, secret: created.secret },
    async replica(surroundings) {
      const replica = await createReplica(await open(test.url), adminCaller, surroundings);
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

/** The admin of a workspace with another role, bound to an agent or to none. */
export function callerWith(admin: Caller, role: Role, agentId: string | null = null): Caller {
  return { ...admin, role, agentId };
}

/** What an agent attempts, as far as a test says. */
export interface Attempt {
  readonly agentId: string;
  readonly actionType: string;
  readonly actionContent?: string;
  readonly metadata?: JsonObject;
  readonly tool?: string;
  readonly sessionId?: string;
  readonly onBehalfOf?: string;
}

/** The action of an attempt, with a new id. */
export function actionOf(tried: Attempt): Action {
  const { agentId, actionType, actionContent = "", metadata, tool, sessionId, onBehalfOf } = tried;
  return {
    ...{ agentId, actionType, actionContent, metadata, tool, sessionId, onBehalfOf },
    decisionId: createId("dec"),
    isRetryable: false,
    normalisedType: normaliseActionType(actionType),
    metadataText: metadata === undefined ? "" : canonicalJson(metadata as JsonValue),
    grantId: undefined,
    intentContractId: undefined,
    escalationId: undefined,
    keyId: "key_test",
  };
}

/** Decides an action. */
export function attempt(log: WorkspaceLog, tried: Attempt): Promise<SealedDecision> {
  return log.decide(actionOf(tried), () => false);
}

/** The `ControlPlaneError` that a call fails with; throws when it does not fail, or with another error. */
export async function failureOf(call: Promise<unknown> | (() => unknown)): Promise<ControlPlaneError> {
  try {
    await (typeof call === "function" ? call() : call);
  } catch (error) {
    if (error instanceof ControlPlaneError) return error;
    throw error;
  }
  throw new Error("the call did not fail");
}

/** The word of the reason that a call fails with: `AGENT_NOT_FOUND`. */
export async function reasonOf(call: Promise<unknown> | (() => unknown)): Promise<string> {
  return ErrorReason[(await failureOf(call)).reason] as string;
}
