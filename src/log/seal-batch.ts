import type { Pool, PoolClient } from "pg";
import { ControlPlaneError, ErrorReason } from "../errors.ts";
import { completeWindows, type HistoryMirror } from "../state/counters/load-history.ts";
import { loadEscalation } from "../state/load.ts";
import type { Action, Outcome, SealedDecision } from "../state/types.ts";
import type { WorkspaceState } from "../state/workspace.ts";
import { lockHead } from "../store/sql/read-entries.ts";
import { isUniqueViolation, storeFault } from "../store/store-fault.ts";
import {
  appendBatch,
  type Decide,
  type DecidedBatch,
  decideBatch,
  eventsFrom,
  sealedDecisionFrom,
  sizeAfter,
  undoBatch,
} from "./batch.ts";
import { catchUp } from "./catch-up.ts";
import type { DatabaseClock } from "./clock.ts";
import type { LedgerListener } from "./events.ts";
import { firstDecision } from "./idempotency.ts";
import { readReceipts } from "./receipts.ts";

/** An action that waits to be decided. */
export interface PendingDecision {
  readonly action: Action;
  /** True once the caller no longer waits: the action is then not decided at all. */
  readonly isAbandoned: () => boolean;
  resolve(sealed: SealedDecision): void;
  reject(error: unknown): void;
}

/** What sealing a batch works on. */
export interface SealContext {
  readonly pool: Pool;
  readonly state: WorkspaceState;
  readonly clock: DatabaseClock;
  readonly decide: Decide;
  /** Where windows may be loaded from beside the log. */
  readonly mirror: HistoryMirror | undefined;
  readonly announce: LedgerListener;
  /**
   * Runs what tells callers and listeners of a durable batch; MAY put it off until the next batch is on its way, so that
   * answers are written while the database works. MUST keep the order.
   */
  readonly afterCommit: (tell: () => void) => void;
  /** Hears that the log is durable up to a size, and whether other replicas wait for any of what came last. */
  readonly appended: (seq: number, wakes: "decisions" | undefined) => void;
  /** Hears of a durable batch that this process decided, for those who follow the log. */
  readonly tell: (batch: DecidedBatch) => void;
  /** Hears that another process was first with what it appended. */
  readonly overtaken: () => void;
}

/** Attempts without a lock. A second miss means that other replicas are busy; the lock then guarantees progress. */
const OPTIMISTIC_ATTEMPTS = 2;

/** Presented escalations kept in memory; any of them can be read again. */
const REMEMBERED_ESCALATIONS = 10_000;

/** What callers hear who went away before their action was decided. */
export const cancelled = (): ControlPlaneError =>
  new ControlPlaneError(ErrorReason.CANCELLED, "the caller went away before the action was decided");

function unknownAgent(agentId: string): ControlPlaneError {
  return new ControlPlaneError(ErrorReason.AGENT_NOT_FOUND, `no agent \`${agentId}\``, { agent_id: agentId });
}

type Client = Pool | PoolClient;

async function loadPresented(
  client: Client,
  state: WorkspaceState,
  pending: readonly PendingDecision[],
): Promise<void> {
  if (state.escalations.size > REMEMBERED_ESCALATIONS) state.escalations.clear();
  for (const { action } of pending) {
    const { escalationId } = action;
    if (escalationId === undefined || state.escalations.has(escalationId)) continue;
    const escalation = await loadEscalation(client, state.workspaceId, escalationId);
    if (escalation !== undefined) state.escalations.set(escalationId, escalation);
  }
}

/** What can be decided, and the time as of which everything that it needs is in memory. */
export interface Ready {
  readonly items: readonly PendingDecision[];
  readonly nowMs: number;
}

/** Makes sure that everything the batch needs is in memory, and turns away what cannot be decided. */
export async function prepare(
  context: SealContext,
  client: Client,
  pending: readonly PendingDecision[],
): Promise<Ready> {
  const { state } = context;
  const isKnown = ({ action }: PendingDecision): boolean => state.agents.has(action.agentId);
  // An agent may have been registered on another replica a moment ago.
  if (!pending.every(isKnown)) await catchUp(client, state, context.announce);
  await loadPresented(client, state, pending);
  for (const item of pending) if (!isKnown(item)) item.reject(unknownAgent(item.action.agentId));
  // The log's end may be locked by this client: others are not kept waiting for a mirror then.
  const mirror = client === context.pool ? context.mirror : undefined;
  const nowMs = await completeWindows(client, state, context.clock, mirror);
  return { items: pending.filter(isKnown), nowMs };
}

/** Decides and appends; undefined, and nothing left in the state, when another writer was first. */
async function attempt(
  { state, clock, decide }: SealContext,
  client: Client,
  { items, nowMs }: Ready,
): Promise<DecidedBatch | undefined> {
  const actions = items.map(({ action }) => action);
  const batch = decideBatch(state, actions, nowMs, decide);
  const sentAt = performance.now();
  let now: number | undefined;
  try {
    const appending = appendBatch(client, state, batch);
    // The next batch will name the root after this one: found while the database works.
    setImmediate(state.rootText, batch.frontier);
    now = await appending;
  } finally {
    if (now === undefined) undoBatch(state, batch);
  }
  if (now === undefined) return undefined;
  clock.observe(now, sentAt, performance.now());
  return batch;
}

const isWaitedFor = ({ escalationId, usedEscalationId }: Outcome): boolean =>
  escalationId !== undefined || usedEscalationId !== undefined;

/** Has the callers of a durable batch answered. */
export function settle(context: SealContext, batch: DecidedBatch, { items }: Ready): void {
  context.afterCommit(() => {
    for (const [index, item] of items.entries()) item.resolve(sealedDecisionFrom(batch, index));
    context.announce(eventsFrom(batch));
    context.tell(batch);
    context.appended(sizeAfter(batch), batch.outcomes.some(isWaitedFor) ? "decisions" : undefined);
  });
}

async function sealLocked(
  context: SealContext,
  client: PoolClient,
  pending: readonly PendingDecision[],
): Promise<void> {
  const { state } = context;
  await client.query("begin");
  await client.query({ ...lockHead, values: [state.workspaceId] });
  await catchUp(client, state, context.announce);
  const ready = await prepare(context, client, pending);
  if (ready.items.length === 0) return void (await client.query("rollback"));
  const batch = await attempt(context, client, ready);
  if (batch === undefined) throw new Error("the log moved under its lock");
  try {
    await client.query("commit");
  } catch (error) {
    undoBatch(state, batch);
    throw error;
  }
  settle(context, batch, ready);
}

async function sealUnderLock(context: SealContext, pending: readonly PendingDecision[]): Promise<void> {
  const client = await context.pool.connect();
  try {
    await sealLocked(context, client, pending);
  } catch (error) {
    await client.query("rollback").catch(() => undefined);
    throw error;
  } finally {
    client.release();
  }
}

async function sealOrThrow(context: SealContext, pending: readonly PendingDecision[], misses: number): Promise<void> {
  const { pool, state } = context;
  for (; misses < OPTIMISTIC_ATTEMPTS; misses++) {
    if (misses > 0) await catchUp(pool, state, context.announce);
    const ready = await prepare(context, pool, pending);
    if (ready.items.length === 0) return;
    const batch = await attempt(context, pool, ready);
    if (batch !== undefined) return settle(context, batch, ready);
    context.overtaken();
    pending = ready.items;
  }
  await sealUnderLock(context, pending);
}

/** Answers the retries in a batch with their first decisions; gives what is left to decide. */
export async function answerRetries(
  { pool, state }: SealContext,
  pending: readonly PendingDecision[],
): Promise<PendingDecision[]> {
  const ids = pending.filter(({ action }) => action.isRetryable).map(({ action }) => action.decisionId);
  const receipts = await readReceipts(pool, state.workspaceId, ids);
  return pending.filter((item) => {
    const receipt = receipts.get(item.action.decisionId);
    if (receipt === undefined) return true;
    try {
      item.resolve(firstDecision(item.action, receipt));
    } catch (error) {
      item.reject(error);
    }
    return false;
  });
}

/**
 * Decides a batch and appends it, so that every decision is valid against the exact state that the log had when it was
 * appended. Answers every caller; MUST NOT reject. No two actions of a batch may share an id. `misses` counts the
 * attempts that gave way to another writer before.
 */
export async function sealBatch(context: SealContext, items: readonly PendingDecision[], misses = 0): Promise<void> {
  let pending = items;
  try {
    // A retry of a request shows as a row that exists; it costs the others of its batch one more attempt. Other replicas
    // may append more of them at every attempt, so what bounds the attempts is that each answers somebody.
    while (pending.length > 0) {
      try {
        return await sealOrThrow(context, pending, misses);
      } catch (error) {
        if (!isUniqueViolation(error)) throw error;
        const left = await answerRetries(context, pending);
        if (left.length === pending.length) throw error;
        pending = left;
      }
    }
  } catch (error) {
    const fault = storeFault(error);
    for (const item of pending) item.reject(fault);
  }
}
