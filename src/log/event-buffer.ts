import { ControlPlaneError, ErrorReason } from "../errors.ts";

/**
 * Maximum number of events that a reader may lag behind. Past it the stream ends with OVERLOADED, and the reader opens another.
 * All streams share the events, which hold no bodies of decisions; a full buffer adds 16 KiB of references a stream.
 */
const MAX_BUFFERED = 2_000;

function tooSlow(): ControlPlaneError {
  const message = `the stream is ${MAX_BUFFERED} events behind; read faster, or open it again`;
  return new ControlPlaneError(ErrorReason.OVERLOADED, message);
}

/** Bounded queue between the producers of events and the one stream that sends them. */
export class EventBuffer<T> {
  readonly #events: T[] = [];
  #end: { readonly error: unknown } | undefined;
  #wake = (): void => undefined;

  /** Adds an event. Ends the stream with OVERLOADED when the reader lags too far behind. */
  push(event: T): void {
    if (this.#end !== undefined) return;
    if (this.#events.length >= MAX_BUFFERED) this.end(tooSlow());
    else this.#events.push(event);
    this.#wake();
  }

  /** Ends the stream after the events so far, with an error if one is given. */
  end(error?: unknown): void {
    this.#end ??= { error };
    this.#wake();
  }

  /**
   * Yields events as they come, and `undefined` after `heartbeatMs` without one. Returns when the signal aborts. MUST be
   * called only once.
   */
  async *read(heartbeatMs: number, signal: AbortSignal): AsyncGenerator<T | undefined> {
    if (signal.aborted) return;
    const leave = (): void => this.end();
    signal.addEventListener("abort", leave);
    try {
      while (this.#events.length > 0 || this.#end === undefined) {
        if (this.#events.length === 0 && !(await this.#waitForEvent(heartbeatMs))) yield undefined;
        const { length } = this.#events;
        for (let sent = 0; sent < length; sent++) yield this.#events[sent];
        this.#events.splice(0, length);
      }
      if (this.#end.error !== undefined) throw this.#end.error;
    } finally {
      signal.removeEventListener("abort", leave);
    }
  }

  /** Resolves with false when the heartbeat is due before an event or the end. */
  #waitForEvent(heartbeatMs: number): Promise<boolean> {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, heartbeatMs, false);
      this.#wake = () => {
        clearTimeout(timer);
        resolve(true);
      };
    });
  }
}
