import { create, type DescMethod, type Message, type MessageInitShape } from "@bufbuild/protobuf";
import type { Logger } from "pino";
import type { Registry } from "prom-client";
import type { ServiceDefinition } from "../api/service.ts";
import type { ControlPlaneError } from "../errors.ts";
import { type Authenticate, keyFrom } from "./admit.ts";
import type { RequestFaultReply } from "./checked-requests.ts";
import { createDeadlineWheel } from "./deadline.ts";
import { createEndpoints, type Endpoint, methodName } from "./endpoints.ts";
import { codeNameOf } from "./error-mapping.ts";
import { createFaultLog } from "./fault-log.ts";
import { type IncomingCall, REQUEST_ID_HEADER, requestIdFrom } from "./incoming.ts";
import type { CallEnvironment } from "./live-call.ts";
import { createCallMetrics } from "./metrics.ts";
import { OpenCalls } from "./open-calls.ts";
import { shuttingDown } from "./refusals.ts";
import { createRequestChecks } from "./request-check.ts";
import { DEFAULT_MAX_DEPTH } from "./rest/transcoder.ts";
import { StreamCall } from "./stream-call.ts";
import { UnaryCall } from "./unary-call.ts";

/** Milliseconds that a unary call may take when neither its caller nor the options say otherwise. */
const DEFAULT_UNARY_DEADLINE_MS = 10_000;

/** How a pipeline is built. */
export interface PipelineOptions {
  readonly services: readonly ServiceDefinition[];
  readonly authenticate: Authenticate;
  readonly log: Logger;
  readonly metrics: Registry;
  /** Milliseconds that a unary call may take when its caller set no deadline. Default 10,000. Streams have none by default. */
  readonly defaultDeadlineMs?: number;
  /** JSON brackets that may be open at once in a request, on every wire. Default `DEFAULT_MAX_DEPTH`, as for REST. */
  readonly maxDepth?: number;
  /**
   * For bidirectional methods: what to reply to one request that fails its checks, so that the stream goes on.
   * A method that is not named here ends its stream with the error.
   */
  readonly requestFaultReplies?: ReadonlyMap<DescMethod, (request: Message, error: ControlPlaneError) => object>;
}

/**
 * The one way from every transport to every service function: authenticates, authorises, checks the request, keeps the
 * deadline, calls, counts, and maps errors. Everything it throws or rejects with is a `ControlPlaneError`.
 */
export interface Pipeline {
  readonly services: readonly ServiceDefinition[];
  readonly maxDepth: number;
  unary(method: DescMethod, request: Message, incoming: IncomingCall): Promise<Message>;
  /** Resolves once the call is admitted; what it is refused for is the rejection. The stream has one reader. */
  serverStream(method: DescMethod, request: Message, incoming: IncomingCall): Promise<AsyncIterable<Message>>;
  /** As `serverStream`. A rejection of `requests` ends the stream with it. */
  bidiStream(
    method: DescMethod,
    requests: AsyncIterable<Message>,
    incoming: IncomingCall,
  ): Promise<AsyncIterable<Message>>;
  /** Counts, and logs if it is a fault, what ended a call before or after the pipeline had it. Gives back what to tell the caller. */
  refuse(method: DescMethod, incoming: IncomingCall, error: unknown): ControlPlaneError;
  /**
   * Refuses new calls with SHUTTING_DOWN. Streams end with it too: one that answers requests once those that it took are
   * answered, any other at once. Resolves when no call is left, or after `graceMs` milliseconds, when those left are ended.
   */
  drain(graceMs: number): Promise<void>;
}

/** Creates a pipeline. Throws an `Error` for a method without `access` or without a function, and for a rule that does not compile. */
export function createPipeline(options: PipelineOptions): Pipeline {
  return new ServicePipeline(options);
}

class ServicePipeline implements Pipeline {
  readonly services: readonly ServiceDefinition[];
  readonly maxDepth: number;
  readonly #endpoints: ReadonlyMap<DescMethod, Endpoint>;
  readonly #environment: CallEnvironment;
  readonly #defaultDeadlineMs: number;
  readonly #faultReplies: ReadonlyMap<DescMethod, RequestFaultReply>;
  readonly #streams = new OpenCalls<StreamCall>();
  readonly #unary = new OpenCalls<UnaryCall>();
  #draining = false;
  #onIdle: () => void = () => {};

  constructor(options: PipelineOptions) {
    const { services, authenticate, log, metrics, maxDepth = DEFAULT_MAX_DEPTH } = options;
    this.services = services;
    this.maxDepth = maxDepth;
    this.#defaultDeadlineMs = options.defaultDeadlineMs ?? DEFAULT_UNARY_DEADLINE_MS;
    this.#environment = { authenticate, wheel: createDeadlineWheel(), faults: createFaultLog(log) };
    const unary = this.#unary;
    const streams = this.#streams;
    const inFlight = {
      get unary() {
        return unary.size;
      },
      get streams() {
        return streams.size;
      },
    };
    const metricsOf = createCallMetrics(metrics, inFlight);
    this.#endpoints = createEndpoints(services, { checkOf: createRequestChecks(maxDepth), metricsOf });
    this.#faultReplies = faultRepliesFrom(options);
  }

  unary(method: DescMethod, request: Message, incoming: IncomingCall): Promise<Message> {
    if (this.#draining) return Promise.reject(this.refuse(method, incoming, shuttingDown()));
    const allowedMs = incoming.deadlineMs ?? this.#defaultDeadlineMs;
    const call = new UnaryCall(this.#environment, this.#endpointOf(method), incoming, allowedMs);
    this.#unary.add(call);
    return call.run(request, () => {
      this.#unary.remove(call);
      this.#ended();
    });
  }

  serverStream(method: DescMethod, request: Message, incoming: IncomingCall): Promise<AsyncIterable<Message>> {
    const { check, serve } = this.#endpointOf(method);
    return this.#stream(method, incoming, (call) => {
      check(request);
      return serve(request, call);
    });
  }

  bidiStream(
    method: DescMethod,
    requests: AsyncIterable<Message>,
    incoming: IncomingCall,
  ): Promise<AsyncIterable<Message>> {
    const { serve } = this.#endpointOf(method);
    const faultReply = this.#faultReplies.get(method);
    return this.#stream(method, incoming, (call) => serve(call.checked(requests, faultReply), call));
  }

  refuse(method: DescMethod, incoming: IncomingCall, error: unknown): ControlPlaneError {
    const { name, metrics } = this.#endpointOf(method);
    const requestId = incoming.requestId ?? requestIdFrom(incoming.header(REQUEST_ID_HEADER));
    const call = { requestId, method: name, wire: incoming.wire, key: keyFrom(incoming) };
    const failure = this.#environment.faults.report(error, call);
    const seconds = (performance.now() - incoming.receivedAt) / 1000;
    if (method.methodKind === "unary") metrics.unary(incoming.wire, codeNameOf(failure), seconds);
    else metrics.stream(incoming.wire, codeNameOf(failure));
    return failure;
  }

  async drain(graceMs: number): Promise<void> {
    this.#draining = true;
    for (const call of this.#streams) call.drain(shuttingDown());
    await this.#idleWithin(graceMs);
    for (const call of [...this.#unary, ...this.#streams]) call.abort(shuttingDown());
    this.#environment.wheel.close();
  }

  #stream(method: DescMethod, incoming: IncomingCall, begin: (call: StreamCall) => unknown): Promise<StreamCall> {
    if (this.#draining) return Promise.reject(this.refuse(method, incoming, shuttingDown()));
    const allowedMs = incoming.deadlineMs ?? Number.POSITIVE_INFINITY;
    const call = new StreamCall(this.#environment, this.#endpointOf(method), incoming, allowedMs);
    this.#streams.add(call);
    const onEnd = () => {
      this.#streams.remove(call);
      this.#ended();
    };
    return call.open(onEnd, begin);
  }

  get #isIdle(): boolean {
    return this.#unary.size === 0 && this.#streams.size === 0;
  }

  #ended(): void {
    if (this.#draining && this.#isIdle) this.#onIdle();
  }

  #idleWithin(graceMs: number): Promise<void> {
    if (this.#isIdle) return Promise.resolve();
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, graceMs);
      this.#onIdle = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }

  #endpointOf(method: DescMethod): Endpoint {
    const endpoint = this.#endpoints.get(method);
    if (endpoint === undefined) throw new Error(`${methodName(method)} is not served by this pipeline`);
    return endpoint;
  }
}

function faultRepliesFrom({ requestFaultReplies }: PipelineOptions): ReadonlyMap<DescMethod, RequestFaultReply> {
  const replies = new Map<DescMethod, RequestFaultReply>();
  for (const [method, replyTo] of requestFaultReplies ?? []) {
    const { output } = method;
    replies.set(method, (request, error) => create(output, replyTo(request, error) as MessageInitShape<typeof output>));
  }
  return replies;
}
