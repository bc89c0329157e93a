const FIRST_CAPACITY = 16;

/** Times with the numbers of their agents, in the order of the log, in a ring that grows: 12 bytes an entry. */
export interface EntryRing {
  readonly length: number;
  /** Time of the oldest entry; infinite when there is none. */
  readonly firstAt: number;
  /** Adds an entry. INVARIANT: it is not earlier than the last one. */
  push(at: number, agent: number): void;
  /** Takes the last entry back; gives its agent. MUST NOT be called on an empty ring. */
  pop(): number;
  /** Drops the oldest entry; gives its agent. MUST NOT be called on an empty ring. */
  shift(): number;
  /** Drops every entry; the memory stays for those to come. */
  clear(): void;
}

/** Creates an empty ring. Adding and dropping are amortised O(1). */
export function createEntryRing(): EntryRing {
  let times = new Float64Array(FIRST_CAPACITY);
  let agents = new Uint32Array(FIRST_CAPACITY);
  let start = 0;
  let length = 0;

  const slot = (index: number): number => (start + index) & (times.length - 1);

  const grow = (): void => {
    const size = times.length;
    const nextTimes = new Float64Array(size * 2);
    const nextAgents = new Uint32Array(size * 2);
    // The oldest entries first: what lies behind the start, then what went round.
    nextTimes.set(times.subarray(start));
    nextTimes.set(times.subarray(0, start), size - start);
    nextAgents.set(agents.subarray(start));
    nextAgents.set(agents.subarray(0, start), size - start);
    times = nextTimes;
    agents = nextAgents;
    start = 0;
  };

  return {
    get length() {
      return length;
    },
    get firstAt() {
      return length === 0 ? Number.POSITIVE_INFINITY : (times[start] as number);
    },
    push(at, agent) {
      if (length === times.length) grow();
      const index = slot(length);
      times[index] = at;
      agents[index] = agent;
      length += 1;
    },
    pop() {
      length -= 1;
      return agents[slot(length)] as number;
    },
    shift() {
      const agent = agents[start] as number;
      start = slot(1);
      length -= 1;
      return agent;
    },
    clear() {
      start = 0;
      length = 0;
    },
  };
}
