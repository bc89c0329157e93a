import { setTimeout } from "node:timers/promises";
import type { Message } from "@bufbuild/protobuf";
import type { Transport } from "@connectrpc/connect";
import { createConnectTransport, createGrpcWebTransport } from "@connectrpc/connect-node";
import { Client, credentials } from "@grpc/grpc-js";
import pino from "pino";
import { Registry } from "prom-client";
import { Role } from "../../gen/agentcontrol/v1/access_pb.js";
import { EnforcementService } from "../../gen/agentcontrol/v1/enforcement_service_pb.js";
import { EscalationService } from "../../gen/agentcontrol/v1/escalation_service_pb.js";
import type { CallContext, Caller } from "../../src/api/context.ts";
import type { StreamFunctions } from "../../src/api/intercept-stream.ts";
import { defineService, type ServiceFunctions } from "../../src/api/service.ts";
import { ControlPlaneError, ErrorReason } from "../../src/errors.ts";
import { CallerFinder } from "../../src/server/admission.ts";
import { createGrpcServer } from "../../src/server/grpc/server.ts";
import { Health } from "../../src/server/health.ts";
import { createHttpServer, type HttpServerOptions } from "../../src/server/http.ts";
import { OperatorAccess, type OperatorAccessOptions } from "../../src/server/operator-access.ts";
import { Pipeline, type PipelineOptions } from "../../src/server/pipeline.ts";
import { createRestTranscoder } from "../../src/server/rest/transcoder.ts";
import type { Tls, TlsSource } from "../../src/server/tls.ts";
import { WrongKeys } from "../../src/server/wrong-keys.ts";
import {
  ADMIN_KEY,
  connectIntercept,
  grpcIntercept,
  type InterceptInit,
  type Outcome,
  restIntercept,
} from "./wires.ts";

export * from "./wires.ts";

/** A key that may only read. */
export const AUDITOR_KEY = "acp_auditor_0123456789abcdef";
export const MAX_BODY_BYTES = 200_000;
/** Maximum time that `until` waits, below the time limit of a test. */
const MAX_WAIT_MS = 50_000;

/** The ways in that every unary test is run over. */
export const WIRES = ["rest", "connect", "connect-json", "grpc-web", "grpc"] as const;
export type TestWire = (typeof WIRES)[number];

export interface Asked {
  readonly key?: string | null;
  readonly headers?: Readonly<Record<string, string>>;
}

type Enforcement = ServiceFunctions<typeof EnforcementService>;
type Escalations = ServiceFunctions<typeof EscalationService>;

export interface HarnessOptions {
  readonly enforcement?: Partial<Enforcement>;
  readonly escalations?: Partial<Escalations>;
  readonly pipeline?: Partial<PipelineOptions>;
  readonly http?: Partial<HttpServerOptions>;
  /** One certificate, or one that changes. */
  readonly tls?: Tls | TlsSource;
  /** Address that the service is told it listens on, and the token for operators. Default: loopback, without a token. */
  readonly operators?: Partial<Pick<OperatorAccessOptions, "host" | "token">>;
}

export interface Harness {
  readonly pipeline: Pipeline;
  readonly metrics: Registry;
  readonly health: Health;
  readonly httpPort: number;
  readonly grpcPort: number;
  readonly grpcClient: Client;
  /** Requests that reached the service function of Intercept, with their contexts. */
  readonly seen: { request: Message; context: CallContext }[];
  readonly logged: string[];
  intercept(wire: TestWire, request: InterceptInit, asked?: Asked): Promise<Outcome>;
  transport(wire: "connect" | "connect-json" | "grpc-web"): Transport;
  url(path: string): string;
  closeHttp(graceMs: number): Promise<void>;
  stop(): Promise<void>;
}

const CALLERS: Readonly<Record<string, Role>> = { [ADMIN_KEY]: Role.ADMIN, [AUDITOR_KEY]: Role.AUDITOR };

export function callerFor(key: string): Caller | undefined {
  const role = CALLERS[key];
  return role === undefined ? undefined : { keyId: `key_${role}`, workspaceId: "default", role, agentId: null };
}

const notTested = (): never => {
  throw new ControlPlaneError(ErrorReason.INTERNAL, "not part of this test");
};

/** The functions of an InterceptStream that only decides. */
export const streamOf = (intercept: StreamFunctions["intercept"]): StreamFunctions => ({
  intercept,
  claim: notTested,
  report: notTested,
});

type StreamRequests = Parameters<Enforcement["interceptStream"]>[0];

/** An InterceptStream that replies to each request in turn, and ends with the fault of the first refused one. */
export async function* echo(requests: StreamRequests): AsyncGenerator<{ requestId: string }> {
  for await (const { request, fault } of requests) {
    if (fault !== undefined) throw fault;
    yield { requestId: request.intercept?.requestId ?? "" };
  }
}

/** A stream that ends at once. */
async function* nothing(): AsyncGenerator<never> {}

export function enforcementWith(functions: Partial<Enforcement>): ReturnType<typeof defineService> {
  return defineService(EnforcementService, {
    intercept: async ({ agentId }) => ({ decisionId: `dec_${agentId}`, trustScore: 50 }),
    interceptStream: nothing,
    getDecision: notTested,
    listDecisions: notTested,
    summarizeDecisions: notTested,
    reportOutcome: notTested,
    claimDecision: notTested,
    observe: notTested,
    watchDecisions: nothing,
    ...functions,
  });
}

export function escalationsWith(functions: Partial<Escalations>): ReturnType<typeof defineService> {
  return defineService(EscalationService, {
    getEscalationStatus: notTested,
    waitEscalation: nothing,
    watchEscalations: nothing,
    listEscalations: notTested,
    getEscalation: notTested,
    getEscalationContext: notTested,
    resolveEscalation: notTested,
    withdrawApproval: notTested,
    withdrawEscalation: notTested,
    editEscalation: notTested,
    extendEscalation: notTested,
    ...functions,
  });
}

/** Both ports with small service functions behind them. */
export async function startHarness(options: HarnessOptions = {}): Promise<Harness> {
  const seen: Harness["seen"] = [];
  const logged: string[] = [];
  const metrics = new Registry();
  const given = enforcementWith(options.enforcement ?? {});
  const intercept = given.functions.intercept as Enforcement["intercept"];
  const recording: Enforcement["intercept"] = (request, context) => {
    seen.push({ request, context });
    return intercept(request, context);
  };
  const services = [
    { ...given, functions: { ...given.functions, intercept: recording } },
    escalationsWith(options.escalations ?? {}),
  ];
  const log = pino({ level: "info" }, { write: (line: string) => logged.push(line) });
  const pipeline = new Pipeline({ services, authenticate: callerFor, log, metrics, ...options.pipeline });
  const rest = createRestTranscoder({ pipeline, maxBodyBytes: MAX_BODY_BYTES });
  const health = new Health();
  const tls = options.tls && ("current" in options.tls ? options.tls : { current: options.tls, onChange: () => {} });
  const operators = new OperatorAccess({
    host: "127.0.0.1",
    token: undefined,
    callers: new CallerFinder({ authenticate: callerFor }),
    wrongKeys: new WrongKeys(log),
    ...options.operators,
  });
  const http = createHttpServer({
    pipeline,
    rest,
    extra: [],
    ready: async () => {},
    metrics,
    operators,
    openApi: async () => '{"openapi":"3.1.0"}',
    maxBodyBytes: MAX_BODY_BYTES,
    log,
    tls,
    ...options.http,
  });
  const grpc = createGrpcServer({ pipeline, health, operators, maxBodyBytes: MAX_BODY_BYTES, tls });
  const httpPort = await http.listen("127.0.0.1", 0);
  const grpcPort = await grpc.listen("127.0.0.1", 0);
  const grpcClient = new Client(`127.0.0.1:${grpcPort}`, credentials.createInsecure());
  const baseUrl = `http://127.0.0.1:${httpPort}`;
  const transport: Harness["transport"] = (wire) => {
    if (wire === "grpc-web") return createGrpcWebTransport({ baseUrl, httpVersion: "1.1" });
    return createConnectTransport({ baseUrl, httpVersion: "1.1", useBinaryFormat: wire === "connect" });
  };
  return {
    pipeline,
    metrics,
    health,
    httpPort,
    grpcPort,
    grpcClient,
    seen,
    logged,
    transport,
    url: (path) => baseUrl + path,
    closeHttp: (graceMs) => http.close(graceMs),
    async intercept(wire, request, asked = {}) {
      const headers: Record<string, string> = { ...asked.headers };
      if (asked.key !== null) headers["x-api-key"] = asked.key ?? ADMIN_KEY;
      if (wire === "rest") return restIntercept(baseUrl, request, headers);
      if (wire === "grpc") return grpcIntercept(grpcClient, request, headers);
      return connectIntercept(transport(wire), request, headers);
    },
    async stop() {
      grpcClient.close();
      await pipeline.drain(0);
      await Promise.all([http.close(0), grpc.close(1_000)]);
    },
  };
}

/** Resolves when `condition` holds. Rejects shortly before the time limit of a test, so that a failed one leaves no loop behind. */
export async function until(condition: () => boolean): Promise<void> {
  const endsAtMs = performance.now() + MAX_WAIT_MS;
  while (!condition()) {
    if (performance.now() > endsAtMs) throw new Error(`the condition did not hold in ${MAX_WAIT_MS} ms: ${condition}`);
    await setTimeout(1);
  }
}

/** A promise with its handles. */
export const deferred = <T = void>(): PromiseWithResolvers<T> => Promise.withResolvers<T>();
