import { later } from "./back-off.ts";
import { ControlPlaneRequestError } from "./request-error.ts";

/** Limits of a stream from the server. */
export interface LiveStreamOptions {
  /** Ends the stream. */
  readonly signal: AbortSignal;
  /** Milliseconds without a message after which the stream counts as broken. Default 45,000. */
  readonly silenceMs?: number | undefined;
}

/** Three heartbeats of the server. */
const DEFAULT_SILENCE_MS = 45_000;

/**
 * Yields the messages of a stream. Throws the error that breaks it, and UNAVAILABLE when it is silent for too long. Always
 * releases the connection, however the iteration ends.
 */
export async function* liveStream<T>(
  open: (signal: AbortSignal) => AsyncIterable<T>,
  { signal, silenceMs = DEFAULT_SILENCE_MS }: LiveStreamOptions,
): AsyncGenerator<T> {
  const stream = new AbortController();
  const onAbort = () => stream.abort(signal.reason);
  signal.throwIfAborted();
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
