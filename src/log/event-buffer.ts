import { ControlPlaneError, ErrorReason } from "../errors.ts";

/** Events between those who make them and one stream that sends them. */
export interface EventBuffer<T> {
  push(event: T): void;
  /** Ends the stream: with an error after the events so far, or without. */
  end(error?: unknown): void;
  /**
   * The events as they come; `undefined` stands for `heartbeatMs` without one. Ends quietly when the signal aborts.
   * Read once.
   */
  read(heartbeatMs: number, signal: AbortSignal): AsyncGenerator<T | undefined>;
}

/** Events that a slow reader may be behind; past it the stream ends and the reader resumes from its cursor. */
const MAX_BEHIND = 10_000;

function tooSlow(): ControlPlaneError {
  const message = `the stream is ${MAX_BEHIND} events behind; read faster, or resume from the last cursor`;
  return new ControlPlaneError(ErrorReason.OVERLOADED, message);
}

/** Creates an empty buffer. */
export function createEventBuffer<T>(): EventBuffer<T> {
  const events: T[] = [];
  let end: { readonly error: unknown } | undefined;
  let wake = (): void => undefined;

  const finish = (error: unknown): void => {
    end ??= { error };
    wake();
  };

  const waitForEvent = (heartbeatMs: number): Promise<void> =>
    new Promise((resolve) => {
      const timer = setTimeout(resolve, heartbeatMs);
      wake = () => {
        clearTimeout(timer);
        resolve();
      };
    });

  async function* read(heartbeatMs: number, signal: AbortSignal): AsyncGenerator<T | undefined> {
    const leave = (): void => finish(undefined);
    signal.addEventListener("abort", leave);
    if (signal.aborted) return;
    try {
      for (;;) {
        let sent = 0;
        for (; sent < events.length; sent++) yield events[sent];
        events.splice(0, sent);
        if (events.length > 0) continue;
        if (end !== undefined) break;
        await waitForEvent(heartbeatMs);
        if (events.length === 0 && end === undefined) yield undefined;
      }
      if (end.error !== undefined) throw end.error;
    } finally {
      signal.removeEventListener("abort", leave);
    }
  }

  return {
    push(event) {
      if (end !== undefined) return;
      if (events.length >= MAX_BEHIND) return finish(tooSlow());
      events.push(event);
      wake();
    },
    end: finish,
    read,
  };
}
