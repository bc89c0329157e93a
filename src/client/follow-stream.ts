import { type BackOffOptions, createBackOff } from "../async/back-off.ts";
import { ControlPlaneRequestError } from "./request-error.ts";
import { later, sleep } from "./timers.ts";

/** A stream from the server, and the way to follow it over interruptions. */
export interface FollowOptions<T> {
  /** Opens the stream. It is called for each attempt, so that a stream MAY resume where the last one ended. */
  readonly open: (signal: AbortSignal) => AsyncIterable<T>;
  /** Ends the stream. */
  readonly signal: AbortSignal;
  /** Back-off between attempts. It starts over after a stream that lasted longer than the longest pause. */
  readonly pauses: BackOffOptions;
  /** Milliseconds without a message after which a stream counts as broken. Default 45,000. */
  readonly silenceMs?: number | undefined;
  /**
   * Called when a stream broke with a fault, or ended by itself without one. A returned number replaces the pause, in
   * milliseconds. A thrown error ends the iteration.
   */
  readonly onLost?: ((fault: unknown) => number | undefined) | undefined;
}

/** Default of `silenceMs`: three heartbeats of the server. */
const DEFAULT_SILENCE_MS = 45_000;

/**
 * Yields the messages of a stream, and reopens it whenever it ends, breaks or is silent for too long. Returns when the signal
 * aborts. Always releases the connection, however the iteration ends.
 */
export async function* followStream<T>({
  open,
  signal,
  pauses,
  silenceMs = DEFAULT_SILENCE_MS,
  onLost,
}: FollowOptions<T>): AsyncGenerator<T, void, undefined> {
  const backOff = createBackOff(pauses);
  while (!signal.aborted) {
    const openedAt = performance.now();
    let fault: unknown;
    try {
      yield* messagesUntilSilence(open, signal, silenceMs);
    } catch (error) {
      fault = error;
    }
    if (signal.aborted) return;
    // Only a stream that lasted shows a good connection; on some connections streams are cut again and again.
    if (performance.now() - openedAt > pauses.maxMs) backOff.reset();
    await sleep(onLost?.(fault) ?? backOff.next(), signal).catch(() => undefined);
  }
}

/** Yields the messages of one stream. Throws the error that breaks it, and UNAVAILABLE when it is silent for too long. */
async function* messagesUntilSilence<T>(
  open: (signal: AbortSignal) => AsyncIterable<T>,
  signal: AbortSignal,
  silenceMs: number,
): AsyncGenerator<T, void, undefined> {
  const stream = new AbortController();
  const onAbort = () => stream.abort(signal.reason);
  signal.addEventListener("abort", onAbort, { once: true });
  try {
    const messages = open(stream.signal)[Symbol.asyncIterator]();
    for (;;) {
      const { done, value } = await beforeSilence(messages.next(), stream, silenceMs);
      if (done) return;
      yield value;
    }
  } finally {
    signal.removeEventListener("abort", onAbort);
    // Connect keeps the connection open when the messages are not read to the end.
    stream.abort();
  }
}

function beforeSilence<T>(next: Promise<T>, stream: AbortController, silenceMs: number): Promise<T> {
  return new Promise((resolve, reject) => {
    const cancel = later(silenceMs, () => {
      const fault = new ControlPlaneRequestError("UNAVAILABLE", `the stream was silent for ${silenceMs} ms`);
      stream.abort(fault);
      reject(fault);
    });
    next.then(resolve, reject).finally(cancel);
  });
}
