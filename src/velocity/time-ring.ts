const FIRST_CAPACITY = 16;

/**
 * Times in the order of the log, oldest first, in a ring that grows: 8 bytes a time.
 * Adding and dropping are amortised O(1), counting since a time is O(log n).
 */
export interface TimeRing {
  readonly length: number;
  /** Adds a time. INVARIANT: it is not earlier than the last one. */
  push(at: number): void;
  /** Takes the last time back. */
  pop(): void;
  /** Drops every time that is not later than `limit`. */
  dropUntil(limit: number): void;
  /** How many times are later than `limit`. */
  countAfter(limit: number): number;
  /** The times that are later than `limit`, oldest first. */
  timesAfter(limit: number): Float64Array;
}

/** Creates a ring from times in order, oldest first. */
export function createTimeRing(initial: ArrayLike<number> = []): TimeRing {
  let capacity = FIRST_CAPACITY;
  while (capacity < initial.length) capacity *= 2;
  let times: Float64Array = new Float64Array(capacity);
  times.set(initial);
  let start = 0;
  let length = initial.length;

  const at = (index: number): number => times[(start + index) & (capacity - 1)] as number;

  const firstAfter = (limit: number): number => {
    let low = 0;
    let high = length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (at(middle) > limit) high = middle;
      else low = middle + 1;
    }
    return low;
  };

  const copyFrom = (first: number, size: number): Float64Array => {
    const copy = new Float64Array(size);
    for (let index = first; index < length; index++) copy[index - first] = at(index);
    return copy;
  };

  return {
    get length() {
      return length;
    },
    push(time) {
      if (length === capacity) {
        times = copyFrom(0, capacity * 2);
        capacity *= 2;
        start = 0;
      }
      times[(start + length) & (capacity - 1)] = time;
      length += 1;
    },
    pop() {
      length -= 1;
    },
    dropUntil(limit) {
      while (length > 0 && at(0) <= limit) {
        start = (start + 1) & (capacity - 1);
        length -= 1;
      }
    },
    countAfter: (limit) => length - firstAfter(limit),
    timesAfter(limit) {
      const first = firstAfter(limit);
      return copyFrom(first, length - first);
    },
  };
}

/** Merges times that are each in order into one series in order. */
export function mergeTimes(series: readonly Float64Array[]): Float64Array {
  const merged = new Float64Array(series.reduce((total, times) => total + times.length, 0));
  let offset = 0;
  for (const times of series) {
    merged.set(times, offset);
    offset += times.length;
  }
  return merged.sort();
}
