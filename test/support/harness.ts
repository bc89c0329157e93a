/*
 * A workspace of a test: real database, real services behind the real pipeline, in this process. A *workspace* has one or more
 * *replicas*, each of which is what one process of the service holds. `service.ts` starts the program itself instead.
 */

import { generateKeyPairSync, type KeyObject, randomUUID } from "node:crypto";
import {
  create,
  type DescMethod,
  type DescMethodUnary,
  type DescService,
  type JsonObject,
  type Message,
  type MessageInitShape,
  type MessageShape,
} from "@bufbuild/protobuf";
import pino from "pino";
import { Registry } from "prom-client";
import { Role } from "../../gen/agentcontrol/v1/access_pb.js";
import { AdminService } from "../../gen/agentcontrol/v1/admin_service_pb.js";
import { AgentService } from "../../gen/agentcontrol/v1/agent_service_pb.js";
import { ApproverGroupService } from "../../gen/agentcontrol/v1/approver_group_service_pb.js";
import { AuthorityService } from "../../gen/agentcontrol/v1/authority_service_pb.js";
import { DepartmentService } from "../../gen/agentcontrol/v1/department_service_pb.js";
import { AskRequestSchema, DryRunService } from "../../gen/agentcontrol/v1/dry_run_service_pb.js";
import {
  EnforcementService,
  InterceptRequestSchema,
  type InterceptResponse,
} from "../../gen/agentcontrol/v1/enforcement_service_pb.js";
import { EscalationService, Resolution } from "../../gen/agentcontrol/v1/escalation_service_pb.js";
import { IncidentService } from "../../gen/agentcontrol/v1/incident_service_pb.js";
import { ListService } from "../../gen/agentcontrol/v1/list_service_pb.js";
import {
  type ConditionsSchema,
  MandateService,
  type RuleSchema,
  RuleType,
  SequenceMode,
} from "../../gen/agentcontrol/v1/mandate_service_pb.js";
import { ProposalService } from "../../gen/agentcontrol/v1/proposal_service_pb.js";
import { type Decision, Decision as Decisions, Scope } from "../../gen/agentcontrol/v1/resources_pb.js";
import { RevocationService } from "../../gen/agentcontrol/v1/revocation_service_pb.js";
import { ToolService } from "../../gen/agentcontrol/v1/tool_service_pb.js";
import { VaultService } from "../../gen/agentcontrol/v1/vault_service_pb.js";
import { actionFrom } from "../../src/api/action.ts";
import { createAdminService } from "../../src/api/admin-service.ts";
import { createAgentService } from "../../src/api/agent-service.ts";
import { createApproverGroupService } from "../../src/api/approver-group-service.ts";
import { createAuthorityService } from "../../src/api/authority-service.ts";
import type { Caller } from "../../src/api/context.ts";
import { createDepartmentService } from "../../src/api/department-service.ts";
import { createDryRunService } from "../../src/api/dry-run-service.ts";
import { createEnforcementService } from "../../src/api/enforcement-service.ts";
import { createEscalationService } from "../../src/api/escalation-service.ts";
import { createIncidentService } from "../../src/api/incident-service.ts";
import { createListService } from "../../src/api/list-service.ts";
import { createMandateService } from "../../src/api/mandate-service.ts";
import { createProposalService } from "../../src/api/proposal-service.ts";
import { createRevocationService } from "../../src/api/revocation-service.ts";
import { createToolService } from "../../src/api/tool-service.ts";
import { createVaultService } from "../../src/api/vault-service.ts";
import { assertAudience, ServiceAudience } from "../../src/authority/audience.ts";
import { createTokenVerifier } from "../../src/authority/federation-token.ts";
import { SigningKeys, sealedFrom } from "../../src/authority/signing-key.ts";
import { createIntercept } from "../../src/decision/intercept.ts";
import { QuestionReader } from "../../src/dryrun/ask/question-reader.ts";
import { ControlPlaneError, ErrorReason } from "../../src/errors.ts";
import { createCheckpoints } from "../../src/log/checkpoint.ts";
import { readReceipt } from "../../src/log/read-receipts.ts";
import type { DecisionReceipt } from "../../src/log/receipts.ts";
import type { LogSurroundings } from "../../src/log/surroundings.ts";
import { Vault } from "../../src/log/vault.ts";
import { listenForWakeUps, type WakeUps } from "../../src/log/wake-ups.ts";
import { createWorkspaceLogs, type WorkspaceLogs } from "../../src/log/workspace-logs.ts";
import type { WorkspaceLog } from "../../src/log/writer.ts";
import { Extractor } from "../../src/observation/extractor.ts";
import { ObservationMetrics } from "../../src/observation/metrics.ts";
import { createObserve } from "../../src/observation/observe.ts";
import { StoredSessionKeys } from "../../src/observation/session-keys.ts";
import { LongChecker } from "../../src/policy/long/checker.ts";
import { normaliseName } from "../../src/policy/names.ts";
import { ActorNames } from "../../src/registry/actor-names.ts";
import { Authenticator } from "../../src/registry/authenticator.ts";
import { WorkspaceRates } from "../../src/registry/workspace-rates.ts";
import { createWorkspace } from "../../src/registry/workspaces.ts";
import type { Guard } from "../../src/semantic/guard.ts";
import type { Model } from "../../src/semantic/model.ts";
import { DEFAULT_MAX_DEPTH, Pipeline } from "../../src/server/pipeline.ts";
import { createRequestChecks } from "../../src/server/validation.ts";
import type { Action, Outcome, SealedDecision } from "../../src/state/types.ts";
import { type Database, openDatabase } from "../../src/store/database.ts";
import { createEncryptor } from "../../src/store/encryptor.ts";
import { createId } from "../../src/store/ids.ts";
import { canonicalJson, type JsonValue } from "../../src/tree/canonical.ts";
import { createTestDatabase, SILENT_LOG } from "./database.ts";
import { decideOn, dryRunOn } from "./decide-on.ts";
import { NO_GUARD, NO_MODEL } from "./no-guard.ts";
import { directUrlOf, sessionUrlOf } from "./pooler.ts";
import { createTestClock, type TestClock } from "./test-clock.ts";

/** The unary methods of a service, called through the pipeline by a caller or with a key; by default by the workspace's admin. */
export type ServiceClient<S extends DescService> = {
  readonly [K in keyof S["method"]]: S["method"][K] extends DescMethodUnary<infer I, infer O>
    ? (request: MessageInitShape<I>, as?: Caller | string) => Promise<MessageShape<O>>
    : never;
};

/** An action to attempt. */
export type InterceptInit = MessageInitShape<typeof InterceptRequestSchema>;
type RuleInit = MessageInitShape<typeof RuleSchema>;
type ConditionsInit = MessageInitShape<typeof ConditionsSchema>;

/** One process of the service, and clients of its services. */
export interface Replica {
  readonly database: Database;
  readonly logs: WorkspaceLogs;
  /** The log of the test's workspace. */
  readonly log: WorkspaceLog;
  readonly clock: TestClock;
  readonly keys: SigningKeys;
  readonly authenticator: Authenticator;
  readonly admin: ServiceClient<typeof AdminService>;
  readonly agents: ServiceClient<typeof AgentService>;
  readonly authority: ServiceClient<typeof AuthorityService>;
  readonly departments: ServiceClient<typeof DepartmentService>;
  readonly dryRuns: ServiceClient<typeof DryRunService>;
  readonly enforcement: ServiceClient<typeof EnforcementService>;
  readonly escalations: ServiceClient<typeof EscalationService>;
  readonly incidents: ServiceClient<typeof IncidentService>;
  readonly lists: ServiceClient<typeof ListService>;
  readonly proposals: ServiceClient<typeof ProposalService>;
  readonly approverGroups: ServiceClient<typeof ApproverGroupService>;
  readonly mandates: ServiceClient<typeof MandateService>;
  readonly revocations: ServiceClient<typeof RevocationService>;
  readonly tools: ServiceClient<typeof ToolService>;
  readonly vault: ServiceClient<typeof VaultService>;
}

/** How a replica is made. */
export interface ReplicaOptions {
  /** How it logs in to the database. Default: as the workspace's first replica. */
  readonly url?: string;
  /** Default: a service without a model. */
  readonly guard?: Guard;
  /** The model that reads questions. Default: none. */
  readonly model?: Model;
  readonly surroundings?: LogSurroundings;
  /** Default: the signing key of the workspace's first replica. */
  readonly signingKey?: KeyObject;
  /** Deadline of calls in milliseconds, for more of them at once than a busy machine serves in time. Default: the service's. */
  readonly deadlineMs?: number;
}

/** How a workspace is made. */
export interface WorkspaceOptions extends ReplicaOptions {
  /** Default `default`. */
  readonly workspaceId?: string;
  /** Default 1. Surroundings are those of all replicas but the first. */
  readonly replicas?: number;
  /** Whether replicas hear when others append. Default true. */
  readonly hearsWakeUps?: boolean;
}

/** A workspace on a database of its own, with the members of its first replica and shorthands of what tests do most. */
export interface TestWorkspace extends Replica {
  /** Logs in to the database as the service does. */
  readonly url: string;
  /** Logs in as the owner of the tables. */
  readonly ownerUrl: string;
  readonly workspaceId: string;
  readonly adminCaller: Caller;
  /** The secret of the admin's key. */
  readonly adminKey: string;
  readonly replicas: readonly Replica[];
  /** Opens one more replica; closed with the workspace. */
  replica(options?: ReplicaOptions): Promise<Replica>;
  /** Registers an agent, by its name or as it is sent, and gives its id. Without lists it may do everything. */
  agent(init?: string | object, allowed?: readonly string[], denied?: readonly string[]): Promise<string>;
  /** Registers agents without restrictions. */
  newAgents(count: number): Promise<string[]>;
  department(...members: readonly string[]): Promise<string>;
  /** Publishes a mandate of one or more rules; gives its id. */
  mandate(rules: readonly RuleInit[], init?: object): Promise<string>;
  intercept(init: InterceptInit, replica?: Replica): Promise<InterceptResponse>;
  /** What an action would come to some milliseconds from now; nothing is sealed. */
  decideIn(ms: number, init: InterceptInit, keyId?: string): Promise<Outcome>;
  receipt(decisionId: string): Promise<DecisionReceipt>;
  revoke(agentId: string): Promise<unknown>;
  resolve(escalationId: string, resolution?: Resolution, replica?: Replica): Promise<unknown>;
  close(): Promise<void>;
}

/** The name of the service in checkpoints. */
export const ORIGIN = "log.example.com";
/** The address of the service, as if it were configured. */
export const PUBLIC_URL = "https://acp.example.com";
const AUDIENCE = new ServiceAudience({ publicUrl: PUBLIC_URL, origin: ORIGIN });
const CHECK_QUESTION = createRequestChecks(DEFAULT_MAX_DEPTH)(AskRequestSchema);
/** Longer than any test. */
const HEARTBEAT_MS = 60_000;

/** Makes a key that the service can sign with. */
export function newPrivateKey(): KeyObject {
  return generateKeyPairSync("ec", { namedCurve: "prime256v1" }).privateKey;
}

/** Makes a unary call through a pipeline without a wire. */
async function callPipeline(pipeline: Pipeline, method: DescMethod, init: object, key: string): Promise<Message> {
  const call = await pipeline.admit(method, {
    wire: "rest",
    receivedAt: performance.now(),
    requestId: "test",
    header: (name) => (name === "x-api-key" ? key : undefined),
    timeoutMs: () => undefined,
    onLeave: () => undefined,
  });
  return pipeline.unary(
    call,
    () => create(method.input, init as never),
    (value) => ({ value, bytes: 0 }),
  );
}

/** A client that calls through a pipeline; `keyOf` gives the key of a caller. */
function clientOf<S extends DescService>(
  service: S,
  pipeline: Pipeline,
  keyOf: (as: Caller | string | undefined) => string,
): ServiceClient<S> {
  const entries = service.methods.map((method) => {
    const call = (init: object, as?: Caller | string): Promise<Message> =>
      callPipeline(pipeline, method, init, keyOf(as));
    return [method.localName, call];
  });
  return Object.fromEntries(entries) as ServiceClient<S>;
}

/** Keys of sessions, encrypted under a secret that all replicas of a test share. */
export const createSessionKeys = (pool: Database["pool"]) =>
  new StoredSessionKeys({ pool, encryptor: createEncryptor("a secret of tests that is long enough") });

/** Callers without a stored key, by keys that stand for them. */
function createStandIns() {
  const callers = new Map<string, Caller>();
  return {
    find: (key: string): Caller | undefined => callers.get(key),
    keyOf(caller: Caller): string {
      const key = `stand-in ${JSON.stringify(caller)}`;
      callers.set(key, caller);
      return key;
    },
  };
}

function servicesOf(
  parts: Pick<Replica, "database" | "logs" | "keys" | "authenticator"> & { readonly sessionKeys: StoredSessionKeys },
  { guard, model }: { readonly guard: Guard; readonly model: Model },
) {
  const { database, logs, keys, sessionKeys } = parts;
  const { pool } = database;
  const heartbeatMs = HEARTBEAT_MS;
  const checker = new LongChecker();
  const questions = new QuestionReader({ model, log: SILENT_LOG, check: CHECK_QUESTION });
  return [
    createAdminService({ ...parts, audience: AUDIENCE, rates: new WorkspaceRates(pool) }),
    createAgentService({ logs, database, heartbeatMs }),
    createAuthorityService(parts),
    createDepartmentService({ logs }),
    createDryRunService({ logs, pool, checker, database, questions, sessionKeys }),
    createEnforcementService({
      intercept: createIntercept({ logs, guard, checker }),
      observe: createObserve({
        pool,
        keys: sessionKeys,
        extractor: new Extractor(),
        log: SILENT_LOG,
        metrics: new ObservationMetrics(new Registry()),
      }),
      logs,
      pool,
      heartbeatMs,
    }),
    createEscalationService({ logs, pool, guard, checker, heartbeatMs }),
    createIncidentService(database),
    createListService({ logs, database }),
    createApproverGroupService({ logs, pool: database.pool }),
    createMandateService({ logs, database }),
    createProposalService({ logs, database, rates: { forget: () => undefined } }),
    createRevocationService(parts),
    createToolService({ logs, database }),
    createVaultService(
      new Vault({ pool, logs, sign: createCheckpoints(ORIGIN, keys), sealKey: (log) => keys.sealIn(log) }),
      new ActorNames(pool),
    ),
  ];
}

const open = (url: string): Promise<Database> =>
  openDatabase({ url, directUrl: directUrlOf(url), poolSize: 5, log: SILENT_LOG });

async function createReplica(
  database: Database,
  admin: Caller,
  { guard = NO_GUARD, model = NO_MODEL, surroundings, signingKey = newPrivateKey(), deadlineMs }: ReplicaOptions,
): Promise<Replica> {
  const clock = createTestClock();
  const sessionKeys = createSessionKeys(database.pool);
  const logs = await createWorkspaceLogs(database, SILENT_LOG, { sessionKeys, ...surroundings, clock });
  const keys = new SigningKeys({ database, logs, privateKey: signingKey });
  const authenticator = new Authenticator({ database, clock: logs.clock, verifyToken: createTokenVerifier(keys) });
  const standIns = createStandIns();
  const pipeline = new Pipeline({
    services: servicesOf({ database, logs, keys, authenticator, sessionKeys }, { guard, model }),
    authenticate: (key) => standIns.find(key) ?? authenticator.authenticate(key),
    assertAudience: (audience, workspaceId) => assertAudience(audience, AUDIENCE.of(workspaceId)),
    log: pino({ level: "silent" }),
    metrics: new Registry(),
    ...(deadlineMs === undefined ? {} : { defaultDeadlineMs: deadlineMs }),
  });
  const keyOf = (as: Caller | string = admin): string => (typeof as === "string" ? as : standIns.keyOf(as));
  const client = <S extends DescService>(service: S) => clientOf(service, pipeline, keyOf);
  return {
    database,
    logs,
    log: await logs.of(admin.workspaceId),
    clock,
    keys,
    authenticator,
    admin: client(AdminService),
    agents: client(AgentService),
    authority: client(AuthorityService),
    departments: client(DepartmentService),
    dryRuns: client(DryRunService),
    enforcement: client(EnforcementService),
    escalations: client(EscalationService),
    incidents: client(IncidentService),
    lists: client(ListService),
    proposals: client(ProposalService),
    approverGroups: client(ApproverGroupService),
    mandates: client(MandateService),
    revocations: client(RevocationService),
    tools: client(ToolService),
    vault: client(VaultService),
  };
}

/** Opens a workspace on a new database. */
export async function openWorkspace(options: WorkspaceOptions = {}): Promise<TestWorkspace> {
  const { workspaceId = "default", replicas: count = 1, signingKey = newPrivateKey() } = options;
  const { guard = NO_GUARD, model = NO_MODEL, deadlineMs } = options;
  const deadline = deadlineMs === undefined ? {} : { deadlineMs };
  const test = await createTestDatabase();
  const database = await open(test.url);
  const context = { database, nowMs: Date.now(), by: "system", signingKey: sealedFrom(signingKey) };
  const created = await createWorkspace(context, { workspaceId });
  const adminCaller = { keyId: created.key.keyId, workspaceId, role: Role.ADMIN, agentId: null };
  const replicas: Replica[] = [];
  const wakeUps: WakeUps[] = [];
  const add = async (opened: Database, more: ReplicaOptions): Promise<Replica> => {
    const replica = await createReplica(opened, adminCaller, { guard, model, signingKey, ...deadline, ...more });
    replicas.push(replica);
    if (options.hearsWakeUps ?? true)
      wakeUps.push(await listenForWakeUps(sessionUrlOf(test.url), SILENT_LOG, (wakeUp) => replica.logs.wakeUp(wakeUp)));
    return replica;
  };
  const first = await add(database, {});
  const replica = async (more: ReplicaOptions = {}): Promise<Replica> => add(await open(more.url ?? test.url), more);
  while (replicas.length < count) await replica({ surroundings: options.surroundings ?? {} });
  return {
    ...first,
    url: test.url,
    ownerUrl: test.ownerUrl,
    workspaceId,
    adminCaller,
    adminKey: created.secret,
    replicas,
    replica,
    ...shorthandsOf(first, workspaceId),
    async close() {
      for (const wakeUp of wakeUps) await wakeUp.close();
      for (const { logs, database } of replicas) {
        await logs.close();
        await database.close();
      }
      await test.drop();
    },
  };
}

function shorthandsOf(first: Replica, workspaceId: string) {
  const { agents, departments, mandates, clock, log, database } = first;
  const agent: TestWorkspace["agent"] = async (init = {}, allowed = [], denied = []) => {
    const permissions = { allowedActionTypes: [...allowed], deniedActionTypes: [...denied] };
    const named = typeof init === "string" ? { name: init } : init;
    return (await agents.registerAgent({ name: "agent", permissions, ...named })).agent?.agentId ?? "";
  };
  const shorthands: Omit<
    TestWorkspace,
    keyof Replica | "url" | "ownerUrl" | "workspaceId" | "adminCaller" | "adminKey" | "replicas" | "replica" | "close"
  > = {
    agent,
    async newAgents(count) {
      const ids: string[] = [];
      while (ids.length < count) ids.push(await agent(`agent ${ids.length}`));
      return ids;
    },
    async department(...members) {
      const { department } = await departments.createDepartment({ name: randomUUID() });
      const departmentId = department?.departmentId ?? "";
      for (const agentId of members) await departments.addDepartmentMember({ departmentId, agentId });
      return departmentId;
    },
    async mandate(rules, init = {}) {
      const { mandate } = await mandates.createMandate({ name: `mandate ${randomUUID()}`, rules: [...rules], ...init });
      return mandate?.mandateId ?? "";
    },
    intercept: (init, by = first) => by.enforcement.intercept(init),
    decideIn(ms, init, keyId = "key_test") {
      const caller = { keyId, workspaceId, role: Role.ADMIN, agentId: null };
      return clock.ahead(ms, () => dryRunOn(log, actionFrom(create(InterceptRequestSchema, init), caller)));
    },
    async receipt(decisionId) {
      return (await readReceipt(database.pool, workspaceId, decisionId)) as DecisionReceipt;
    },
    revoke: (agentId) => first.revocations.revokeAgent({ agentId }),
    resolve: (escalationId, resolution = Resolution.APPROVED, by = first) =>
      by.escalations.resolveEscalation({ escalationId, resolution }),
  };
  return shorthands;
}

/** Runs a test in a workspace of its own, which is closed however the test ends. */
export async function withWorkspace<T>(
  options: WorkspaceOptions,
  use: (workspace: TestWorkspace) => Promise<T>,
): Promise<T> {
  const workspace = await openWorkspace(options);
  try {
    return await use(workspace);
  } finally {
    await workspace.close();
  }
}

/** A key of role `agent` that is bound to an agent. */
export const keyOfAgent = (caller: Caller, agentId: string): Caller => ({
  ...callerWith(caller, Role.AGENT, agentId),
  keyId: `key_of_${agentId}`,
});

/** The admin of a workspace with another role, bound to an agent or to none. */
export function callerWith(admin: Caller, role: Role, agentId: string | null = null): Caller {
  return { ...admin, role, agentId };
}

/** A rule that fires on action types. */
export function actionRule(decision: Decision, ...matchActionTypes: string[]): RuleInit {
  return { type: RuleType.ACTION, decision, conditions: { matchActionTypes } };
}

/** A rule that fires when more than `maxCount` actions that match `pay*` come within the window. */
export function velocityRule(maxCount: number, conditions: ConditionsInit = {}, decision = Decisions.BLOCK): RuleInit {
  return {
    type: RuleType.SEQUENCE,
    decision,
    conditions: {
      mode: SequenceMode.VELOCITY,
      matchActionTypes: ["pay*"],
      maxCount: BigInt(maxCount),
      windowSeconds: 3600n,
      scope: Scope.AGENT,
      ...conditions,
    },
  };
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
    agentId,
    actionType,
    actionContent,
    metadata,
    tool,
    sessionId,
    onBehalfOf,
    decisionId: createId("dec"),
    isRetryable: false,
    normalisedType: normaliseName(actionType),
    metadataText: metadata === undefined ? "" : canonicalJson(metadata as JsonValue),
    grantId: undefined,
    intentContractId: undefined,
    escalationId: undefined,
    keyId: "key_test",
  };
}

/** Decides an action. */
export function attempt(log: WorkspaceLog, tried: Attempt): Promise<SealedDecision> {
  return decideOn(log, actionOf(tried));
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

/** The fields that a call is refused for. */
export async function fieldsOf(call: Promise<unknown>): Promise<string[]> {
  return (await failureOf(call)).violations.map(({ field }) => field);
}

/** Splits what promises came to: values of the fulfilled ones, reasons of the others. */
export async function settled<T>(calls: readonly Promise<T>[]): Promise<{ values: T[]; errors: unknown[] }> {
  const results = await Promise.allSettled(calls);
  return {
    values: results.flatMap((result) => (result.status === "fulfilled" ? [result.value] : [])),
    errors: results.flatMap((result) => (result.status === "rejected" ? [result.reason] : [])),
  };
}

/** Resolves when something holds; looks every 10 milliseconds. The test's own time limit is the only one. */
export async function until(holds: () => boolean | Promise<boolean>): Promise<void> {
  while (!(await holds())) await new Promise((resolve) => setTimeout(resolve, 10));
}
