import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import type { Logger } from "pino";
import { Registry } from "prom-client";
import { Role } from "../gen/agentcontrol/v1/access_pb.js";
import { AskRequestSchema } from "../gen/agentcontrol/v1/dry_run_service_pb.js";
import { InterceptRequestSchema } from "../gen/agentcontrol/v1/enforcement_service_pb.js";
import { createAdminService } from "./api/admin-service.ts";
import { createAgentService } from "./api/agent-service.ts";
import { createApproverGroupService } from "./api/approver-group-service.ts";
import { createAuthorityService } from "./api/authority-service.ts";
import { createDepartmentService } from "./api/department-service.ts";
import { createDryRunService } from "./api/dry-run-service.ts";
import { createEnforcementService } from "./api/enforcement-service.ts";
import { createEscalationService } from "./api/escalation-service.ts";
import { createIncidentService } from "./api/incident-service.ts";
import { createListService } from "./api/list-service.ts";
import { createMandateService } from "./api/mandate-service.ts";
import { createMcpServerService } from "./api/mcp-server-service.ts";
import { createNotificationService } from "./api/notification-service.ts";
import { createProposalService } from "./api/proposal-service.ts";
import { createRedactionService } from "./api/redaction-service.ts";
import { createRevocationService } from "./api/revocation-service.ts";
import type { ServiceDefinition } from "./api/service.ts";
import { createToolService } from "./api/tool-service.ts";
import { createVaultService } from "./api/vault-service.ts";
import { createWebhookService } from "./api/webhook-service.ts";
import { assertAudience, ServiceAudience } from "./authority/audience.ts";
import { createTokenVerifier } from "./authority/federation-token.ts";
import { loadSigningKey, SigningKeys } from "./authority/signing-key.ts";
import { type Config, defaultMcpHomes, ENCRYPTION_KEY_FILE, SIGNING_KEY_FILE } from "./config.ts";
import { createIntercept, type Intercept } from "./decision/intercept.ts";
import { DecisionMetrics } from "./decision/metrics.ts";
import { QuestionReader } from "./dryrun/ask/question-reader.ts";
import { createEscalationExpiry } from "./escalation/expiry.ts";
import { EscalationMetrics } from "./escalation/metrics.ts";
import { createEscalationReminders } from "./escalation/reminders.ts";
import { AccessTokens } from "./gateway/access-tokens.ts";
import { McpCallers } from "./gateway/caller.ts";
import { ChildIsolation } from "./gateway/child-isolation.ts";
import { Children } from "./gateway/children.ts";
import { DeferredUpstreams } from "./gateway/deferred-upstreams.ts";
import { McpGateway } from "./gateway/gateway.ts";
import { HeldActions } from "./gateway/held-actions.ts";
import { HookCalls } from "./gateway/hook-calls.ts";
import { HookSessions } from "./gateway/hook-sessions.ts";
import { CodingAgentHooks } from "./gateway/hooks.ts";
import { KeptResults } from "./gateway/kept-results.ts";
import { RequestOrigins } from "./gateway/origin.ts";
import { OutcomeReports } from "./gateway/outcome-reports.ts";
import { createAnswerPot, createChildPot, createTaskPot } from "./gateway/pots.ts";
import { ProtectedResource } from "./gateway/protected-resource.ts";
import { McpEnds } from "./gateway/session-ends.ts";
import { UpstreamFaults } from "./gateway/upstream-faults.ts";
import { createCheckpoints } from "./log/checkpoint.ts";
import { CheckpointFile } from "./log/checkpoint-file.ts";
import { CheckpointKeeper, type CheckpointStore } from "./log/checkpoint-keeper.ts";
import { CheckpointReceiver } from "./log/checkpoint-receiver.ts";
import type { DueWork } from "./log/due-work.ts";
import { LogMetrics } from "./log/metrics.ts";
import { createUnknownOutcomes } from "./log/unknown-outcomes.ts";
import { Vault } from "./log/vault.ts";
import { listenForWakeUps, type WakeUpListener } from "./log/wake-ups.ts";
import { createWorkspaceLogs, type WorkspaceLogs } from "./log/workspace-logs.ts";
import { createRedisParts, type RedisParts } from "./mirror/redis.ts";
import { Notifications } from "./notification/notifications.ts";
import { NotificationSender } from "./notification/sender.ts";
import { SlackInbox } from "./notification/slack-inbox.ts";
import { EndedSessions } from "./observation/ended-sessions.ts";
import { Extractor } from "./observation/extractor.ts";
import { ObservationMetrics } from "./observation/metrics.ts";
import { createObserve, type Observe } from "./observation/observe.ts";
import { StoredSessionKeys } from "./observation/session-keys.ts";
import { LongChecker } from "./policy/long/checker.ts";
import {
  createRedaction,
  createRedactionProxy,
  PERSONAL_KINDS,
  type Redaction,
  type RedactionProxy,
} from "./redaction/index.ts";
import { ActorNames } from "./registry/actor-names.ts";
import { Authenticator, type KeyHolder } from "./registry/authenticator.ts";
import { openInvite } from "./registry/invites.ts";
import { KeyUses } from "./registry/key-uses.ts";
import { McpDefinitions } from "./registry/mcp-definitions.ts";
import { McpServers } from "./registry/mcp-servers.ts";
import { type DueMembership, Memberships } from "./registry/memberships.ts";
import { personLabel, personName } from "./registry/person-name.ts";
import { SignIns } from "./registry/sign-ins.ts";
import { WorkspaceRates } from "./registry/workspace-rates.ts";
import { createGuard, type Guard } from "./semantic/guard.ts";
import { createModel } from "./semantic/model.ts";
import { CallerFinder, type CallerFinderOptions } from "./server/admission.ts";
import { CallLog } from "./server/call-log.ts";
import { dashboardPages } from "./server/dashboard/assets.ts";
import { isReachedOverTls, SignInCookie } from "./server/dashboard/cookie.ts";
import { inviteRoute } from "./server/dashboard/invite.ts";
import { OidcSignIn } from "./server/dashboard/oidc.ts";
import type { GroupRule } from "./server/dashboard/oidc-person.ts";
import { OidcRechecks } from "./server/dashboard/oidc-rechecks.ts";
import { signInRoute } from "./server/dashboard/sign-in.ts";
import { DeferredDocs } from "./server/docs/deferred-docs.ts";
import { createGrpcServer } from "./server/grpc/server.ts";
import { Health } from "./server/health.ts";
import { maxHeldBytesFor } from "./server/held-bytes.ts";
import { createHttpServer, type HttpRoute, type MetricsPage } from "./server/http.ts";
import { sendJson } from "./server/http-reply.ts";
import { LargeRequests } from "./server/large-requests.ts";
import { measureEventLoop } from "./server/metrics.ts";
import type { WatchKeys } from "./server/open-streams.ts";
import { OperatorAccess } from "./server/operator-access.ts";
import { DEFAULT_MAX_DEPTH, Pipeline } from "./server/pipeline.ts";
import { measureProcess } from "./server/process-metrics.ts";
import { RateLimits } from "./server/rate-limits.ts";
import { Readiness } from "./server/readiness.ts";
import { createNoteRefusal, type NoteRefusal } from "./server/refusals.ts";
import { createRestTranscoder } from "./server/rest/transcoder.ts";
import { type Addresses, joinServers, type Servers } from "./server/servers.ts";
import { slackRoute } from "./server/slack-route.ts";
import { TlsFiles } from "./server/tls.ts";
import { createRequestChecks } from "./server/validation.ts";
import { WrongKeys } from "./server/wrong-keys.ts";
import { openDataDirectory } from "./store/data-directory.ts";
import { type Database, openDatabase, stored } from "./store/database.ts";
import { createEncryptor, type Encryptor, loadEncryptionKey } from "./store/encryptor.ts";
import { measureDatabase } from "./store/metrics.ts";
import type { StoreLog } from "./store/migrate.ts";
import { OutageWatch } from "./store/outage.ts";
import { reencrypt } from "./store/reencrypt.ts";
import { startTracing } from "./tracing/open-telemetry.ts";
import type { TraceSettings } from "./tracing/settings.ts";
import type { Tracing } from "./tracing/tracing.ts";
import { versionOf } from "./version.ts";
import { createTargets, type Targets } from "./webhook/target.ts";
import { Webhooks } from "./webhook/webhooks.ts";

/** A control plane with all its parts. */
export interface ControlPlane {
  readonly logs: WorkspaceLogs;
  readonly database: Database;
  /** The key that signs, as new workspaces seal it. */
  readonly signingKey: SigningKeys["sealed"];
  /** Seals the signing key wherever it is not sealed, then serves on the configured ports. Rejects with SIGNING_KEY_RETIRED. */
  listen(): Promise<Addresses>;
  /** Says that it no longer serves, and goes on serving. Resolves after `lameDuckMs`. */
  retire(): Promise<void>;
  /** Refuses new work, lets calls in flight finish within `drainMs`, and releases everything. */
  close(): Promise<void>;
}

/** Sizes of what workspaces share. */
export interface ShareSizes {
  /** Bytes of requests, for each kind of route. Default: 256 MiB, or eight of the largest bodies. */
  readonly requestBytes?: number;
  /** Child processes of MCP servers. Default 512. */
  readonly mcpChildren?: number;
  /** Bytes of messages of MCP servers. Default: 256 MiB, or eight of the largest. */
  readonly mcpAnswerBytes?: number;
  /** Bytes of results of tasks that wait for their clients. Default: 256 MiB, or eight of the largest. */
  readonly taskBytes?: number;
}

/** Options of a control plane. */
export interface ControlPlaneOptions {
  readonly config: Config;
  /** URL of the configured or the embedded database, for the login that serves. */
  readonly databaseUrl: string;
  /** The same for its owner; absent where another process migrates. */
  readonly databaseOwnerUrl?: string | undefined;
  readonly log: Logger;
  /** Page at `/metrics`. Default: the metrics of this process. */
  readonly metricsPage?: (own: Registry) => MetricsPage;
  /** Turns of the large requests of the process. Default: those of this control plane alone. */
  readonly largeRequests?: LargeRequests;
  /** Default: the sizes that the guide names. */
  readonly shares?: ShareSizes;
  /** How to trace. Default: nothing is traced. */
  readonly traces?: TraceSettings | undefined;
  /** False in all processes but one of those that share the places of checkpoints. Default true. */
  readonly keepsCheckpoints?: boolean;
  /** True in a process that shares its ports with others, which it leaves to them as soon as it closes. Default false. */
  readonly sharesPorts?: boolean;
}

interface Parts {
  readonly config: Config;
  readonly log: Logger;
  readonly metrics: Registry;
  readonly metricsPage: MetricsPage;
  readonly database: Database;
  readonly redis: RedisParts;
  readonly logs: WorkspaceLogs;
  readonly expiry: DueWork;
  /** Reminds people of escalations. */
  readonly reminders: DueWork;
  /** Seals outcomes that nobody reported in time. */
  readonly unknownOutcomes: DueWork;
  readonly authenticator: Authenticator;
  readonly keyUses: KeyUses;
  readonly keys: SigningKeys;
  readonly webhooks: Webhooks;
  readonly notifications: Notifications;
  readonly slackInbox: SlackInbox;
  readonly redaction: Redaction;
  readonly proxy: RedactionProxy;
  readonly intercept: Intercept;
  readonly decisionMetrics: DecisionMetrics;
  readonly mcp: McpParts;
  readonly guard: Guard;
  readonly questions: QuestionReader;
  readonly checker: LongChecker;
  readonly observe: Observe;
  readonly extractor: Extractor;
  readonly sessionKeys: StoredSessionKeys;
  readonly endedSessions: EndedSessions;
  readonly encryptor: Encryptor;
  /** The one queue of large requests, over every wire and through the gateway. */
  readonly largeRequests: LargeRequests;
  readonly shares: ShareSizes;
  readonly outage: OutageWatch;
  /** Log of the parts that go on by themselves, which is quiet during an outage of the database. */
  readonly quietLog: StoreLog;
  /** Wrong keys, counted over every wire and route together. */
  readonly wrongKeys: WrongKeys;
  readonly callLog: CallLog;
  /** Logs calls that routes beside the services refuse. */
  readonly noteRefusal: NoteRefusal;
  /** Rates of calls, counted over every wire and route together. */
  readonly rateLimits: RateLimits;
  /** Rates of calls that workspaces set. */
  readonly rates: WorkspaceRates;
  /** Audiences of federation tokens that open calls. */
  readonly audience: ServiceAudience;
  /** Undefined where the ports speak no TLS. */
  readonly tls: TlsFiles | undefined;
  /** Records spans; undefined if nothing is traced. */
  readonly tracing: Tracing | undefined;
  readonly vault: Vault;
}

/** Parts of the MCP gateway. */
interface McpParts {
  readonly servers: McpServers;
  readonly definitions: McpDefinitions;
  readonly targets: Targets;
  readonly gateway: McpGateway;
  readonly faults: UpstreamFaults;
  readonly isolation: ChildIsolation;
  readonly resource: ProtectedResource;
  readonly hooks: CodingAgentHooks;
  readonly hookCalls: HookCalls;
  readonly hookSessions: HookSessions;
  readonly kept: KeptResults;
  readonly outcomes: OutcomeReports;
}

/** The built dashboard: beside the sources after `npm start`, beside the compiled files in a package. */
const DASHBOARD_FOLDER = fileURLToPath(new URL("../.generated/dashboard", import.meta.url));

/** Question to the database; a connection that does not answer it is given up. */
const PING = { text: "select 1", query_timeout: 2_000 };

/** Time in which deliveries in flight must end, milliseconds. */
const FLUSH_MS = 1_000;
/** Milliseconds that the database may take for the last queries of a process that stops, once every call is answered. */
const LAST_QUERIES_MS = 5_000;

/** Also serves paths below `/v1` below `/api/v1`. */
const aliases = (template: string): string[] => (template.startsWith("/v1/") ? [`/api${template}`] : []);

function createServices({
  database,
  logs,
  authenticator,
  keys,
  webhooks,
  notifications,
  redaction,
  intercept,
  observe,
  decisionMetrics,
  mcp,
  guard,
  questions,
  checker,
  sessionKeys,
  config,
  audience,
  rates,
  vault,
}: Parts): ServiceDefinition[] {
  const { pool } = database;
  const { streamHeartbeatMs: heartbeatMs } = config;
  return [
    createAgentService({ logs, database, heartbeatMs }),
    createDepartmentService({ logs }),
    createToolService({ logs, database }),
    createListService({ logs, database }),
    createApproverGroupService({ logs, pool: database.pool }),
    createMandateService({ logs, database }),
    createProposalService({ logs, database, rates }),
    createEnforcementService({ intercept, observe, logs, pool, heartbeatMs }),
    createDryRunService({ logs, pool, checker, database, questions, sessionKeys }),
    createEscalationService({ logs, pool, guard, checker, heartbeatMs, metrics: decisionMetrics }),
    createAuthorityService({ logs, database, keys, authenticator }),
    createRevocationService({ logs, database, keys, authenticator }),
    createIncidentService(database),
    createWebhookService({ webhooks }),
    createNotificationService({ notifications }),
    createMcpServerService({
      ...mcp,
      names: new ActorNames(pool),
      faultOf: (server) => mcp.faults.of(server),
      refresh: (server, by, signal) => mcp.gateway.refresh(server, by, signal),
      protections: () => mcp.isolation.protections(),
    }),
    createRedactionService({ redaction }),
    createVaultService(vault, new ActorNames(pool)),
    createAdminService({
      logs,
      database,
      authenticator,
      keys,
      audience,
      rates,
      publicUrl: config.publicUrl ?? undefined,
    }),
  ];
}

/** Returns the files with secrets that settings name. */
function secretFilesOf({ signingKey, tlsKey }: Config): readonly string[] {
  const text = signingKey?.reveal() ?? "";
  const paths = text === "" || text.includes("-----BEGIN") ? [] : [text];
  return tlsKey === null ? paths : [...paths, tlsKey];
}

/** Creates the MCP gateway and its registry. */
function createMcpParts({
  config,
  log,
  metrics,
  database,
  logs,
  authenticator,
  intercept,
  observe,
  encryptor,
  largeRequests,
  wrongKeys,
  rateLimits,
  redaction,
  shares,
  audience: service,
  tracing,
  outage,
  noteRefusal,
  quietLog,
}: Omit<Parts, "mcp">): McpParts {
  const servers = new McpServers({ database, logs, encryptor, scrubKinds: PERSONAL_KINDS });
  const definitions = new McpDefinitions({ database, logs });
  const targets = createTargets({ allow: config.mcpAllow, purpose: "MCP servers" });
  const publicUrl = config.publicUrl ?? undefined;
  const { mcpOidcIssuer: issuer } = config;
  const audience = config.mcpOidcAudience ?? undefined;
  const tokens =
    issuer === null
      ? undefined
      : new AccessTokens({
          issuer,
          agentClaim: config.mcpOidcAgentClaim,
          workspaceId: config.mcpOidcWorkspace,
          logs,
          log,
          audience,
          scope: config.mcpOidcScope ?? undefined,
        });
  const resource = new ProtectedResource({ publicUrl, isTls: config.tlsCert !== null, tokens });
  const check = createRequestChecks(DEFAULT_MAX_DEPTH)(InterceptRequestSchema);
  const held = new HeldActions({ intercept, logs, pool: database.pool, largeRequests, check });
  const callers = new McpCallers({ authenticate: authenticator.authenticate, wrongKeys, tokens, audience, service });
  const ends = new McpEnds({ logs });
  const kept = new KeptResults({ pool: database.pool, logs, encryptor, log: quietLog });
  const outcomes = new OutcomeReports({ logs, log: quietLog, metrics });
  const isolation = new ChildIsolation({
    uids: config.mcpUids,
    allowSameUser: config.mcpAllowSameUser,
    homes: config.mcpHomes ?? defaultMcpHomes(),
    path: config.mcpPath,
    folders: config.mcpFolders,
    maxProcesses: config.mcpMaxProcesses,
    maxMemoryBytes: config.mcpMaxMemoryBytes,
    dataDir: config.dataDir,
    secretFiles: secretFilesOf(config),
  });
  const faults = new UpstreamFaults(logs.clock);
  const answers = createAnswerPot(config.mcpMaxResultBytes, shares.mcpAnswerBytes);
  const gateway = new McpGateway({
    resource,
    servers,
    definitions,
    faults,
    held,
    kept,
    outcomes,
    observe,
    callers,
    countCall: rateLimits.count,
    ends,
    pool: database.pool,
    logs,
    log: quietLog,
    noteRefusal,
    metrics,
    tracing,
    largeRequests,
    scrubJson: redaction.scrubJson,
    origins: new RequestOrigins({ publicUrl, hosts: config.mcpHosts, listensOn: config.host }),
    upstreams: new DeferredUpstreams({
      lookup: targets.lookup,
      children: new Children({ isolation, log, answers, pot: createChildPot(shares.mcpChildren) }),
      maxResultBytes: config.mcpMaxResultBytes,
      answers,
    }),
    answers,
    taskPot: createTaskPot(config.mcpMaxResultBytes, shares.taskBytes),
    holdMs: config.mcpHoldMs,
    progressHoldMs: config.mcpProgressHoldMs ?? undefined,
    answerMs: config.mcpAnswerMs,
    maxBodyBytes: config.maxBodyBytes,
    maxHeldBytes: shares.requestBytes,
    maxResultBytes: config.mcpMaxResultBytes,
  });
  const hookCalls = new HookCalls({ pool: database.pool, logs, log: quietLog });
  const hookSessions = new HookSessions({ pool: database.pool, logs, log: quietLog });
  const hooks = new CodingAgentHooks({
    held,
    outcomes,
    calls: hookCalls,
    sessions: hookSessions,
    observe,
    logs,
    callers,
    countCall: rateLimits.count,
    ends,
    log,
    outage,
    noteRefusal,
    tracing,
    publicUrl,
    largeRequests,
    maxBodyBytes: config.maxBodyBytes,
    maxHeldBytes: shares.requestBytes,
  });
  return {
    servers,
    definitions,
    targets,
    gateway,
    faults,
    isolation,
    resource,
    hooks,
    hookCalls,
    hookSessions,
    kept,
    outcomes,
  };
}

/** Returns the places outside of the database where checkpoints are kept. */
function checkpointStoresFrom({ checkpointFile, checkpointUrl, checkpointToken }: Config): readonly CheckpointStore[] {
  const stores: CheckpointStore[] = [];
  if (checkpointFile !== null) stores.push(new CheckpointFile(checkpointFile));
  if (checkpointUrl !== null) {
    stores.push(new CheckpointReceiver(new URL(checkpointUrl.reveal()), checkpointToken?.reveal()));
  }
  return stores;
}

/** Serves the public keys, for verifying certificates, checkpoints and tokens offline. */
function jwksRoute(keys: SigningKeys): HttpRoute {
  return {
    prefix: "/.well-known/jwks.json",
    handle: async (_request, response) => sendJson(response, 200, JSON.stringify(await stored(keys.jwks()))),
  };
}

const PERSON_ROLES = { admin: Role.ADMIN, operator: Role.OPERATOR, auditor: Role.AUDITOR } as const;

const groupRulesIn = ({ oidcGroupMap }: Config): readonly GroupRule[] =>
  oidcGroupMap.map((rule) => ({ ...rule, role: PERSON_ROLES[rule.role] }));

/** Creates the sign-in by OpenID Connect; undefined when no issuer is configured. */
function createOidcSignIn(
  { config, logs, encryptor, log }: Parts,
  signIns: SignIns,
  cookie: SignInCookie,
): OidcSignIn | undefined {
  const { oidcIssuer: issuer, oidcClientId: clientId, oidcClientSecret: clientSecret, publicUrl } = config;
  if (issuer === null || clientId === null || clientSecret === null || publicUrl === null) return undefined;
  return new OidcSignIn({
    issuer,
    clientId,
    clientSecret: clientSecret.reveal(),
    scope: config.oidcScope,
    publicUrl,
    groupsClaim: config.oidcGroupsClaim,
    groups: groupRulesIn(config),
    cipher: encryptor,
    signIns,
    cookie,
    clock: logs.clock,
    log,
    people: { name: personName, label: personLabel },
  });
}

/** Parts of signing in to the dashboard. */
interface SignInParts {
  readonly signIns: SignIns;
  readonly cookie: SignInCookie;
  /** Undefined where no issuer is configured. */
  readonly oidc: OidcSignIn | undefined;
  /** Asks the issuer again; undefined without one. */
  readonly rechecks: OidcRechecks<DueMembership> | undefined;
}

function createSignInParts(parts: Parts): SignInParts {
  const { database, encryptor, logs, authenticator, config, log } = parts;
  const forget = (id: string): void => authenticator.forget(id);
  const store = { database, encryptor, clock: logs.clock, forget };
  const signIns = new SignIns(store);
  const cookie = new SignInCookie(isReachedOverTls(config.publicUrl ?? undefined, parts.tls !== undefined));
  const oidc = createOidcSignIn(parts, signIns, cookie);
  const rechecks =
    oidc &&
    new OidcRechecks({
      issuer: oidc.issuer,
      memberships: new Memberships({ ...store, issuer: config.oidcIssuer ?? "" }),
      groups: groupRulesIn(config),
      groupsClaim: config.oidcGroupsClaim,
      log,
    });
  return { signIns, cookie, oidc, rechecks };
}

function createServers(parts: Parts, signIn: SignInParts, sharesPorts: boolean): Servers {
  const { authenticator, config, database, keys, logs, proxy, log, metrics, largeRequests, wrongKeys, audience, tls } =
    parts;
  const { defaultDeadlineMs, maxBodyBytes } = config;
  const services = createServices(parts);
  const descriptors = services.map(({ service }) => service);
  const { authenticate } = authenticator;
  const watchKeys: WatchKeys = async (workspaceId, listener) =>
    authenticator.watchEnds(await logs.of(workspaceId), listener);
  const publicUrl = config.publicUrl ?? undefined;
  const { signIns, cookie: signInCookie, oidc } = signIn;
  const finder: CallerFinderOptions = {
    authenticate,
    signInCookie,
    assertAudience: (given, workspaceId) => assertAudience(given, audience.of(workspaceId)),
  };
  const operators = new OperatorAccess({
    host: config.host,
    token: config.metricsToken?.reveal(),
    callers: new CallerFinder(finder),
    wrongKeys,
  });
  const pipeline = new Pipeline({
    services,
    ...finder,
    watchKeys,
    clock: logs.clock,
    log,
    metrics,
    otherStreams: { mcp: () => parts.mcp.gateway.streams },
    defaultDeadlineMs,
    maxHeldBytes: parts.shares.requestBytes ?? maxHeldBytesFor(maxBodyBytes),
    largeRequests,
    wrongKeys,
    callLog: parts.callLog,
    countCall: parts.rateLimits.count,
    tracing: parts.tracing,
    outage: parts.outage,
  });
  const health = new Health();
  const rest = createRestTranscoder({ pipeline, maxBodyBytes, aliases });
  const readiness = new Readiness({ health, ping: () => stored(database.pool.query(PING)) });
  const docs = new DeferredDocs(descriptors, { title: "Agent Control Plane", version: "v1", publicUrl });
  const names = new ActorNames(database.pool);
  const nameOf = async ({ workspaceId, keyId }: KeyHolder): Promise<string | undefined> =>
    (await names.find(workspaceId, [keyId]))(keyId);
  const offer = oidc && { label: config.oidcLabel, url: `${config.publicUrl}${oidc.prefix}/start` };
  const signInOptions = { authenticate, signIns, nameOf, cookie: signInCookie, publicUrl, oidc: offer, wrongKeys };
  const dashboard = [
    ...(oidc === undefined ? [] : [oidc]),
    inviteRoute({
      open: (secret) => openInvite({ database, logs, forget: (id) => authenticator.forget(id) }, secret),
      publicUrl,
      wrongKeys,
    }),
    signInRoute({ ...signInOptions, clock: logs.clock }),
    dashboardPages(DASHBOARD_FOLDER),
  ];
  const http = createHttpServer({
    pipeline,
    rest,
    extra: [
      jwksRoute(keys),
      proxy,
      parts.mcp.gateway,
      parts.mcp.resource,
      ...parts.mcp.hooks.routes,
      slackRoute({
        admit: (head) => parts.slackInbox.admit(head),
        wrongKeys,
        maxHeldBytes: parts.shares.requestBytes,
      }),
      docs.route(),
      ...dashboard,
    ],
    ready: () => readiness.check(),
    metrics: parts.metricsPage,
    operators,
    openApi: () => docs.text(),
    maxBodyBytes,
    log: parts.quietLog,
    noteRefusal: parts.noteRefusal,
    tls,
    corsOrigins: config.corsOrigins,
  });
  const grpc = createGrpcServer({ pipeline, health, operators, maxBodyBytes, tls });
  return joinServers({ http, grpc, health, pipeline, isTls: tls !== undefined, sharesPorts });
}

async function createParts(options: ControlPlaneOptions): Promise<Parts> {
  const { config, databaseUrl: url, databaseOwnerUrl: ownerUrl, log, metricsPage = (own) => own } = options;
  const { largeRequests = new LargeRequests(), shares = {} } = options;
  const { poolSize } = config;
  await openDataDirectory(config.dataDir, log);
  // Comes first, so that an invalid key leaves nothing open that would keep the process alive.
  const privateKey = await loadSigningKey(config.signingKey?.reveal(), join(config.dataDir, SIGNING_KEY_FILE));
  const keyPath = join(config.dataDir, ENCRYPTION_KEY_FILE);
  const tls = await openTls(config, log);
  // Before anything that would keep the process alive.
  const tracing = options.traces === undefined ? undefined : await startTracing(options.traces, log);
  const encryptionKey = await loadEncryptionKey(config.encryptionKey?.reveal(), keyPath);
  const encryptor = createEncryptor(encryptionKey, config.encryptionKeyOld?.reveal());
  const directUrl = config.databaseDirectUrl?.reveal();
  const database = await openDatabase({ url, ownerUrl, directUrl, poolSize, log, migrate: config.migrates });
  if (config.encryptionKeyOld !== null) await reencrypt({ pool: database.pool, encryptor, log });
  const outage = new OutageWatch({ ping: () => database.pool.query(PING), log });
  const quietLog = outage.quieten(log);
  const metrics = new Registry();
  measureEventLoop(metrics);
  measureProcess(metrics, versionOf());
  measureDatabase(metrics, database.pool);
  const { guardUrl, guardModel: name, guardKey: key, guardDeadlineMs: deadlineMs } = config;
  const model = createModel({ url: guardUrl, name, key, deadlineMs, metrics, log, tracing });
  const guard = createGuard({ model, metrics, log });
  const check = createRequestChecks(DEFAULT_MAX_DEPTH)(AskRequestSchema);
  const questions = new QuestionReader({ model, log, check });
  const redis = await createRedisParts(config.redisUrl?.reveal(), { pool: database.pool, log, metrics });
  const expiry = createEscalationExpiry(database.pool, quietLog);
  const reminders = createEscalationReminders(database.pool, quietLog);
  const unknownOutcomes = createUnknownOutcomes(database.pool, quietLog);
  const sessionKeys = new StoredSessionKeys({ pool: database.pool, encryptor });
  const logs = await createWorkspaceLogs(database, quietLog, {
    ...redis.surroundings,
    sessionKeys,
    metrics: new LogMetrics(metrics),
    onEscalated: expiry.note,
    onReminder: reminders.note,
    onTracked: unknownOutcomes.note,
    onResolved: new EscalationMetrics(metrics, database.pool).onResolved,
    tracing,
  });
  const keys = new SigningKeys({ database, logs, privateKey });
  const verifyToken = createTokenVerifier(keys);
  const keyUses = new KeyUses({ pool: database.pool, clock: logs.clock, log: quietLog });
  const authenticator = new Authenticator({ database, clock: logs.clock, verifyToken, noteUse: keyUses.note });
  const targets = createTargets({ allow: config.webhookAllow, purpose: "notifications" });
  const { pushHosts, slackUrl } = config;
  const told = { database, encryptor, targets, publicUrl: config.publicUrl ?? undefined, pushHosts, slackUrl };
  const sender = new NotificationSender({ ...told, clock: logs.clock });
  const webhooks = new Webhooks({
    database,
    logs,
    log: quietLog,
    encryptor,
    allow: config.webhookAllow,
    tracing,
    metrics,
    channels: sender,
  });
  const wake = () => webhooks.wake();
  const notifications = new Notifications({ ...told, logs, sender, wake });
  const slackInbox = new SlackInbox({ ...told, notifications, logs, wake });
  const { webhookAllow, maxBodyBytes } = config;
  const wrongKeys = new WrongKeys(log);
  const rates = new WorkspaceRates(database.pool);
  const callLog = new CallLog(log);
  const noteRefusal = createNoteRefusal({ callLog, authenticate: authenticator.authenticate });
  const rateLimits = new RateLimits({
    ownRates: rates.of,
    perKey: config.rateLimitKey,
    perWorkspace: config.rateLimitWorkspace,
    perProcess: config.rateLimitProcess,
  });
  const redaction = createRedaction({ database, logs, log: quietLog, encryptor, webhookAllow });
  const llm = { llmUrl: config.llmUrl ?? undefined, llmKey: config.llmKey?.reveal() };
  const proxy = createRedactionProxy({
    redaction,
    authenticate: authenticator.authenticate,
    logs,
    log: quietLog,
    metrics,
    maxBodyBytes,
    ...llm,
    wrongKeys,
    noteRefusal,
    countCall: rateLimits.count,
    tracing,
  });
  const checker = new LongChecker();
  const extractor = new Extractor();
  const observe = createObserve({
    pool: database.pool,
    keys: sessionKeys,
    extractor,
    log: quietLog,
    metrics: new ObservationMetrics(metrics),
  });
  const endedSessions = new EndedSessions({ pool: database.pool, now: () => logs.clock.now(), log: quietLog });
  const decisionMetrics = new DecisionMetrics(metrics);
  const intercept = createIntercept({ logs, guard, checker, tracing, metrics: decisionMetrics });
  const parts = {
    config,
    log,
    metrics,
    metricsPage: metricsPage(metrics),
    database,
    redis,
    logs,
    expiry,
    reminders,
    unknownOutcomes,
    authenticator,
    keyUses,
    keys,
    webhooks,
    notifications,
    slackInbox,
    redaction,
    proxy,
    intercept,
    decisionMetrics,
    guard,
    questions,
    checker,
    observe,
    extractor,
    sessionKeys,
    endedSessions,
    encryptor,
    largeRequests,
    shares,
    outage,
    quietLog,
    wrongKeys,
    callLog,
    noteRefusal,
    rateLimits,
    rates,
    tls,
    audience: new ServiceAudience({ publicUrl: config.publicUrl ?? undefined, origin: config.vaultOrigin }),
    tracing,
    vault: new Vault({
      pool: database.pool,
      logs,
      sign: createCheckpoints(config.vaultOrigin, keys),
      sealKey: (log) => keys.sealIn(log),
    }),
  };
  return { ...parts, mcp: createMcpParts(parts) };
}

function openTls(
  { tlsCert: cert, tlsKey: key, tlsClientCa: clientCa }: Config,
  log: Logger,
): Promise<TlsFiles> | undefined {
  if (cert === null || key === null) return undefined;
  return TlsFiles.open({ paths: { cert, key, clientCa }, log });
}

/** Builds every part of a control plane once, in the order of their dependencies. */
export async function createControlPlane(options: ControlPlaneOptions): Promise<ControlPlane> {
  const parts = await createParts(options);
  const {
    config,
    database,
    redis,
    logs,
    expiry,
    reminders,
    unknownOutcomes,
    authenticator,
    keys,
    webhooks,
    redaction,
    proxy,
    checker,
  } = parts;
  const { mcp } = parts;
  const signIn = createSignInParts(parts);
  const servers = createServers(parts, signIn, options.sharesPorts ?? false);
  const onWakeUp: WakeUpListener = (wakeUp) => {
    logs.wakeUp(wakeUp);
    if (!wakeUp?.isChange) return;
    authenticator.forget(wakeUp.workspaceId);
    parts.rates.forget(wakeUp.workspaceId);
  };
  const sessionUrl = config.databaseDirectUrl?.reveal() ?? options.databaseUrl;
  const wakeUps = await listenForWakeUps(sessionUrl, parts.quietLog, onWakeUp);
  redis.listen(onWakeUp);
  const stores = options.keepsCheckpoints === false ? [] : checkpointStoresFrom(config);
  const keepers = stores.map(
    (store) => new CheckpointKeeper({ store, pool: database.pool, vault: parts.vault, log: parts.quietLog }),
  );
  return {
    logs,
    database,
    signingKey: keys.sealed,
    async listen() {
      await keys.sealEverywhere();
      for (const keeper of keepers) await keeper.start();
      if (await mcp.servers.areRegistered()) await mcp.gateway.prepare();
      const addresses = await servers.listen(config);
      webhooks.start();
      expiry.start(logs);
      reminders.start(logs);
      unknownOutcomes.start(logs);
      parts.endedSessions.start();
      signIn.rechecks?.start();
      mcp.kept.start();
      mcp.hookCalls.start();
      mcp.hookSessions.start();
      return addresses;
    },
    async retire() {
      servers.retire();
      await delay(config.lameDuckMs);
    },
    async close() {
      parts.outage.close();
      const drained = servers.close(config.drainMs);
      parts.tls?.close();
      mcp.kept.close();
      mcp.hookCalls.close();
      mcp.hookSessions.close();
      await mcp.gateway.close();
      await drained;
      database.cutAfter(LAST_QUERIES_MS);
      await mcp.outcomes.close(FLUSH_MS);
      mcp.servers.close();
      mcp.definitions.close();
      await webhooks.close();
      await expiry.close();
      await reminders.close();
      await unknownOutcomes.close();
      await Promise.all(keepers.map((keeper) => keeper.close()));
      await redaction.close(FLUSH_MS);
      proxy.close();
      await checker.close();
      await parts.extractor.close();
      await parts.endedSessions.close();
      await signIn.rechecks?.close();
      await parts.keyUses.close();
      await wakeUps.close();
      await logs.close();
      await redis.close();
      await database.close();
      await parts.tracing?.close(FLUSH_MS);
    },
  };
}
