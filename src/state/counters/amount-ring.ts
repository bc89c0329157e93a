const INITIAL_CAPACITY = 16;

/** Amount of one action in a window, in millionths. */
export interface RingAmount {
  /** Epoch milliseconds. */
  readonly at: number;
  /** Number of the agents that it counts for. */
  readonly party: number;
  readonly reserved: number;
  readonly captured: number;
}

/**
 * Amounts of actions in the order of their times, in a ring buffer that doubles when it is full: 28 bytes each. Adding and removing
 * are amortised O(1), changing an amount takes a binary search.
 */
export class AmountRing {
  #times = new Float64Array(INITIAL_CAPACITY);
  #parties = new Uint32Array(INITIAL_CAPACITY);
  #reserved = new Float64Array(INITIAL_CAPACITY);
  #captured = new Float64Array(INITIAL_CAPACITY);
  #start = 0;
  #length = 0;

  get length(): number {
    return this.#length;
  }

  /** Time of the oldest amount; infinity for an empty ring. */
  get firstAt(): number {
    return this.#length === 0 ? Number.POSITIVE_INFINITY : (this.#times[this.#start] as number);
  }

  /** Time of the newest amount; minus infinity for an empty ring. */
  get lastAt(): number {
    return this.#length === 0 ? Number.NEGATIVE_INFINITY : (this.#times[this.#slot(this.#length - 1)] as number);
  }

  /** Adds an amount. INVARIANT: it is not earlier than the last one. */
  push({ at, party, reserved, captured }: RingAmount): void {
    if (this.#length === this.#times.length) this.#grow();
    const slot = this.#slot(this.#length);
    this.#times[slot] = at;
    this.#parties[slot] = party;
    this.#reserved[slot] = reserved;
    this.#captured[slot] = captured;
    this.#length += 1;
  }

  /** Removes the newest amount. MUST NOT be called on an empty ring. */
  pop(): RingAmount {
    this.#length -= 1;
    return this.#at(this.#length);
  }

  /** Removes the oldest amount. MUST NOT be called on an empty ring. */
  shift(): RingAmount {
    const oldest = this.#at(0);
    this.#start = this.#slot(1);
    this.#length -= 1;
    return oldest;
  }

  /** Changes an amount of a party at a time by the differences. Returns false if the ring has none. */
  change({ at, party, reserved, captured }: RingAmount): boolean {
    for (let index = this.#indexAt(at); index < this.#length; index++) {
      const slot = this.#slot(index);
      if (this.#times[slot] !== at) return false;
      if (this.#parties[slot] !== party) continue;
      this.#reserved[slot] = (this.#reserved[slot] as number) + reserved;
      this.#captured[slot] = (this.#captured[slot] as number) + captured;
      return true;
    }
    return false;
  }

  /** Returns the time of an amount, by its number from the oldest, from 0. */
  timeAt(index: number): number {
    return this.#times[this.#slot(index)] as number;
  }

  /** Returns the party of an amount, by its number from the oldest, from 0. */
  partyAt(index: number): number {
    return this.#parties[this.#slot(index)] as number;
  }

  /** Returns an amount, reserved and captured, in millionths, by its number from the oldest, from 0. */
  amountAt(index: number): number {
    const slot = this.#slot(index);
    return (this.#reserved[slot] as number) + (this.#captured[slot] as number);
  }

  /** Visits all amounts, oldest first. */
  forEach(visit: (amount: RingAmount) => void): void {
    for (let index = 0; index < this.#length; index++) visit(this.#at(index));
  }

  /** Returns the index of the first amount that is not earlier than a time. */
  #indexAt(at: number): number {
    let [low, high] = [0, this.#length];
    while (low < high) {
      const middle = (low + high) >>> 1;
      if ((this.#times[this.#slot(middle)] as number) < at) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  #at(index: number): RingAmount {
    const slot = this.#slot(index);
    return {
      at: this.#times[slot] as number,
      party: this.#parties[slot] as number,
      reserved: this.#reserved[slot] as number,
      captured: this.#captured[slot] as number,
    };
  }

  // Capacities are powers of two.
  #slot(index: number): number {
    return (this.#start + index) & (this.#times.length - 1);
  }

  #grow(): void {
    const capacity = this.#times.length * 2;
    this.#times = this.#unrolled(this.#times, new Float64Array(capacity));
    this.#parties = this.#unrolled(this.#parties, new Uint32Array(capacity));
    this.#reserved = this.#unrolled(this.#reserved, new Float64Array(capacity));
    this.#captured = this.#unrolled(this.#captured, new Float64Array(capacity));
    this.#start = 0;
  }

  /** Copies a full ring into a larger array, the oldest amount first. */
  #unrolled<T extends Float64Array | Uint32Array>(from: T, to: T): T {
    to.set(from.subarray(this.#start));
    to.set(from.subarray(0, this.#start), from.length - this.#start);
    return to;
  }
}
