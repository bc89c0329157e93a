/** Lets a number of pieces of work run at once, in turns between those who ask. */
export interface FairGate {
  /**
   * Runs `work` when there is room; gives undefined without running it when the signal aborts before. Whoever waits
   * longest of the key whose turn it is goes next, and one key has at most half of the places.
   */
  run<T>(key: string, signal: AbortSignal, work: () => Promise<T>): Promise<T | undefined>;
}

type Waiting = Set<(isIn: boolean) => void>;

/** Creates a gate with some places. */
export function createFairGate(places: number): FairGate {
  const most = Math.max(1, Math.floor(places / 2));
  const inside = new Map<string, number>();
  // Keys in the order of their turns: a key that got a place goes to the end.
  const waiting = new Map<string, Waiting>();
  let taken = 0;

  const mayEnter = (key: string): boolean => taken < places && (inside.get(key) ?? 0) < most;

  const count = (key: string, change: 1 | -1): void => {
    taken += change;
    const left = (inside.get(key) ?? 0) + change;
    if (left === 0) inside.delete(key);
    else inside.set(key, left);
  };

  const admit = (): void => {
    for (const [key, queue] of [...waiting]) {
      if (taken >= places) return;
      const [next] = queue;
      if (next === undefined || !mayEnter(key)) continue;
      queue.delete(next);
      waiting.delete(key);
      if (queue.size > 0) waiting.set(key, queue);
      count(key, 1);
      next(true);
    }
  };

  const enter = (key: string, signal: AbortSignal): Promise<boolean> => {
    if (signal.aborted) return Promise.resolve(false);
    if (mayEnter(key) && !waiting.has(key)) {
      count(key, 1);
      return Promise.resolve(true);
    }
    return new Promise((resolve) => {
      const queue = waiting.get(key) ?? new Set();
      waiting.set(key, queue);
      const leave = (): void => answer(false);
      const answer = (isIn: boolean): void => {
        signal.removeEventListener("abort", leave);
        queue.delete(answer);
        if (queue.size === 0 && waiting.get(key) === queue) waiting.delete(key);
        resolve(isIn);
      };
      queue.add(answer);
      signal.addEventListener("abort", leave, { once: true });
    });
  };

  return {
    async run(key, signal, work) {
      if (!(await enter(key, signal))) return undefined;
      try {
        return await work();
      } finally {
        count(key, -1);
        admit();
      }
    },
  };
}
