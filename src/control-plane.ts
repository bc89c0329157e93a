import { join } from "node:path";
import type { Logger } from "pino";
import { Registry } from "prom-client";
import { createAdminService } from "./api/admin-service.ts";
import { createAgentService } from "./api/agent-service.ts";
import { createAuthorityService } from "./api/authority-service.ts";
import { createDepartmentService } from "./api/department-service.ts";
import { createDryRunService } from "./api/dry-run-service.ts";
import { createEnforcementService } from "./api/enforcement-service.ts";
import { createEscalationService } from "./api/escalation-service.ts";
import { createIncidentService } from "./api/incident-service.ts";
import { createMandateService } from "./api/mandate-service.ts";
import { createRedactionService } from "./api/redaction-service.ts";
import { createRevocationService } from "./api/revocation-service.ts";
import type { ServiceDefinition } from "./api/service.ts";
import { createToolService } from "./api/tool-service.ts";
import { createVaultService } from "./api/vault-service.ts";
import { createWebhookService } from "./api/webhook-service.ts";
import { createTokenVerifier } from "./authority/federation-token.ts";
import { loadSigningKey, SigningKeys } from "./authority/signing-key.ts";
import type { Config } from "./config.ts";
import { createIntercept } from "./decision/intercept.ts";
import { EscalationExpiry } from "./escalation/expiry.ts";
import { createCheckpoints } from "./log/checkpoint.ts";
import { Vault } from "./log/vault.ts";
import { listenForWakeUps, type WakeUpListener } from "./log/wake-ups.ts";
import { createWorkspaceLogs, type WorkspaceLogs } from "./log/workspace-logs.ts";
import type { WorkspaceLog } from "./log/writer.ts";
import { createRedisParts, type RedisParts } from "./mirror/redis.ts";
import { LongChecker } from "./policy/long/checker.ts";
import { createRedaction, createRedactionProxy, type Redaction, type RedactionProxy } from "./redaction/index.ts";
import { Authenticator } from "./registry/authenticator.ts";
import { createGuard, type Guard } from "./semantic/guard.ts";
import { docsPageFrom } from "./server/docs-page.ts";
import { shuttingDown } from "./server/errors.ts";
import { createGrpcServer } from "./server/grpc.ts";
import { Health } from "./server/health.ts";
import { createHttpServer, type HttpRoute, type MetricsPage } from "./server/http.ts";
import { sendJson } from "./server/http-reply.ts";
import { measureEventLoop } from "./server/metrics.ts";
import type { WatchKeys } from "./server/open-streams.ts";
import { Pipeline } from "./server/pipeline.ts";
import { openApiFromServices } from "./server/rest/openapi.ts";
import { createRestTranscoder } from "./server/rest/transcoder.ts";
import { type Addresses, joinServers, type Servers } from "./server/servers.ts";
import { type Database, openDatabase } from "./store/database.ts";
import { createEncryptor, loadEncryptionKey } from "./store/encryptor.ts";
import { Webhooks } from "./webhook/webhooks.ts";

/** A control plane with all its parts. */
export interface ControlPlane {
  readonly logs: WorkspaceLogs;
  readonly database: Database;
  /** The key that signs, as new workspaces seal it. */
  readonly signingKey: SigningKeys["sealed"];
  /** Seals the signing key wherever it is not sealed, then serves on the configured ports. Rejects with SIGNING_KEY_RETIRED. */
  listen(): Promise<Addresses>;
  /** Refuses new work, lets calls in flight finish within `drainMs`, and releases everything. */
  close(): Promise<void>;
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
}

interface Parts {
  readonly config: Config;
  readonly log: Logger;
  readonly metrics: Registry;
  readonly metricsPage: MetricsPage;
  readonly database: Database;
  readonly redis: RedisParts;
  readonly logs: WorkspaceLogs;
  readonly expiry: EscalationExpiry;
  readonly authenticator: Authenticator;
  readonly keys: SigningKeys;
  readonly webhooks: Webhooks;
  readonly redaction: Redaction;
  readonly proxy: RedactionProxy;
  readonly guard: Guard;
  readonly checker: LongChecker;
}

/** File of the generated signing key, in the data directory. */
const SIGNING_KEY_FILE = "signing-key.pem";
/** File of the generated encryption key, in the data directory. */
const ENCRYPTION_KEY_FILE = "encryption-key";

/** Time in which deliveries in flight must end, milliseconds. */
const FLUSH_MS = 1_000;

/** Also serves paths below `/v1` below `/api/v1`. */
const aliases = (template: string): string[] => (template.startsWith("/v1/") ? [`/api${template}`] : []);

function createServices({
  database,
  logs,
  authenticator,
  keys,
  webhooks,
  redaction,
  guard,
  checker,
  config,
}: Parts): ServiceDefinition[] {
  const { pool } = database;
  const sealKey = (log: WorkspaceLog) => keys.sealIn(log);
  const { streamHeartbeatMs: heartbeatMs } = config;
  return [
    createAgentService({ logs, database, heartbeatMs }),
    createDepartmentService({ logs }),
    createToolService({ logs, database }),
    createMandateService({ logs, database }),
    createEnforcementService({ intercept: createIntercept({ logs, guard, checker }), logs, pool, heartbeatMs }),
    createDryRunService({ logs, pool, checker, database }),
    createEscalationService({ logs, pool, heartbeatMs }),
    createAuthorityService({ logs, database, keys, authenticator }),
    createRevocationService({ logs, database, keys, authenticator }),
    createIncidentService(database),
    createWebhookService({ webhooks }),
    createRedactionService({ redaction }),
    createVaultService(new Vault({ pool, logs, sign: createCheckpoints(config.vaultOrigin, keys), sealKey })),
    createAdminService({ logs, database, authenticator, keys }),
  ];
}

/** Serves the public keys, for verifying certificates, checkpoints and tokens offline. */
function jwksRoute(keys: SigningKeys): HttpRoute {
  return {
    prefix: "/.well-known/jwks.json",
    handle: async (_request, response) => sendJson(response, 200, JSON.stringify(await keys.jwks())),
  };
}

function createServers(parts: Parts): Servers {
  const { authenticator, config, database, keys, logs, proxy, log, metrics } = parts;
  const { defaultDeadlineMs, maxBodyBytes } = config;
  const services = createServices(parts);
  const descriptors = services.map(({ service }) => service);
  const authenticate = (key: string) => authenticator.authenticate(key);
  const watchKeys: WatchKeys = async (workspaceId, listener) =>
    authenticator.watchEnds(await logs.of(workspaceId), listener);
  const pipeline = new Pipeline({
    ...{ services, authenticate, watchKeys, clock: logs.clock, log, metrics, defaultDeadlineMs },
  });
  const health = new Health();
  const rest = createRestTranscoder({ pipeline, maxBodyBytes, aliases });
  const document = openApiFromServices(descriptors, { title: "Agent Control Plane", version: "v1", aliases });
  const ready = async (): Promise<void> => {
    if (!health.serving) throw shuttingDown();
    await database.pool.query("select 1");
  };
  const http = createHttpServer({
    pipeline,
    rest,
    extra: [jwksRoute(keys), proxy],
    ready,
    metrics: parts.metricsPage,
    openApi: JSON.stringify(document),
    docs: docsPageFrom(document),
    maxBodyBytes,
    log,
  });
  const grpc = createGrpcServer({ pipeline, health, maxBodyBytes });
  return joinServers({ http, grpc, health, pipeline });
}

async function createParts(options: ControlPlaneOptions): Promise<Parts> {
  const { config, databaseUrl: url, databaseOwnerUrl: ownerUrl, log, metricsPage = (own) => own } = options;
  const { poolSize } = config;
  // Comes first: after an invalid key nothing open keeps the process alive.
  const privateKey = await loadSigningKey(config.signingKey?.reveal(), join(config.dataDir, SIGNING_KEY_FILE));
  const keyPath = join(config.dataDir, ENCRYPTION_KEY_FILE);
  const encryptor = createEncryptor(await loadEncryptionKey(config.encryptionKey?.reveal(), keyPath));
  const database = await openDatabase({ url, ownerUrl, poolSize, log });
  const metrics = new Registry();
  measureEventLoop(metrics);
  const { guardUrl, guardModel: model, guardKey: key, guardDeadlineMs: deadlineMs } = config;
  const guard = createGuard({ url: guardUrl, model, key, deadlineMs, metrics, log });
  const redis = await createRedisParts(config.redisUrl?.reveal(), { pool: database.pool, log, metrics });
  const expiry = new EscalationExpiry(database.pool, log);
  const { surroundings } = redis;
  const logs = await createWorkspaceLogs(database, log, {
    ...surroundings,
    onAppended(end) {
      surroundings.onAppended?.(end);
      expiry.onAppended(end);
    },
  });
  const keys = new SigningKeys({ database, logs, privateKey });
  const verifyToken = createTokenVerifier(keys);
  const authenticator = new Authenticator({ database, clock: logs.clock, verifyToken });
  const webhooks = new Webhooks({ database, logs, log, encryptor, allow: config.webhookAllow });
  const { webhookAllow, maxBodyBytes } = config;
  const redaction = createRedaction({ database, logs, log, encryptor, webhookAllow });
  const llm = { llmUrl: config.llmUrl ?? undefined, llmKey: config.llmKey?.reveal() };
  const proxy = createRedactionProxy({
    ...{ redaction, authenticate: (key) => authenticator.authenticate(key), logs, log, metrics, maxBodyBytes },
    ...llm,
  });
  return {
    config,
    log,
    metrics,
    metricsPage: metricsPage(metrics),
    database,
    redis,
    logs,
    expiry,
    authenticator,
    keys,
    webhooks,
    redaction,
    proxy,
    guard,
    checker: new LongChecker(),
  };
}

/** Builds every part of a control plane once, in the order of their dependencies. */
export async function createControlPlane(options: ControlPlaneOptions): Promise<ControlPlane> {
  const parts = await createParts(options);
  const { config, database, redis, logs, expiry, authenticator, keys, webhooks, redaction, proxy, checker, log } =
    parts;
  const servers = createServers(parts);
  const onWakeUp: WakeUpListener = (wakeUp) => {
    logs.wakeUp(wakeUp);
    if (wakeUp?.isChange) authenticator.forget(wakeUp.workspaceId);
  };
  const wakeUps = await listenForWakeUps(options.databaseUrl, log, onWakeUp);
  redis.listen(onWakeUp);
  return {
    logs,
    database,
    signingKey: keys.sealed,
    async listen() {
      await keys.sealEverywhere();
      const addresses = await servers.listen(config);
      webhooks.start();
      expiry.start(logs);
      return addresses;
    },
    async close() {
      await servers.close(config.drainMs);
      await webhooks.close();
      await expiry.close();
      await redaction.close(FLUSH_MS);
      proxy.close();
      await checker.close();
      await wakeUps.close();
      await logs.close();
      await redis.close();
      await database.close();
    },
  };
}
