import { later } from "./back-off.ts";
import { ControlPlaneRequestError } from "./request-error.ts";

/** How a stream of the server is read. */
export interface LiveStreamOptions {
  /** Ends the stream. */
  readonly signal: AbortSignal;
  /** Milliseconds without any message after which the stream counts as broken. Default 45,000. */
  readonly silenceMs?: number | undefined;
}

/** Three heartbeats of the server. */
const DEFAULT_SILENCE_MS = 45_000;

/**
 * The messages of one stream as long as they keep coming. Throws what the stream breaks with, and UNAVAILABLE when it is
 * silent for too long. However the reading ends, the connection is let go.
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
    // The framework leaves the connection open when its messages are not read to the end.
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
