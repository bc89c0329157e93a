import { ControlPlaneError, ErrorReason } from "../errors.ts";

/** Maximum bytes of bodies that a process holds at once on one kind of route, from their arrival until their calls end. */
export const MAX_HELD_BYTES = 134_217_728;

/** Counts the bytes of the bodies in flight and bounds their sum. */
export class HeldBytes {
  readonly #maxBytes: number;
  #bytes = 0;

  constructor(maxBytes: number = MAX_HELD_BYTES) {
    this.#maxBytes = maxBytes;
  }

  /** Adds bytes. If the sum would exceed the bound, throws OVERLOADED and adds nothing. */
  take(bytes: number): void {
    const maxBytes = this.#maxBytes;
    if (this.#bytes + bytes > maxBytes) {
      const message = `the requests in flight hold ${maxBytes} bytes; retry with back-off`;
      throw new ControlPlaneError(ErrorReason.OVERLOADED, message, { max_bytes: String(maxBytes) });
    }
    this.#bytes += bytes;
  }

  release(bytes: number): void {
    this.#bytes -= bytes;
  }

  /** Runs a task with a function that takes bytes, and releases them all when the task has settled. */
  async during<T>(task: (take: (bytes: number) => void) => Promise<T>): Promise<T> {
    let taken = 0;
    try {
      return await task((bytes) => {
        this.take(bytes);
        taken += bytes;
      });
    } finally {
      this.release(taken);
    }
  }
}
