/** Messages that a test's server received, with a way to await more. */
export interface Watched<T> {
  readonly all: T[];
  /** Adds one. */
  add(item: T): void;
  /** Resolves with the first that fits, as soon as there is one. */
  find(fits?: (item: T) => boolean): Promise<T>;
  /** Resolves once there are as many. */
  count(least: number): Promise<readonly T[]>;
}

/** Creates an empty list. */
export function createWatched<T>(): Watched<T> {
  const all: T[] = [];
  const lookers = new Set<() => void>();
  const until = <R>(look: () => R | undefined): Promise<R> =>
    new Promise((resolve) => {
      const attempt = (): void => {
        const found = look();
        if (found === undefined) return;
        lookers.delete(attempt);
        resolve(found);
      };
      lookers.add(attempt);
      attempt();
    });
  return {
    all,
    add(item) {
      all.push(item);
      for (const look of lookers) look();
    },
    find: (fits = () => true) => until(() => all.find(fits)),
    count: (least) => until(() => (all.length >= least ? all : undefined)),
  };
}
