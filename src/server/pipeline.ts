import { create, type DescMethod, type Message, type MessageInitShape } from "@bufbuild/protobuf";
import type { Logger } from "pino";
import type { Registry } from "prom-client";
import type { CheckedRequest, ServiceDefinition } from "../api/service.ts";
import type { SharedPot } from "../async/shared-pot.ts";
import { ControlPlaneError, controlPlaneErrorFrom, ErrorReason } from "../errors.ts";
import type { Tracing } from "../tracing/tracing.ts";
import { assertMayCall, CallerFinder, type CallerFinderOptions } from "./admission.ts";
import { Call, type CallObserver } from "./call-context.ts";
import { CallLog, isAdministrative } from "./call-log.ts";
import { objectIdsOf, objectNamesOf } from "./call-objects.ts";
import { endCallSpan, startCallSpan } from "./call-span.ts";
import { createEndpoints, type Endpoint, methodName } from "./endpoints.ts";
import { cancelled, type OutageReport, reportFault, shuttingDown } from "./errors.ts";
import { createAnswerBytes, createHeldBytes } from "./held-bytes.ts";
import type { IncomingCall } from "./incoming-call.ts";
import { LargeRequests } from "./large-requests.ts";
import { CallMetrics } from "./metrics.ts";
import { OpenStreams, type OpenStreamsOptions } from "./open-streams.ts";
import type { CountCall } from "./rate-limits.ts";
import { createRequestChecks } from "./validation.ts";
import { WrongKeys } from "./wrong-keys.ts";

/** Deadline of unary calls if neither the caller nor the options set one, milliseconds. */
const DEFAULT_UNARY_DEADLINE_MS = 10_000;

/** Default maximum depth of a request in JSON brackets: enough for any rule, safe for the stack. */
export const DEFAULT_MAX_DEPTH = 64;

/** Options of a pipeline. */
export interface PipelineOptions extends CallerFinderOptions, Omit<OpenStreamsOptions, "callers"> {
  readonly services: readonly ServiceDefinition[];
  readonly log: Logger;
  readonly metrics: Registry;
  /** Open streams of other routes, by kind, for the metrics. Default: there are none. */
  readonly otherStreams?: Readonly<Record<string, () => number>>;
  /** Deadline of unary calls whose caller sets no deadline, milliseconds. Default 10,000. Streams have no default deadline. */
  readonly defaultDeadlineMs?: number;
  /** Bytes of request bodies that workspaces share, of which one alone holds half. Default 256 MiB. */
  readonly maxHeldBytes?: number;
  /** Bytes of answers that are not read yet, which workspaces share. Default 256 MiB. */
  readonly maxAnswerBytes?: number;
  /** Queue of large requests, shared with the other routes of the process. Default: a queue for this pipeline only. */
  readonly largeRequests?: LargeRequests;
  /** Counter of wrong keys, shared with the other routes of the process. Default: a counter for this pipeline only. */
  readonly wrongKeys?: WrongKeys;
  /** Log of calls, shared with the other routes of the process. Default: a log for this pipeline only. */
  readonly callLog?: CallLog;
  /** Counts calls and messages of streams before they are read. Default: no limit. */
  readonly countCall?: CountCall;
  /** Watch that faults of the database are reported to, in place of a line for each. Default: a line for each. */
  readonly outage?: OutageReport | undefined;
  /** Maximum depth of a request in JSON brackets, over every protocol. Default `DEFAULT_MAX_DEPTH`. */
  readonly maxDepth?: number;
  /** Records every call as a span. Default: nothing is recorded. */
  readonly tracing?: Tracing | undefined;
}

/** Reads and decodes the request of an admitted call. Throws a `ControlPlaneError` for bytes that cannot be decoded. */
export type ReadRequest = () => Message | Promise<Message>;

/** The answer to a unary call as a wire sends it. */
export interface Encoded<T> {
  readonly value: T;
  readonly bytes: number;
}

/** A request of a bidirectional stream. */
export interface StreamedRequest {
  readonly request: Message;
  /** Size of the decompressed request. */
  readonly bytes: number;
  /** Weight of the request, if its values are counted. Default: its size. */
  readonly weight?: number | undefined;
}

/**
 * Path from every protocol to every service function, in four steps: admit (key, role, deadline), check the request, serve,
 * record. Rejects only with a `ControlPlaneError` that is already counted and, if it is a fault, logged.
 */
export class Pipeline {
  readonly services: readonly ServiceDefinition[];
  readonly maxDepth: number;
  readonly #endpoints: ReadonlyMap<DescMethod, Endpoint>;
  readonly #callers: CallerFinder;
  readonly #defaultDeadlineMs: number;
  readonly #observer: CallObserver;
  readonly #wrongKeys: WrongKeys;
  readonly #countCall: CountCall;
  readonly #callLog: CallLog;
  readonly #calls = new Set<Call>();
  readonly #metrics: CallMetrics;
  readonly #streams: OpenStreams;
  readonly #held: SharedPot;
  readonly #answers: SharedPot;
  readonly #tracing: Tracing | undefined;
  #isDraining = false;
  #onIdle: () => void = () => {};

  /** Throws an `Error` for a method without `access` or without a function, and for a rule that does not compile. */
  constructor(options: PipelineOptions) {
    const { services, log, maxDepth = DEFAULT_MAX_DEPTH } = options;
    const { largeRequests = new LargeRequests() } = options;
    this.services = services;
    this.#tracing = options.tracing;
    this.maxDepth = maxDepth;
    this.#callers = new CallerFinder(options);
    this.#held = createHeldBytes("request_bytes", options.maxHeldBytes);
    this.#answers = createAnswerBytes(options.maxAnswerBytes);
    this.#callLog = options.callLog ?? new CallLog(log);
    this.#wrongKeys = options.wrongKeys ?? new WrongKeys(log);
    this.#countCall = options.countCall ?? (() => undefined);
    this.#streams = new OpenStreams({ ...options, callers: this.#callers });
    this.#defaultDeadlineMs = options.defaultDeadlineMs ?? DEFAULT_UNARY_DEADLINE_MS;
    this.#endpoints = createEndpoints(services, createRequestChecks(maxDepth));
    this.#metrics = new CallMetrics({
      registry: options.metrics,
      open: this.#calls,
      methods: this.#endpoints.keys(),
      otherStreams: options.otherStreams ?? {},
    });
    this.#observer = {
      held: ({ caller }) => this.#held.open(caller),
      answer: ({ caller }) => this.#answers.open(caller),
      turn: ({ caller, signal }) => largeRequests.turn(caller, signal),
      report: (call, error) => reportFault(log, error, failedCall(call, this.#callers), options.outage),
      ended: (call, code) => this.#record(call, code),
    };
  }

  /** Finds the caller by the headers, before the body is read, and starts the call's deadline. */
  async admit(method: DescMethod, incoming: IncomingCall): Promise<Call> {
    const endpoint = this.#endpointOf(method);
    const call = new Call(endpoint, incoming, this.#observer);
    this.#calls.add(call);
    if (this.#tracing !== undefined) call.span = startCallSpan(this.#tracing, call);
    incoming.onLeave((reason) => call.abort(reason));
    try {
      if (this.#isDraining) throw shuttingDown();
      call.setTimeout(incoming.timeoutMs() ?? this.#defaultTimeoutMs(method));
      call.caller = await call.unlessAborted(this.#callers.find(incoming));
      const counting = this.#countCall(call.caller);
      if (counting !== undefined) await call.unlessAborted(counting);
      assertMayCall(call.caller, endpoint.access, method);
      if (call.isStream) this.#streams.add(call);
      return call;
    } catch (error) {
      throw call.fail(call.caller === undefined ? this.#countedIfWrongKey(error, call) : error);
    }
  }

  /**
   * Serves an admitted unary call. Settles at the deadline at the latest, even if the service function does not return. The wire MUST
   * call `delivered` once the caller has the answer or is gone.
   */
  async unary<T>(call: Call, read: ReadRequest, encode: (response: Message) => Encoded<T>): Promise<T> {
    try {
      const { value, bytes } = encode(await call.unlessAborted(this.#serveUnary(call, read)));
      call.succeedWith(bytes);
      return value;
    } catch (error) {
      throw call.fail(error);
    }
  }

  /** Checks the request, then serves it. */
  async #serveUnary(call: Call, read: ReadRequest): Promise<Message> {
    const request = await checkedRequest(call, read);
    const isLogged = isAdministrative(call.endpoint);
    const { input, output } = call.endpoint.method;
    if (isLogged) call.objects = objectIdsOf(input, request);
    const response = messageOf(call, await call.endpoint.serve(request, call));
    if (isLogged) {
      const names = { ...objectNamesOf(output, response), ...objectNamesOf(input, request) };
      call.objects = { ...objectIdsOf(output, response), ...names, ...call.objects };
    }
    return response;
  }

  /** Counts an ended call. */
  #record(call: Call, code: string): void {
    this.#metrics.record(call, code);
    // A wrong key is logged where it is counted.
    if (!call.hasWrongKey) this.#callLog.ended(call, code);
    if (call.span !== undefined) endCallSpan(call.span, call.incoming.wire, code);
    this.#calls.delete(call);
    if (call.isStream) this.#streams.remove(call);
    if (this.#calls.size === 0) this.#onIdle();
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

  /**
   * Serves an admitted bidirectional stream. The caller is looked up again for each request. A rejection of `requests` ends the
   * stream. The replies can be read once.
   */
  bidiStream(call: Call, requests: AsyncIterable<StreamedRequest>): AsyncGenerator<Message> {
    return this.#replies(call, () => call.endpoint.serve(this.#checkedRequests(call, requests), call));
  }

  /**
   * Refuses new calls with SHUTTING_DOWN and ends streams with it: a bidirectional one after answering the requests it has taken,
   * any other at once. Resolves when no call is left. After `graceMs` milliseconds it ends the remaining calls.
   */
  async drain(graceMs: number): Promise<void> {
    this.#isDraining = true;
    for (const call of this.#calls) if (call.isStream) call.drain(shuttingDown());
    await this.#idleWithin(graceMs);
    for (const call of this.#calls) call.abort(shuttingDown);
  }

  /** Yields the replies of a stream. Ends as soon as the call is aborted, even if the service function does not return. */
  async *#replies(call: Call, serve: () => unknown): AsyncGenerator<Message> {
    let source: AsyncIterator<unknown> | undefined;
    // A reader that does not read never resumes the service function, so an abort has to release what the function holds.
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
          // A writer that cannot write throws this into the stream: the reader disconnected before that was noticed.
          throw cancelled();
        }
      }
      // A stream that reports the end of its own key must not count as finished.
      await call.unlessAborted(this.#streams.settled(call));
      call.succeed();
    } catch (error) {
      throw call.fail(error);
    } finally {
      call.signal.removeEventListener("abort", release);
      // Has an effect only if the reader disconnected.
      call.abort(cancelled);
      // Not awaited: a waiting service function learns of the end only through its signal.
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

  /** Finds the caller as it is now. A request with a fault, such as a key that has ended, MUST be answered with it alone. */
  async #checkedRequest(
    call: Call,
    { request, bytes, weight = bytes }: StreamedRequest,
  ): Promise<CheckedRequest<Message>> {
    const { incoming, endpoint, caller: first } = call;
    let answered = (): void => undefined;
    try {
      answered = call.holdMessage(bytes);
      const caller = await this.#callers.find(incoming);
      await this.#countCall(caller);
      assertMayCall(caller, endpoint.access, endpoint.method);
      // Last, because finding the caller may have taken as long as a query.
      await call.giveWay(weight);
      endpoint.check(request);
      return { request, caller, fault: undefined, answered };
    } catch (error) {
      return { request, caller: first, fault: controlPlaneErrorFrom(error), answered };
    }
  }

  #countedIfWrongKey(error: unknown, call: Call): unknown {
    if (!(error instanceof ControlPlaneError) || error.reason !== ErrorReason.KEY_INVALID) return error;
    const { endpoint, incoming } = call;
    call.hasWrongKey = true;
    const { address, requestId } = incoming;
    return this.#wrongKeys.refusal({ address, requestId, method: endpoint.name, reason: error.message }) ?? error;
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

function failedCall({ requestId, endpoint, incoming }: Call, callers: CallerFinder): Parameters<typeof reportFault>[2] {
  return { requestId, method: endpoint.name, wire: incoming.wire, key: callers.keyOf(incoming) };
}
