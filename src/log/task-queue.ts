import { type BusyPoll, createBusyPoll } from "./busy-poll.ts";

/** A first-in first-out queue of what is to be done with one workspace: batches of items, and tasks that run alone. */
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

/** A batch that is under way. Resolves when it is over, with the items that have to run again; MUST NOT reject. */
export type UnderWay<T> = Promise<readonly T[]>;

/** What runs the batches, of 1 to MAX_BATCH items each. */
export interface BatchRunner<T> {
  /** Starts a batch while no other is under way. Resolves when another may follow it; MUST NOT reject. */
  begin(items: readonly T[]): Promise<{ readonly over: UnderWay<T> }>;
  /** Starts a batch behind the one under way; undefined when it has to wait for that to be over. */
  follow(items: readonly T[]): UnderWay<T> | undefined;
  /** Runs what a batch gave back, while no other is under way. MUST NOT reject. */
  again(items: readonly T[]): Promise<void>;
}

interface Running<T> {
  readonly size: number;
  /** What it gave back; undefined until it is over. */
  left?: readonly T[];
  readonly over: Promise<void>;
}

type Entry<T> = { readonly item: T } | { readonly task: () => Promise<void> };

/** Most items of one batch: past this an insert no longer gains from size, and the first in it waits for the last. */
export const MAX_BATCH = 256;
/** Batches under way at once: one that the database works on, and one that it finds when it is done. */
export const DEPTH = 2;
/**
 * The same while others have this process decide for them: their actions and answers are on the way for longer. Two workers
 * on one workspace decide a tenth more with it; one process alone, whose batches are smaller then, a sixth less.
 */
export const DEPTH_FOR_PEERS = 4;
/** Items that each must have where more than `DEPTH` are under way: two workers lost a tenth with 128 open in four parts. */
const LEAST_OF_MANY = 64;
/** Items that a batch may have however few are open: 32 callers over gRPC got a sixth less with batches of eight. */
const LEAST_SHARE = 16;

/** What a queue works with beside its runner. */
export interface TaskQueueOptions {
  /** Default: none. */
  readonly busyPoll?: BusyPoll;
  /** Batches that may be under way now, where enough is open for them. Default: `DEPTH`, always. */
  readonly depth?: () => number;
}

/**
 * Creates the queue. While a batch is under way the next gathers (group commit without a timer), and follows it as soon as
 * it is as large, so that neither the database nor this process waits for the other.
 */
export function createTaskQueue<T>(
  runner: BatchRunner<T>,
  { busyPoll = createBusyPoll(0), depth = () => DEPTH }: TaskQueueOptions = {},
): TaskQueue<T> {
  let entries: (Entry<T> | undefined)[] = [];
  let position = 0;
  let running: Promise<void> | undefined;
  let lastSize = 0;
  let underWay: Running<T>[] = [];
  let onGathered: (() => void) | undefined;

  const waiting = (): number => entries.length - position;
  const sizeUnderWay = (): number => underWay.reduce((sum, { size }) => sum + size, 0);
  /** Whether enough waits to follow what is under way: the smaller the batches, the more each decision costs. */
  const hasGathered = (): boolean => waiting() * underWay.length >= sizeUnderWay();

  const depthNow = (): number =>
    Math.max(DEPTH, Math.min(depth(), Math.floor((waiting() + sizeUnderWay()) / LEAST_OF_MANY)));

  /** Forgets the entry at the front: what the queue went on holding would be copied by every collection. */
  const passOn = (): void => {
    entries[position] = undefined;
    position += 1;
  };

  /** Takes its part of what is open at most: the callers of one part send anew while the others are decided. */
  const takeBatch = (): T[] => {
    const items: T[] = [];
    const share = Math.max(LEAST_SHARE, Math.floor((waiting() + sizeUnderWay()) / depthNow()));
    const most = Math.min(MAX_BATCH, share);
    for (let entry = entries[position]; entry !== undefined && items.length < most; entry = entries[position]) {
      if (!("item" in entry)) break;
      items.push(entry.item);
      passOn();
    }
    lastSize = items.length;
    if (position > MAX_BATCH * 4) {
      entries = entries.slice(position);
      position = 0;
    }
    return items;
  };

  /**
   * Lets requests that arrived with others share a batch, which costs the server less than two. A caller alone, whose last
   * batch was its own, is not made to wait (0.11 ms of 0.42).
   */
  const turnOfLoop = (): Promise<void> | undefined =>
    lastSize > 1 ? new Promise((resolve) => setImmediate(resolve)) : undefined;

  const watch = (over: UnderWay<T>, size: number): void => {
    const batch: Running<T> = {
      size,
      over: over.then((left) => {
        batch.left = left;
      }),
    };
    underWay.push(batch);
  };

  /** Waits until nothing is under way, and runs again what was given back, in the order of the batches. */
  const drain = async (): Promise<void> => {
    await Promise.all(underWay.map(({ over }) => over));
    const ended = underWay;
    underWay = [];
    for (const { left = [] } of ended) if (left.length > 0) await runner.again(left);
  };

  const gathered = (): Promise<void> =>
    new Promise((resolve) => {
      onGathered = () => {
        onGathered = undefined;
        resolve();
      };
    });

  const start = async (items: readonly T[]): Promise<void> => {
    const following = underWay.length === 0 ? undefined : runner.follow(items);
    if (following !== undefined) return watch(following, items.length);
    await drain();
    watch((await runner.begin(items)).over, items.length);
  };

  const step = async (): Promise<void> => {
    const [oldest] = underWay;
    if (oldest?.left !== undefined) {
      if (oldest.left.length > 0) return drain();
      underWay.shift();
      return;
    }
    const entry = entries[position];
    if (entry !== undefined && "task" in entry) {
      await drain();
      passOn();
      return entry.task();
    }
    const isOpen = underWay.length < depthNow();
    if (entry !== undefined && (oldest === undefined || (isOpen && hasGathered()))) {
      if (oldest === undefined) await turnOfLoop();
      return start(takeBatch());
    }
    await (isOpen ? Promise.race([oldest?.over, gathered()]) : oldest?.over);
  };

  const runAll = async (): Promise<void> => {
    while (position < entries.length || underWay.length > 0) await step();
    entries = [];
    position = 0;
    running = undefined;
    busyPoll.end();
  };

  const push = (entry: Entry<T>): void => {
    entries.push(entry);
    if (running === undefined) {
      busyPoll.begin();
      running = runAll();
    } else busyPoll.join();
    if (onGathered !== undefined && hasGathered()) onGathered();
  };

  return {
    get waiting() {
      return waiting();
    },
    add: (item) => push({ item }),
    run: (task) =>
      new Promise((resolve, reject) => {
        push({ task: () => task().then(resolve, reject) });
      }),
    idle: async () => running,
  };
}
