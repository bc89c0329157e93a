import type { CallContext, Caller } from "../api/context.ts";
import type { Portion } from "../async/shared-pot.ts";
import type { ControlPlaneError } from "../errors.ts";
import { type TracePlace, traceContextFrom } from "../tracing/trace-context.ts";
import type { Span } from "../tracing/tracing.ts";
import type { CallObjects } from "./call-objects.ts";
import type { Endpoint } from "./endpoints.ts";
import { codeNameOf, deadlineExceeded } from "./errors.ts";
import type { IncomingCall } from "./incoming-call.ts";
import { SMALL_REQUEST } from "./large-requests.ts";

/** Observer of a call's events. */
export interface CallObserver {
  /** Maps anything thrown to the error for the caller, and logs a fault of the service. */
  report(call: Call, error: unknown): ControlPlaneError;
  /** Opens a portion of the bytes of requests: those that a call holds until it ends, or those of a stream's message. */
  held(call: Call): Portion;
  /** Opens the portion of the bytes that the answer to a call holds until its caller has it. */
  answer(call: Call): Portion;
  /** Resolves when the next step on a large request of the call may be taken. Rejects once the call is aborted. */
  turn(call: Call): Promise<void>;
  /** Called once, when the call ends, with the name of its gRPC code. */
  ended(call: Call, code: string): void;
}

/** Milliseconds for the last messages of a server stream after its key ended. */
const LAST_MESSAGES_MS = 500;

/** Maximum delay of a timer, milliseconds. */
export const MAX_TIMER_MS = 2_147_483_647;

/** A call from admission to outcome, and the context of its service function. Only the first end of the call counts. */
export class Call implements CallContext {
  readonly endpoint: Endpoint;
  readonly incoming: IncomingCall;
  /** Set by admission, before any service function runs. */
  caller!: Caller;
  /** Set by admission, if calls are traced. */
  span: Span | undefined;
  /** Objects that an administrative call named or created, for the log. */
  objects: CallObjects = {};
  /** True once the call counts as a wrong key. */
  hasWrongKey = false;
  readonly #observer: CallObserver;
  /** Bytes of the request that have arrived; of a stream, those of the message that is arriving. */
  #arrivedBytes = 0;
  /** Weight of a unary request once its values are counted. */
  #weight = 0;
  #held: Portion | undefined;
  #answer: Portion | undefined;
  /** Created on first use: most calls never need the signal. */
  #controller: AbortController | undefined;
  #abortedWith: ControlPlaneError | undefined;
  /** The error that the call ends with instead of success. */
  #drainedWith: ControlPlaneError | undefined;
  #onKeyEnd: (() => void) | undefined;
  /** Reject functions of the awaited promises; the value is true if draining rejects the promise too. */
  readonly #waiting = new Map<(reason: ControlPlaneError) => void, boolean>();
  #deadlineAt = Number.POSITIVE_INFINITY;
  #timer: NodeJS.Timeout | undefined;
  #isOver = false;

  constructor(endpoint: Endpoint, incoming: IncomingCall, observer: CallObserver) {
    this.endpoint = endpoint;
    this.incoming = incoming;
    this.#observer = observer;
  }

  get receivedAt(): number {
    return this.incoming.receivedAt;
  }

  get wire(): IncomingCall["wire"] {
    return this.incoming.wire;
  }

  get requestId(): string {
    return this.incoming.requestId;
  }

  /** The span of the call if it is recorded, otherwise the place in the caller's trace. */
  get trace(): TracePlace | undefined {
    const { incoming, span } = this;
    if (span?.isSampled === true) return span;
    const traceparent = incoming.header("traceparent");
    return traceparent === undefined ? undefined : traceContextFrom(traceparent, incoming.header("tracestate"));
  }

  get signal(): AbortSignal {
    this.#controller ??= new AbortController();
    if (this.#abortedWith !== undefined) this.#controller.abort(this.#abortedWith);
    return this.#controller.signal;
  }

  get isOver(): boolean {
    return this.#isOver;
  }

  /** Counts bytes of the request as they arrive. Throws OVERLOADED when its workspace or agent would hold more than its share. */
  hold(bytes: number): void {
    if (this.#isOver) return;
    this.#arrivedBytes += bytes;
    // The messages of a stream count once they are whole. A large one must not wait for that.
    if (this.isBidi && this.#arrivedBytes <= SMALL_REQUEST) return;
    this.#held ??= this.#observer.held(this);
    this.#held.add(this.#arrivedBytes - this.#held.amount);
  }

  /** Counts as many bytes of a unary request as it has once it is unpacked. Throws as `hold` does. */
  holdAtLeast(bytes: number): void {
    if (bytes > this.#arrivedBytes) this.hold(bytes - this.#arrivedBytes);
  }

  /**
   * Counts a whole message of a stream until the returned function is called. Throws OVERLOADED when the workspace or agent would hold
   * more than its share.
   */
  holdMessage(bytes: number): () => void {
    this.#arrivedBytes = 0;
    this.#held?.empty();
    const portion = this.#observer.held(this);
    portion.add(bytes);
    return () => portion.release();
  }

  /** Notes the weight of a unary request, by which its further steps wait, and waits for the next one. Rejects as `giveWay` does. */
  async weigh(weight: number): Promise<void> {
    this.#weight = weight;
    await this.giveWay();
  }

  async giveWay(bytes = this.#arrivedBytes): Promise<void> {
    if (Math.max(bytes, this.#weight) <= SMALL_REQUEST) return;
    await this.#observer.turn(this);
    this.assertInTime();
  }

  /** Ends the call with DEADLINE_EXCEEDED `timeoutMs` after its receipt. Throws that at once if the time has passed. */
  setTimeout(timeoutMs: number): void {
    this.#deadlineAt = this.receivedAt + timeoutMs;
    this.assertInTime();
    const leftMs = this.#deadlineAt - performance.now();
    if (!this.#isOver && leftMs <= MAX_TIMER_MS) this.#timer = setTimeout(() => this.abort(deadlineExceeded), leftMs);
  }

  /** Throws DEADLINE_EXCEEDED once the deadline has passed, even if a busy event loop kept the timer from firing. */
  assertInTime(): void {
    if (performance.now() >= this.#deadlineAt) throw deadlineExceeded();
  }

  /** Settles as `promise` does, or rejects as soon as the call is aborted. A later failure of `promise` goes to the log. */
  unlessAborted<T>(promise: Promise<T>): Promise<T> {
    return this.#unless(this.#abortedWith, promise, false);
  }

  /** Like `unlessAborted`, for the next request of a stream; also rejects when the stream drains. */
  whileTaking<T>(promise: Promise<T>): Promise<T> {
    return this.#unless(this.#abortedWith ?? this.#drainedWith, promise, true);
  }

  /** True while the service stops: the stream then only answers requests that it has already taken. */
  get isDraining(): boolean {
    return this.#drainedWith !== undefined && this.#abortedWith === undefined;
  }

  /** Ends a stream with `error`: a bidirectional one after answering the requests it has taken, any other at once. */
  drain(error: ControlPlaneError): void {
    if (!this.isBidi) {
      this.abort(() => error);
      return;
    }
    this.#drainedWith = error;
    this.#rejectWaiting(error, (isIntake) => isIntake);
  }

  /** True for a stream of any kind. */
  get isStream(): boolean {
    return this.endpoint.method.methodKind !== "unary";
  }

  /** True for a bidirectional stream. */
  get isBidi(): boolean {
    return this.endpoint.method.methodKind === "bidi_streaming";
  }

  onKeyEnd(listener: () => void): void {
    this.#onKeyEnd = listener;
  }

  /** Ends a server stream with `error` because its key has ended; see `onKeyEnd`. */
  endKey(error: ControlPlaneError): void {
    if (this.#isOver) return;
    if (this.#onKeyEnd === undefined) {
      this.abort(() => error);
      return;
    }
    this.#drainedWith ??= error;
    this.#onKeyEnd();
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.abort(() => error), LAST_MESSAGES_MS);
  }

  /** Ends the call from outside unless it is over: signal and caller get the same reason. */
  abort(reason: () => ControlPlaneError): void {
    if (this.#isOver) return;
    const error = reason();
    this.#end(codeNameOf(error));
    this.#abortedWith = error;
    this.#controller?.abort(error);
    this.#rejectWaiting(error, () => true);
  }

  /** Ends the call with success. Throws the reason if it has been drained or its key has ended. */
  succeed(): void {
    if (this.#drainedWith !== undefined) throw this.#drainedWith;
    this.#end("OK");
  }

  /**
   * Ends a unary call with success, and counts the bytes of its answer until `delivered` is called. Throws OVERLOADED when its
   * workspace or agent would hold more than its share.
   */
  succeedWith(bytes: number): void {
    this.#answer = this.#observer.answer(this);
    this.#answer.add(bytes);
    this.succeed();
  }

  /** Notes that the caller has the answer, or is gone. */
  delivered(): void {
    this.#answer?.release();
  }

  /** Ends the call with a failure and returns the error for the caller. Also logs faults that come after the end. */
  fail(error: unknown): ControlPlaneError {
    const failure = this.#report(error);
    this.#end(codeNameOf(failure));
    return failure;
  }

  #report(error: unknown): ControlPlaneError {
    // A function that stops because its signal aborted fails for the signal's reason, whatever it throws.
    return this.#observer.report(this, isAbort(error) ? (this.#abortedWith ?? error) : error);
  }

  #unless<T>(stopped: ControlPlaneError | undefined, promise: Promise<T>, isIntake: boolean): Promise<T> {
    return new Promise((resolve, reject) => {
      if (stopped === undefined) this.#waiting.set(reject, isIntake);
      else reject(stopped);
      promise.then(
        (value) => {
          this.#waiting.delete(reject);
          resolve(value);
        },
        (error: unknown) => {
          if (this.#waiting.delete(reject)) reject(error);
          else this.#report(error);
        },
      );
    });
  }

  #rejectWaiting(reason: ControlPlaneError, isMeant: (isIntake: boolean) => boolean): void {
    for (const [reject, isIntake] of this.#waiting) {
      if (!isMeant(isIntake)) continue;
      this.#waiting.delete(reject);
      reject(reason);
    }
  }

  #end(code: string): void {
    if (this.#isOver) return;
    this.#isOver = true;
    clearTimeout(this.#timer);
    this.#held?.release();
    this.#observer.ended(this, code);
  }
}

function isAbort(error: unknown): boolean {
  return error instanceof Error && (error.name === "AbortError" || error.name === "TimeoutError");
}
