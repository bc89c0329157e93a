import type { KeyHolder } from "../registry/authenticator.ts";
import type { TracePlace } from "../tracing/trace-context.ts";

/** The caller: the holder of the key that came with the call, as admission found it. */
export type Caller = KeyHolder;

/** A call as its service function sees it, beside the request. */
export interface CallContext {
  readonly caller: Caller;
  /** Aborts when the caller goes away, the deadline passes or the service drains. */
  readonly signal: AbortSignal;
  /**
   * Calls the listener once when the key of a server stream ends, so that the function can send its last messages and
   * return within 500 ms. Without a listener the stream ends at once. Either way it ends with KEY_INVALID.
   */
  onKeyEnd(listener: () => void): void;
  /** True once the call has ended and its answer is no longer awaited. */
  readonly isOver: boolean;
  /** `performance.now()` when the first byte of the request was seen, in milliseconds. */
  readonly receivedAt: number;
  /** Protocol of the call. */
  readonly wire: "rest" | "connect" | "grpc-web" | "grpc";
  /** Names the call in the log and in INTERNAL errors. */
  readonly requestId: string;
  /** Place in the trace of the call; undefined or absent for a call without one. */
  readonly trace?: TracePlace | undefined;
  /**
   * Gives other calls a turn before the next step on a large request; resolves at once for a small one. `bytes`: size of the
   * step's data; default: the request's. Rejects if the call ended meanwhile.
   */
  giveWay(bytes?: number): Promise<void>;
}
