import type { CallContext, Caller } from "../api/context.ts";
import { ControlPlaneError } from "../errors.ts";
import { type Authenticate, assertMayCall, authenticated, keyFrom } from "./admit.ts";
import type { DeadlineEntry, DeadlineWheel } from "./deadline.ts";
import type { Endpoint } from "./endpoints.ts";
import type { FaultLog } from "./fault-log.ts";
import { type IncomingCall, REQUEST_ID_HEADER, requestIdFrom } from "./incoming.ts";
import type { OpenCall } from "./open-calls.ts";
import { cancelled, deadlineExceeded } from "./refusals.ts";

/** What all calls of a pipeline share. */
export interface CallEnvironment {
  readonly authenticate: Authenticate;
  readonly wheel: DeadlineWheel;
  readonly faults: FaultLog;
}

/**
 * A call from admission to outcome, and the context that its service function sees. Its signal is made when it is
 * first asked for. INVARIANT: after `ended` is set nothing of the call changes any more.
 */
export abstract class LiveCall implements CallContext, DeadlineEntry, OpenCall {
  readonly environment: CallEnvironment;
  readonly endpoint: Endpoint;
  readonly incoming: IncomingCall;
  readonly receivedAt: number;
  readonly requestId: string;
  readonly deadlineAt: number;
  caller!: Caller;
  slot = 0;
  wheelPrevious: DeadlineEntry | null = null;
  wheelNext: DeadlineEntry | null = null;
  protected ended = false;
  #controller: AbortController | undefined = undefined;
  #abortedWith: ControlPlaneError | undefined = undefined;
  #isWatching = false;

  /** `allowedMs` is infinite for a call without a deadline. */
  constructor(environment: CallEnvironment, endpoint: Endpoint, incoming: IncomingCall, allowedMs: number) {
    this.environment = environment;
    this.endpoint = endpoint;
    this.incoming = incoming;
    this.receivedAt = incoming.receivedAt;
    this.requestId = incoming.requestId ?? requestIdFrom(incoming.header(REQUEST_ID_HEADER));
    this.deadlineAt = incoming.receivedAt + allowedMs;
    if (allowedMs !== Number.POSITIVE_INFINITY) environment.wheel.add(this);
  }

  get isOver(): boolean {
    return this.ended || this.#abortedWith !== undefined || this.incoming.hasLeft;
  }

  get signal(): AbortSignal {
    if (this.#controller !== undefined) return this.#controller.signal;
    this.#controller = new AbortController();
    if (this.#abortedWith !== undefined) this.#controller.abort(this.#abortedWith);
    else if (!this.ended) this.watchCaller();
    return this.#controller.signal;
  }

  onDeadline(): void {
    this.abort(deadlineExceeded());
  }

  /** Ends the call from outside: its signal fires with `error`, and its caller is told the same. */
  abort(error: ControlPlaneError): void {
    if (this.ended || this.#abortedWith !== undefined) return;
    this.#abortedWith = error;
    this.onAbort(error);
    this.#controller?.abort(error);
  }

  /** Finds and sets the caller; synchronous as long as `authenticate` is. */
  protected admit(): Promise<void> | undefined {
    if (this.isExpired()) throw deadlineExceeded();
    const caller = authenticated(this.incoming, this.environment.authenticate);
    if (caller instanceof Promise) return caller.then((found) => this.#setCaller(found));
    this.#setCaller(caller);
    return undefined;
  }

  /** What a failure of the service function means to the caller; a fault of the service is logged. */
  protected failureFrom(error: unknown): ControlPlaneError {
    const { environment, endpoint, incoming, requestId } = this;
    // A function that stops because its signal fired fails for the signal's reason, whatever it throws.
    if (this.#abortedWith !== undefined && isAbort(error)) return this.#abortedWith;
    const call = { requestId, method: endpoint.name, wire: incoming.wire, key: keyFrom(incoming) };
    return environment.faults.report(error, call);
  }

  /** Only a caller's own deadline can have passed before the call began; the wheel watches the default. */
  protected isExpired(): boolean {
    return this.incoming.deadlineMs !== undefined && performance.now() >= this.deadlineAt;
  }

  protected watchCaller(): void {
    if (this.#isWatching) return;
    this.#isWatching = true;
    const { signal } = this.incoming;
    const leave = () => this.abort(signal.reason instanceof ControlPlaneError ? signal.reason : cancelled());
    if (signal.aborted) leave();
    else signal.addEventListener("abort", leave, { once: true });
  }

  protected abstract onAbort(error: ControlPlaneError): void;

  #setCaller(caller: Caller): void {
    assertMayCall(caller, this.endpoint.access, this.endpoint.method);
    this.caller = caller;
  }
}

function isAbort(error: unknown): boolean {
  return error instanceof Error && (error.name === "AbortError" || error.name === "TimeoutError");
}
