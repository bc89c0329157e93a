import { monitorEventLoopDelay } from "node:perf_hooks";
import { create, type DescMessage, type DescMethod, type Message, type MessageInitShape } from "@bufbuild/protobuf";
import type { Validator } from "@bufbuild/protovalidate";
import type { Logger } from "pino";
import { Counter, Gauge, Histogram, type Registry } from "prom-client";
import type { CallContext } from "../api/context.ts";
import type { CheckedRequest, ServiceDefinition } from "../api/service.ts";
import { ControlPlaneError, controlPlaneErrorFrom, ErrorReason } from "../errors.ts";
import {
  type AccessRule,
  type Authenticate,
  accessRuleOf,
  assertMayCall,
  findCaller,
  HeldBytes,
  keyFrom,
  keyInHeaders,
} from "./admission.ts";
import { Call, type CallObserver, type IncomingCall } from "./call-context.ts";
import { cancelled, reportFault, shuttingDown } from "./errors.ts";
import { LargeRequests } from "./large-requests.ts";
import { OpenStreams, type OpenStreamsOptions } from "./open-streams.ts";
import { createRequestChecks, type RequestCheck } from "./validation.ts";
import { WrongKeys } from "./wrong-keys.ts";

/** Deadline of unary calls without one from the caller or the options, milliseconds. */
const DEFAULT_UNARY_DEADLINE_MS = 10_000;

/** Default maximum depth of a request in JSON brackets: enough for any rule, safe for the stack. */
export const DEFAULT_MAX_DEPTH = 64;

/** Buckets in seconds, from half a millisecond to the default deadline. */
const BUCKETS_SECONDS = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10];

/** Milliseconds between two looks at the event loop. */
const LOOK_MS = 5;

/** Options of a pipeline. */
export interface PipelineOptions extends OpenStreamsOptions {
  readonly services: readonly ServiceDefinition[];
  readonly log: Logger;
  readonly metrics: Registry;
  /** Deadline of unary calls that set none, milliseconds. Default 10,000. Streams have none by default. */
  readonly defaultDeadlineMs?: number;
  /** Bytes of request bodies held at once, by all calls. Default `MAX_HELD_BYTES`. */
  readonly maxHeldBytes?: number;
  /** Turns of large requests, which the other routes of the process share. Default: those of the pipeline alone. */
  readonly largeRequests?: LargeRequests;
  /** Counter of wrong keys, which the other routes of the process share. Default: one of the pipeline alone. */
  readonly wrongKeys?: WrongKeys;
  /** Maximum depth of a request in JSON brackets, on every wire. Default `DEFAULT_MAX_DEPTH`. */
  readonly maxDepth?: number;
  /** Validator of requests, which several pipelines MAY share. Default: a new one, which compiles the rules of every request. */
  readonly validator?: Validator;
}

/** A method with its access rule, check and service function, looked up once at start. */
export interface Endpoint {
  readonly method: DescMethod;
  /** `package.Service/Method`. */
  readonly name: string;
  readonly access: AccessRule;
  readonly check: RequestCheck;
  /** The service function; takes the request, or the checked requests of a bidirectional stream. */
  readonly serve: (request: unknown, context: CallContext) => unknown;
}

/** Reads and decodes the request of an admitted call. Throws a `ControlPlaneError` for bytes that are not one. */
export type ReadRequest = () => Message | Promise<Message>;

/** A request of a bidirectional stream. */
export interface StreamedRequest {
  readonly request: Message;
  /** Size as it arrived, decompressed. */
  readonly bytes: number;
}

/**
 * The path from every wire to every service function, in four steps: admit (key, role, deadline), check the request, serve,
 * record. Rejects only with a `ControlPlaneError`, already counted and, if it is a fault, logged.
 */
export class Pipeline {
  readonly services: readonly ServiceDefinition[];
  readonly maxDepth: number;
  readonly #endpoints: ReadonlyMap<DescMethod, Endpoint>;
  readonly #authenticate: Authenticate;
  readonly #defaultDeadlineMs: number;
  readonly #observer: CallObserver;
  readonly #wrongKeys: WrongKeys;
  readonly #calls = new Set<Call>();
  readonly #metrics: ReturnType<typeof createCallMetrics>;
  readonly #streams: OpenStreams;
  readonly #held: HeldBytes;
  #isDraining = false;
  #onIdle: () => void = () => {};

  /** Throws an `Error` for a method without `access` or without a function, and for a rule that does not compile. */
  constructor(options: PipelineOptions) {
    const { services, authenticate, log, maxDepth = DEFAULT_MAX_DEPTH } = options;
    const { largeRequests = new LargeRequests() } = options;
    this.services = services;
    this.maxDepth = maxDepth;
    this.#authenticate = authenticate;
    this.#held = new HeldBytes(options.maxHeldBytes);
    this.#wrongKeys = options.wrongKeys ?? new WrongKeys(log);
    this.#streams = new OpenStreams(options);
    this.#defaultDeadlineMs = options.defaultDeadlineMs ?? DEFAULT_UNARY_DEADLINE_MS;
    this.#endpoints = createEndpoints(services, createRequestChecks(maxDepth, options.validator));
    this.#metrics = createCallMetrics(options.metrics, this.#calls);
    this.#observer = {
      hold: (bytes) => this.#held.take(bytes),
      turn: ({ caller, signal }) => largeRequests.turn(caller.workspaceId, signal),
      report: (call, error) => reportFault(log, error, failedCall(call)),
      ended: (call, code) => this.#record(call, code),
    };
  }

  /** Finds the caller from the headers alone, before the body is read, and starts the call's deadline. */
  async admit(method: DescMethod, incoming: IncomingCall): Promise<Call> {
    const endpoint = this.#endpointOf(method);
    const call = new Call(endpoint, incoming, this.#observer);
    this.#calls.add(call);
    incoming.onLeave((reason) => call.abort(reason));
    try {
      if (this.#isDraining) throw shuttingDown();
      call.setTimeout(incoming.timeoutMs() ?? this.#defaultTimeoutMs(method));
      call.caller = await call.unlessAborted(findCaller(incoming, this.#authenticate));
      assertMayCall(call.caller, endpoint.access, method);
      if (isStream(call)) this.#streams.add(call);
      return call;
    } catch (error) {
      throw call.fail(call.caller === undefined ? this.#countedIfWrongKey(error, call) : error);
    }
  }

  /** Counts keys alone: nobody guesses the secret of a sign-in, and the pages of one that ended need to hear so. */
  #countedIfWrongKey(error: unknown, { endpoint, incoming }: Call): unknown {
    if (!(error instanceof ControlPlaneError) || error.reason !== ErrorReason.KEY_INVALID) return error;
    if (keyInHeaders(incoming) === undefined) return error;
    const { address, requestId } = incoming;
    return this.#wrongKeys.refusal({ address, requestId, method: endpoint.name }) ?? error;
  }

  /** Serves an admitted unary call. Settles at the deadline at the latest, even if the service function does not return. */
  async unary(call: Call, read: ReadRequest): Promise<Message> {
    try {
      const response = await call.unlessAborted(this.#serveUnary(call, read));
      call.succeed();
      return response;
    } catch (error) {
      throw call.fail(error);
    }
  }

  /** Serves an admitted server stream. Rejects if its request is invalid. The replies can be read once. */
  async serverStream(call: Call, read: ReadRequest): Promise<AsyncGenerator<Message>> {
    try {
      const request = await call.unlessAborted(checkedRequest(call, read));
      return this.#replies(call, () => call.endpoint.serve(request, call));
    } catch (error) {
      throw call.fail(error);
    }
  }

  /** Serves an admitted bidirectional stream, each request with the caller as it is then. A rejection of `requests` ends it. The replies can be read once. */
  bidiStream(call: Call, requests: AsyncIterable<StreamedRequest>): AsyncGenerator<Message> {
    return this.#replies(call, () => call.endpoint.serve(this.#checkedRequests(call, requests), call));
  }

  /**
   * Refuses new calls with SHUTTING_DOWN and ends streams with it: a bidirectional one after answering the requests it has
   * taken, any other at once. Resolves when no call is left, or after `graceMs` milliseconds, when it ends the rest.
   */
  async drain(graceMs: number): Promise<void> {
    this.#isDraining = true;
    for (const call of this.#calls) if (isStream(call)) call.drain(shuttingDown());
    await this.#idleWithin(graceMs);
    for (const call of this.#calls) call.abort(shuttingDown);
  }

  async #serveUnary(call: Call, read: ReadRequest): Promise<Message> {
    const request = await checkedRequest(call, read);
    const response = await call.endpoint.serve(request, call);
    return messageOf(call, response);
  }

  /** Yields the replies of a stream. Ends as soon as the call is aborted, even if the service function does not return. */
  async *#replies(call: Call, serve: () => unknown): AsyncGenerator<Message> {
    let source: AsyncIterator<unknown> | undefined;
    // A service function whose reader does not read is not resumed by it: an aborted one releases what it holds at once.
    const release = (): void => void source?.return?.().catch((error: unknown) => call.fail(error));
    call.signal.addEventListener("abort", release);
    try {
      source = (serve() as AsyncIterable<unknown>)[Symbol.asyncIterator]();
      for (;;) {
        const { done, value } = await call.unlessAborted(source.next());
        if (done) break;
        const reply = messageOf(call, value);
        try {
          yield reply;
        } catch {
          // Thrown into the stream by a writer that cannot write: the reader left before its leave was noticed.
          throw cancelled();
        }
      }
      // A stream that says itself that its key ended is not taken for one that is done.
      await call.unlessAborted(this.#streams.settled(call));
      call.succeed();
    } catch (error) {
      throw call.fail(error);
    } finally {
      call.signal.removeEventListener("abort", release);
      // Has an effect only if the reader left.
      call.abort(cancelled);
      // Not awaited: a service function that waits learns of the end only through its signal.
      release();
    }
  }

  /** Yields the requests of a bidirectional stream, each with its caller or its fault. Ends regularly once the service drains. */
  async *#checkedRequests(
    call: Call,
    requests: AsyncIterable<StreamedRequest>,
  ): AsyncGenerator<CheckedRequest<Message>> {
    const source = requests[Symbol.asyncIterator]();
    try {
      for (;;) {
        const { done, value } = await call.whileTaking(source.next());
        if (done) return;
        yield await this.#checkedRequest(call, value);
      }
    } catch (error) {
      if (!call.isDraining) throw error;
    } finally {
      source.return?.().catch(() => undefined);
    }
  }

  async #checkedRequest(call: Call, { request, bytes }: StreamedRequest): Promise<CheckedRequest<Message>> {
    const { incoming, endpoint, caller: first } = call;
    try {
      const caller = await findCaller(incoming, this.#authenticate);
      assertMayCall(caller, endpoint.access, endpoint.method);
      // Last: finding the caller may have taken the time of a query.
      await call.giveWay(bytes);
      endpoint.check(request);
      return { request, caller, fault: undefined };
    } catch (error) {
      return { request, caller: first, fault: controlPlaneErrorFrom(error) };
    }
  }

  #record(call: Call, code: string): void {
    const { endpoint, incoming, receivedAt, heldBytes } = call;
    const [method, wire] = [endpoint.name, incoming.wire];
    this.#metrics.ended.inc({ method, code, wire });
    // A stream lasts as long as its caller wants.
    if (!isStream(call)) this.#metrics.seconds.observe({ method, wire }, (performance.now() - receivedAt) / 1000);
    this.#held.release(heldBytes);
    this.#calls.delete(call);
    if (isStream(call)) this.#streams.remove(call);
    if (this.#calls.size === 0) this.#onIdle();
  }

  #idleWithin(graceMs: number): Promise<void> {
    if (this.#calls.size === 0) return Promise.resolve();
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, graceMs);
      this.#onIdle = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }

  #defaultTimeoutMs({ methodKind }: DescMethod): number {
    return methodKind === "unary" ? this.#defaultDeadlineMs : Number.POSITIVE_INFINITY;
  }

  #endpointOf(method: DescMethod): Endpoint {
    const endpoint = this.#endpoints.get(method);
    if (endpoint === undefined) throw new Error(`${methodName(method)} is not served by this pipeline`);
    return endpoint;
  }
}

/** Returns the full name of a method, `package.Service/Method`. */
export function methodName(method: DescMethod): string {
  return `${method.parent.typeName}/${method.name}`;
}

async function checkedRequest(call: Call, read: ReadRequest): Promise<Message> {
  const request = await read();
  await call.giveWay();
  call.endpoint.check(request);
  await call.giveWay();
  call.assertInTime();
  return request;
}

function messageOf({ endpoint: { method } }: Call, init: unknown): Message {
  return create(method.output, init as MessageInitShape<typeof method.output>);
}

function isStream({ endpoint }: Call): boolean {
  return endpoint.method.methodKind !== "unary";
}

function failedCall({ requestId, endpoint, incoming }: Call): Parameters<typeof reportFault>[2] {
  return { requestId, method: endpoint.name, wire: incoming.wire, key: keyFrom(incoming) };
}

/**
 * Builds the endpoint of every method of every service. Throws an `Error` for a method without `access` or without a
 * function, for one that streams only requests, and for a duplicate service.
 */
function createEndpoints(
  services: readonly ServiceDefinition[],
  checkOf: (schema: DescMessage) => RequestCheck,
): ReadonlyMap<DescMethod, Endpoint> {
  const endpoints = new Map<DescMethod, Endpoint>();
  for (const { service, functions } of services) {
    if (service.methods.some((method) => endpoints.has(method)))
      throw new Error(`service ${service.typeName} is given twice`);
    for (const method of service.methods) {
      const name = methodName(method);
      const serve = functions[method.localName];
      if (typeof serve !== "function") throw new Error(`${name} has no function that serves it`);
      if (method.methodKind === "client_streaming")
        throw new Error(`${name} streams requests only, which no wire here serves`);
      endpoints.set(method, {
        method,
        name,
        access: accessRuleOf(method),
        check: checkOf(method.input),
        serve: serve.bind(functions) as Endpoint["serve"],
      });
    }
  }
  return endpoints;
}

/** The metrics of the calls of a pipeline, of which `open` are in flight. */
function createCallMetrics(registry: Registry, open: ReadonlySet<Call>) {
  const registers = [registry];
  new Gauge({
    name: "acp_calls_in_flight",
    help: "Calls that run right now, by kind.",
    labelNames: ["kind"],
    registers,
    collect() {
      const streams = [...open].filter(isStream).length;
      this.set({ kind: "unary" }, open.size - streams);
      this.set({ kind: "stream" }, streams);
    },
  });
  return {
    ended: new Counter({
      name: "acp_calls_total",
      help: "Calls that ended, by method, gRPC code and wire.",
      labelNames: ["method", "code", "wire"],
      registers,
    }),
    seconds: new Histogram({
      name: "acp_call_seconds",
      help: "Seconds from receipt to outcome of unary calls, by method and wire.",
      labelNames: ["method", "wire"],
      buckets: BUCKETS_SECONDS,
      registers,
    }),
  };
}

/** Adds a gauge of the event loop, which every request of a process shares. */
export function measureEventLoop(registry: Registry): void {
  const delay = monitorEventLoopDelay({ resolution: LOOK_MS });
  delay.enable();
  new Gauge({
    name: "acp_event_loop_delay_seconds",
    help: "Longest time that the event loop was held up since metrics were read before.",
    registers: [registry],
    collect() {
      this.set(Math.max(0, delay.max / 1e9 - LOOK_MS / 1e3));
      delay.reset();
    },
  });
}
