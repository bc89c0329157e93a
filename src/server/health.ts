/** Whether this process takes calls; what health checks on every port report. */
export interface Health {
  readonly serving: boolean;
  /** Changes the state; the same state again tells nobody. */
  set(serving: boolean): void;
  /** Calls back on every change, not at once. Returns a function that ends it. */
  watch(listener: (serving: boolean) => void): () => void;
}

/** Creates a health state that starts as not serving. */
export function createHealth(): Health {
  const listeners = new Set<(serving: boolean) => void>();
  let serving = false;
  return {
    get serving() {
      return serving;
    },
    set(next) {
      if (next === serving) return;
      serving = next;
      for (const listener of listeners) listener(next);
    },
    watch(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
  };
}
