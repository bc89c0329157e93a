/** Something that is kept in an `OpenCalls`. */
export interface OpenCall {
  /** Where it is kept; belongs to the `OpenCalls`. */
  slot: number;
}

/**
 * The calls that are open, in no order. A `Set` that calls enter and leave all the time would do the same, but every table
 * that it outgrows points to the next one and to the calls that were in it: one such table in the old generation keeps every
 * later call alive until the next full collection, and young collections copy them all.
 */
export class OpenCalls<T extends OpenCall> implements Iterable<T> {
  readonly #calls: T[] = [];

  get size(): number {
    return this.#calls.length;
  }

  /** `call` MUST NOT be in here. */
  add(call: T): void {
    call.slot = this.#calls.length;
    this.#calls.push(call);
  }

  /** `call` MUST be in here. */
  remove(call: T): void {
    const last = this.#calls.pop() as T;
    if (last === call) return;
    this.#calls[call.slot] = last;
    last.slot = call.slot;
  }

  /** The calls that are open now; they MAY be removed meanwhile. */
  [Symbol.iterator](): Iterator<T> {
    return [...this.#calls].values();
  }
}
