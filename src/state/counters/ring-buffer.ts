const INITIAL_CAPACITY = 16;

/**
 * Actions in the order of the log, in a ring buffer that doubles when it is full: 12 bytes each, 16 with tags. Adding and
 * removing are amortised O(1).
 */
export class RingBuffer {
  #times = new Float64Array(INITIAL_CAPACITY);
  #agents = new Uint32Array(INITIAL_CAPACITY);
  #tags: Uint32Array | undefined;
  #start = 0;
  #length = 0;

  /** Creates an empty ring. `hasTags` (default false) keeps a number of the caller's with each action. */
  constructor({ hasTags = false } = {}) {
    if (hasTags) this.#tags = new Uint32Array(INITIAL_CAPACITY);
  }

  get length(): number {
    return this.#length;
  }

  /** Time of the oldest action; infinity for an empty ring. */
  get firstAt(): number {
    return this.#length === 0 ? Number.POSITIVE_INFINITY : (this.#times[this.#start] as number);
  }

  /** Adds an action. INVARIANT: it is not earlier than the last one. */
  push(at: number, agent: number, tag = 0): void {
    if (this.#length === this.#times.length) this.#grow();
    const slot = this.#slot(this.#length);
    this.#times[slot] = at;
    this.#agents[slot] = agent;
    if (this.#tags !== undefined) this.#tags[slot] = tag;
    this.#length += 1;
  }

  /** Removes the newest action and returns its agent. MUST NOT be called on an empty ring. */
  pop(): number {
    this.#length -= 1;
    return this.#agents[this.#slot(this.#length)] as number;
  }

  /** Removes the oldest action and returns its agent. MUST NOT be called on an empty ring. */
  shift(): number {
    const agent = this.#agents[this.#start] as number;
    this.#start = this.#slot(1);
    this.#length -= 1;
    return agent;
  }

  /** Removes all actions and keeps the memory for later ones. */
  clear(): void {
    this.#start = 0;
    this.#length = 0;
  }

  /** Visits all actions, oldest first. */
  forEach(visit: (agent: number, at: number, tag: number) => void): void {
    for (let index = 0; index < this.#length; index++) {
      const slot = this.#slot(index);
      visit(this.#agents[slot] as number, this.#times[slot] as number, this.#tags?.[slot] ?? 0);
    }
  }

  // Capacities are powers of two.
  #slot(index: number): number {
    return (this.#start + index) & (this.#times.length - 1);
  }

  #grow(): void {
    const capacity = this.#times.length * 2;
    this.#times = this.#unrolled(this.#times, new Float64Array(capacity));
    this.#agents = this.#unrolled(this.#agents, new Uint32Array(capacity));
    if (this.#tags !== undefined) this.#tags = this.#unrolled(this.#tags, new Uint32Array(capacity));
    this.#start = 0;
  }

  /** Copies a full ring into a larger array, the oldest action first. */
  #unrolled<T extends Float64Array | Uint32Array>(from: T, to: T): T {
    to.set(from.subarray(this.#start));
    to.set(from.subarray(0, this.#start), from.length - this.#start);
    return to;
  }
}
