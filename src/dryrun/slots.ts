import { ControlPlaneError, ErrorReason } from "../errors.ts";

/** Lets a bounded number of calls of one kind go on at once; the others wait in the order of their arrival. */
export class Slots {
  readonly #maxTaken: number;
  readonly #maxWaiting: number;
  readonly #waiting: (() => void)[] = [];
  #taken = 0;

  constructor({ maxTaken, maxWaiting }: { readonly maxTaken: number; readonly maxWaiting: number }) {
    this.#maxTaken = maxTaken;
    this.#maxWaiting = maxWaiting;
  }

  /** Waits for a slot and returns the function that gives it back. Rejects with OVERLOADED when too many wait. */
  async acquire(): Promise<() => void> {
    if (this.#taken < this.#maxTaken) this.#taken++;
    else await this.#turn();
    return () => {
      const next = this.#waiting.shift();
      if (next === undefined) this.#taken--;
      else next();
    };
  }

  /** Runs work in a slot. Rejects as `acquire` and the work do. */
  async run<T>(work: () => Promise<T>): Promise<T> {
    const release = await this.acquire();
    try {
      return await work();
    } finally {
      release();
    }
  }

  async #turn(): Promise<void> {
    const waiting = this.#waiting.length;
    if (waiting >= this.#maxWaiting) {
      const message = `${waiting} calls of this kind are waiting; retry with back-off`;
      throw new ControlPlaneError(ErrorReason.OVERLOADED, message, { waiting: String(waiting) });
    }
    await new Promise<void>((resolve) => this.#waiting.push(resolve));
  }
}
