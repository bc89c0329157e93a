/** A first-in first-out queue of tasks of one workspace, run one at a time. */
export interface TaskQueue<T> {
  /** Items that wait to be gathered into a batch. */
  readonly waiting: number;
  /** Adds an item; it runs in a batch with its neighbours. */
  add(item: T): void;
  /** Runs something alone, after everything before it. */
  run<R>(task: () => Promise<R>): Promise<R>;
  /** Resolves when nothing is left. */
  idle(): Promise<void>;
}

type Entry<T> = { readonly item: T } | { readonly task: () => Promise<void> };

/** Most items of one batch: past this an insert no longer gains from size, and the first in it waits for the last. */
export const MAX_BATCH = 256;

/**
 * Creates the queue. `runBatch` gets 1 to MAX_BATCH neighbours and MUST NOT reject. While it runs the next batch gathers:
 * group commit without a timer.
 */
export function createTaskQueue<T>(runBatch: (items: T[]) => Promise<void>): TaskQueue<T> {
  let entries: (Entry<T> | undefined)[] = [];
  let position = 0;
  let running: Promise<void> | undefined;
  let lastSize = 0;

  /** Forgets the entry at the front: what the queue went on holding would be copied by every collection. */
  const passOn = (): void => {
    entries[position] = undefined;
    position += 1;
  };

  const takeBatch = (): T[] => {
    const items: T[] = [];
    for (let entry = entries[position]; entry !== undefined && items.length < MAX_BATCH; entry = entries[position]) {
      if (!("item" in entry)) break;
      items.push(entry.item);
      passOn();
    }
    return items;
  };

  /**
   * Lets requests that arrived with others share a batch, which costs the server less than two. A caller alone, whose last
   * batch was its own, is not made to wait (0.11 ms of 0.42).
   */
  const turnOfLoop = (): Promise<void> | undefined =>
    lastSize > 1 ? new Promise((resolve) => setImmediate(resolve)) : undefined;

  const runAll = async (): Promise<void> => {
    await turnOfLoop();
    while (position < entries.length) {
      const entry = entries[position] as Entry<T>;
      if ("task" in entry) {
        passOn();
        await entry.task();
      } else {
        const items = takeBatch();
        lastSize = items.length;
        await runBatch(items);
        await turnOfLoop();
      }
      if (position > MAX_BATCH * 4) {
        entries = entries.slice(position);
        position = 0;
      }
    }
    entries = [];
    position = 0;
    running = undefined;
  };

  const push = (entry: Entry<T>): void => {
    entries.push(entry);
    running ??= runAll();
  };

  return {
    get waiting() {
      return entries.length - position;
    },
    add: (item) => push({ item }),
    run: (task) =>
      new Promise((resolve, reject) => {
        push({ task: () => task().then(resolve, reject) });
      }),
    idle: async () => running,
  };
}
