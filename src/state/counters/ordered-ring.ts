const FIRST_CAPACITY = 16;

/** Steps that were done, in the order of the log, in a ring that grows: 16 bytes each. */
export interface StepRing {
  /** Adds an action. INVARIANT: it is not earlier than the last one. `kind` is any number of the caller's. */
  push(at: number, agent: number, kind: number): void;
  /** Takes the last action back. MUST NOT be called on an empty ring. */
  pop(): void;
  /** Drops every action that is not later than a time. */
  dropUntil(limit: number): void;
  /** Calls with every action that is left, oldest first. */
  forEach(visit: (at: number, agent: number, kind: number) => void): void;
}

/** Creates an empty ring. Adding and dropping are amortised O(1). */
export function createStepRing(): StepRing {
  let times = new Float64Array(FIRST_CAPACITY);
  let agents = new Uint32Array(FIRST_CAPACITY);
  let kinds = new Uint32Array(FIRST_CAPACITY);
  let start = 0;
  let length = 0;

  const slot = (index: number): number => (start + index) & (times.length - 1);

  const grow = (): void => {
    const [oldTimes, oldAgents, oldKinds, size] = [times, agents, kinds, times.length];
    times = new Float64Array(size * 2);
    agents = new Uint32Array(size * 2);
    kinds = new Uint32Array(size * 2);
    for (let index = 0; index < size; index++) {
      const from = (start + index) & (size - 1);
      times[index] = oldTimes[from] as number;
      agents[index] = oldAgents[from] as number;
      kinds[index] = oldKinds[from] as number;
    }
    start = 0;
  };

  return {
    push(at, agent, kind) {
      if (length === times.length) grow();
      const index = slot(length);
      times[index] = at;
      agents[index] = agent;
      kinds[index] = kind;
      length += 1;
    },
    pop() {
      length -= 1;
    },
    dropUntil(limit) {
      while (length > 0 && (times[start] as number) <= limit) {
        start = slot(1);
        length -= 1;
      }
    },
    forEach(visit) {
      for (let index = 0; index < length; index++) {
        const from = slot(index);
        visit(times[from] as number, agents[from] as number, kinds[from] as number);
      }
    },
  };
}
