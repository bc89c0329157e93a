import type { PoolClient } from "pg";
import type { Action } from "../state/types.ts";
import type { WorkspaceState } from "../state/workspace.ts";
import { isUniqueViolation, storeFault } from "../store/store-fault.ts";
import { appendBatch, type DecidedBatch, decideBatch, undoBatch } from "./batch.ts";
import { createRecentIds } from "./recent-ids.ts";
import {
  answerRetries,
  cancelled,
  type PendingDecision,
  prepare,
  type Ready,
  type SealContext,
  sealBatch,
  settle,
} from "./seal-batch.ts";
import type { BatchRunner, UnderWay } from "./task-queue.ts";

/** Retried requests that are answered without disturbing a batch. */
const REMEMBERED_REQUESTS = 20_000;
/**
 * Milliseconds between the times of two batches that are under way at most: less than the shortest window, so that
 * nothing tentative leaves a window before it is durable or taken back.
 */
const MOST_AHEAD_MS = 500;

/** A batch that was sent to the database and is not known to be durable. */
interface SentBatch {
  readonly ready: Ready;
  readonly batch: DecidedBatch;
  readonly appending: Promise<number | undefined>;
  /** `performance.now()`. */
  readonly sentAt: number;
  /** Whether it was taken out of the state, because one before it was not appended. */
  isUndone: boolean;
}

const NOTHING: readonly PendingDecision[] = [];
const ended = { over: Promise.resolve(NOTHING) };

/** What is new in a batch, and what was decided before as far as this replica remembers, or stands in it twice. */
interface Sorted {
  readonly fresh: PendingDecision[];
  readonly retries: PendingDecision[];
}

/**
 * Appends the batches of one workspace, over one connection while any is under way, so that the database takes them in the
 * order in which they were decided. Each is decided on top of those before it, durable or not; when one is not appended,
 * the comparison of the log's end lets none behind it be.
 */
export function createAppender(context: SealContext): BatchRunner<PendingDecision> {
  const { pool, state, clock, decide } = context;
  const recent = createRecentIds(REMEMBERED_REQUESTS);
  const sent: SentBatch[] = [];
  let client: PoolClient | undefined;
  // After a fault nobody knows what state the connection is in.
  let isSuspect = false;
  let last: UnderWay<PendingDecision> | undefined;

  const sort = (items: readonly PendingDecision[]): Sorted => {
    const fresh = new Map<string, PendingDecision>();
    const retries: PendingDecision[] = [];
    for (const item of items) {
      const { decisionId, isRetryable } = item.action;
      if (fresh.has(decisionId) || (isRetryable && recent.has(decisionId))) retries.push(item);
      else fresh.set(decisionId, item);
    }
    return { fresh: [...fresh.values()], retries };
  };

  const remember = (items: readonly PendingDecision[]): void => {
    for (const { action } of items) if (action.isRetryable) recent.add(action.decisionId);
  };

  const release = (): void => {
    client?.release(isSuspect);
    client = undefined;
    isSuspect = false;
  };

  /** Takes a batch that was not appended out of the state, after everything that was decided on top of it. */
  const takeBack = (one: SentBatch): void => {
    if (one.isUndone) return;
    for (const each of sent.slice(sent.indexOf(one)).reverse()) {
      undoBatch(state, each.batch);
      each.isUndone = true;
    }
  };

  const finish = (one: SentBatch, now: number | undefined): readonly PendingDecision[] => {
    if (now === undefined) {
      takeBack(one);
      context.overtaken();
      return one.ready.items;
    }
    if (one.isUndone) throw new Error("a batch was appended behind one that was not");
    clock.observe(now, one.sentAt, performance.now());
    settle(context, one.batch, one.ready);
    return NOTHING;
  };

  const fail = (one: SentBatch, error: unknown): readonly PendingDecision[] => {
    takeBack(one);
    // A decision of the batch exists: its first one is looked for when nothing is under way.
    if (isUniqueViolation(error)) return one.ready.items;
    isSuspect = true;
    for (const item of one.ready.items) item.reject(storeFault(error));
    return NOTHING;
  };

  /** Waits for the batch, after the one that it builds on. */
  const overOf = async (one: SentBatch, before: UnderWay<PendingDecision> | undefined): UnderWay<PendingDecision> => {
    const [appended] = await Promise.allSettled([one.appending, before]);
    try {
      if (appended.status === "rejected") return fail(one, appended.reason);
      return finish(one, appended.value);
    } catch (error) {
      return fail(one, error);
    } finally {
      sent.shift();
      if (sent.length === 0) release();
    }
  };

  const send = (to: PoolClient, ready: Ready): UnderWay<PendingDecision> => {
    const actions = ready.items.map(({ action }) => action);
    let batch: DecidedBatch;
    try {
      batch = decideBatch(state, actions, ready.nowMs, decide);
    } catch (error) {
      for (const item of ready.items) item.reject(storeFault(error));
      if (sent.length === 0) release();
      return ended.over;
    }
    const sentAt = performance.now();
    const one = { ready, batch, sentAt, appending: appendBatch(to, state, batch), isUndone: false };
    // The next batch will name the root after this one: found while the database works.
    setImmediate(state.rootText, batch.frontier);
    remember(ready.items);
    const before = last;
    sent.push(one);
    last = overOf(one, before);
    return last;
  };

  const runRetries = async (retries: readonly PendingDecision[]): Promise<void> => {
    try {
      const left = await answerRetries(context, retries);
      // What has no first decision is new after all: its first attempt failed. One by one, since ids may repeat.
      for (const item of left) await sealBatch(context, [item]);
    } catch (error) {
      for (const item of retries) item.reject(storeFault(error));
    }
  };

  const runAlone = async ({ fresh, retries }: Sorted, misses = 0): Promise<void> => {
    if (fresh.length > 0) await sealBatch(context, fresh, misses);
    remember(fresh);
    if (retries.length > 0) await runRetries(retries);
  };

  /** The batch as it can be decided at once; undefined when something has to be read first. */
  const readyNow = (items: readonly PendingDecision[]): Ready | undefined => {
    const nowMs = Math.max(clock.now(), state.lastAtMs);
    if (!state.sequences.isComplete || !state.windows.isReady(nowMs)) return undefined;
    return items.every(({ action }) => hasWhatItNeeds(state, action)) ? { items, nowMs } : undefined;
  };

  /** Whether another batch may be decided on top of what is under way. */
  const mayFollow = (): boolean => {
    const [oldest] = sent;
    if (oldest === undefined || isSuspect || oldest.isUndone) return false;
    // While others of this process wait for a connection, this one is given back as soon as possible.
    return pool.waitingCount <= pool.idleCount && clock.now() - oldest.batch.atMs < MOST_AHEAD_MS;
  };

  const beginFresh = async (fresh: readonly PendingDecision[]): Promise<{ over: UnderWay<PendingDecision> }> => {
    try {
      const items = readyNow(fresh) === undefined ? (await prepare(context, pool, fresh)).items : fresh;
      if (items.length === 0) return ended;
      client = await pool.connect();
      const ready = readyNow(items);
      if (ready !== undefined) return { over: send(client, ready) };
      // While a connection was waited for, time went on and a window lacks history again.
      release();
      await runAlone({ fresh: [...items], retries: [] });
    } catch (error) {
      release();
      for (const item of fresh) item.reject(storeFault(error));
    }
    return ended;
  };

  return {
    async begin(items) {
      const sorted = sort(stillWanted(items));
      if (sorted.retries.length === 0 && sorted.fresh.length > 0) return beginFresh(sorted.fresh);
      await runAlone(sorted);
      return ended;
    },
    follow(items) {
      if (client === undefined || !mayFollow() || sort(items).retries.length > 0) return undefined;
      const ready = readyNow(items);
      if (ready === undefined) return undefined;
      const wanted = stillWanted(items);
      return wanted.length === 0 ? ended.over : send(client, { ...ready, items: wanted });
    },
    again: (items) => runAlone({ fresh: [...items], retries: [] }, 1),
  };
}

const hasWhatItNeeds = (state: WorkspaceState, { agentId, escalationId }: Action): boolean =>
  state.agents.has(agentId) && (escalationId === undefined || state.escalations.has(escalationId));

/** Turns those away whose callers have left. */
function stillWanted(items: readonly PendingDecision[]): PendingDecision[] {
  return items.filter((item) => {
    if (!item.isAbandoned()) return true;
    item.reject(cancelled());
    return false;
  });
}
