import { join } from "node:path";
import type { Logger } from "pino";
import { Registry } from "prom-client";
import { EnforcementService, type InterceptStreamRequest } from "../gen/agentcontrol/v1/enforcement_service_pb.js";
import {
  createAdminService,
  createAgentService,
  createAuthorityService,
  createDepartmentService,
  createEnforcementService,
  createEscalationService,
  createIncidentService,
  createMandateService,
  createRevocationService,
  createToolService,
  createWebhookService,
  type ServiceDefinition,
  streamFault,
} from "./api/index.ts";
import { createSigningKeys, createTokenVerifier, loadSigningKey, type SigningKeys } from "./authority/index.ts";
import type { Config } from "./config.ts";
import { createIntercept, decide } from "./enforcement/index.ts";
import { createWorkspaceLogs, listenForWakeUps, type WorkspaceLogs } from "./ledger/index.ts";
import { type Authenticator, createAuthenticator } from "./registry/index.ts";
import { type Database, ENTITIES, MIGRATIONS, openDatabase } from "./store/index.ts";
import {
  createGrpcServer,
  createHealth,
  createHttpServer,
  createPipeline,
  createRestDispatcher,
  errorBodyFrom,
  type HttpRoute,
  type Pipeline,
  sendJson,
} from "./transport/index.ts";
import { createRestTranscoder, openApiFromServices } from "./transport/rest/index.ts";
import { createWebhooks, type Webhooks } from "./webhook/index.ts";

/** Where a control plane listens. */
export interface Addresses {
  /** `http://127.0.0.1:7080`: REST, Connect and gRPC-Web. */
  readonly http: string;
  /** `127.0.0.1:7090`: gRPC. */
  readonly grpc: string;
}

/** A control plane with every part built. */
export interface ControlPlane {
  readonly logs: WorkspaceLogs;
  readonly database: Database;
  listen(): Promise<Addresses>;
  /** Takes no new work, lets what is under way finish within `drainMs`, and lets go of everything. */
  close(): Promise<void>;
}

/** What a control plane is built from. */
export interface ControlPlaneOptions {
  readonly config: Config;
  /** The database: the configured one, or the embedded one. */
  readonly databaseUrl: string;
  readonly log: Logger;
}

interface Parts {
  readonly config: Config;
  readonly log: Logger;
  readonly metrics: Registry;
  readonly database: Database;
  readonly logs: WorkspaceLogs;
  readonly authenticator: Authenticator;
  readonly keys: SigningKeys;
  readonly webhooks: Webhooks;
}

/** The signing key in the data directory, when none is configured. */
const SIGNING_KEY_FILE = "signing-key.pem";

/** Paths below `/v1` are served below `/api/v1` as well. */
const aliases = (template: string): string[] => (template.startsWith("/v1/") ? [`/api${template}`] : []);

function createServices({ database, logs, authenticator, keys, webhooks, config }: Parts): ServiceDefinition[] {
  const { pool } = database;
  const { streamHeartbeatMs: heartbeatMs } = config;
  return [
    createAgentService({ logs, database, heartbeatMs }),
    createDepartmentService({ logs }),
    createToolService({ logs, database }),
    createMandateService({ logs, database }),
    createEnforcementService({ intercept: createIntercept(logs), pool }),
    createEscalationService({ logs, pool, heartbeatMs }),
    createAuthorityService({ logs, database, keys, authenticator }),
    createRevocationService({ logs, database, keys, authenticator }),
    createIncidentService(database),
    createWebhookService({ webhooks }),
    createAdminService({ logs, database, authenticator }),
  ];
}

function createServicePipeline(
  { authenticator, config, log, metrics }: Parts,
  services: ServiceDefinition[],
): Pipeline {
  const interceptStream = EnforcementService.method.interceptStream;
  return createPipeline({
    services,
    authenticate: authenticator,
    log,
    metrics,
    defaultDeadlineMs: config.defaultDeadlineMs,
    requestFaultReplies: new Map([
      [
        interceptStream,
        (request, error) => streamFault((request as InterceptStreamRequest).intercept?.requestId ?? "", error),
      ],
    ]),
  });
}

/** The public keys, for everyone who verifies a certificate or a token without this service. */
function jwksRoute(keys: SigningKeys): HttpRoute {
  return {
    prefix: "/.well-known/jwks.json",
    handle: async (_request, response) => sendJson(response, 200, JSON.stringify(await keys.jwks())),
  };
}

function createServers(
  { config, database, keys, log, metrics }: Parts,
  services: ServiceDefinition[],
  pipeline: Pipeline,
) {
  const { maxBodyBytes } = config;
  const descriptors = services.map(({ service }) => service);
  const health = createHealth();
  const dispatcher = createRestDispatcher(pipeline);
  const rest = createRestTranscoder({
    services: descriptors,
    dispatcher,
    errorBody: errorBodyFrom,
    maxBodyBytes,
    aliases,
  });
  const openApi = JSON.stringify(
    openApiFromServices(descriptors, { title: "Agent Control Plane", version: "v1", aliases }),
  );
  const ready = async (): Promise<void> => void (await database.pool.query("select 1"));
  const http = createHttpServer({
    pipeline,
    services,
    rest,
    extra: [jwksRoute(keys)],
    ready,
    metrics,
    openApi,
    maxBodyBytes,
    log,
  });
  const grpc = createGrpcServer({ pipeline, services, health, maxBodyBytes });
  return { http, grpc, health };
}

async function createParts({ config, databaseUrl: url, log }: ControlPlaneOptions): Promise<Parts> {
  const { poolSize } = config;
  // First, so that a key that is none leaves nothing open that would keep the process alive.
  const privateKey = await loadSigningKey(config.signingKey?.reveal(), join(config.dataDir, SIGNING_KEY_FILE));
  const database = await openDatabase({ url, poolSize, log, entities: [...ENTITIES], migrations: MIGRATIONS });
  const logs = await createWorkspaceLogs(database, decide, log);
  const keys = await createSigningKeys(database, privateKey, logs.clock.now());
  const verifyToken = createTokenVerifier(keys);
  const authenticator = createAuthenticator({ database, clock: logs.clock, verifyToken });
  const webhooks = createWebhooks({ database, logs, log, allow: config.webhookAllow });
  return { config, log, metrics: new Registry(), database, logs, authenticator, keys, webhooks };
}

/** Builds every part of a control plane once, in the order in which they depend on each other. */
export async function createControlPlane(options: ControlPlaneOptions): Promise<ControlPlane> {
  const parts = await createParts(options);
  const { config, database, logs, authenticator, webhooks, log } = parts;
  const services = createServices(parts);
  const pipeline = createServicePipeline(parts, services);
  const { http, grpc, health } = createServers(parts, services, pipeline);
  const wakeUps = await listenForWakeUps(options.databaseUrl, log, (wakeUp) => {
    logs.wakeUp(wakeUp);
    if (wakeUp?.isChange) authenticator.forget(wakeUp.workspaceId);
  });
  return {
    logs,
    database,
    async listen() {
      const httpPort = await http.listen(config.host, config.httpPort);
      const grpcPort = await grpc.listen(config.host, config.grpcPort);
      webhooks.start();
      health.set(true);
      const host = config.host.includes(":") ? `[${config.host}]` : config.host;
      return { http: `http://${host}:${httpPort}`, grpc: `${host}:${grpcPort}` };
    },
    async close() {
      health.set(false);
      await pipeline.drain(config.drainMs);
      await Promise.all([http.close(config.drainMs), grpc.close(config.drainMs)]);
      await webhooks.close();
      await wakeUps.close();
      await logs.close();
      await database.close();
    },
  };
}
