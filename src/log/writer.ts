import { setImmediate } from "node:timers/promises";
import type { PoolClient } from "pg";
import { ControlPlaneError, ErrorReason } from "../errors.ts";
import type { ControlChange } from "../state/control-changes.ts";
import { completeWindows, type HistoryMirror } from "../state/counters/log-history.ts";
import { foldChange } from "../state/fold.ts";
import { loadNamed, loadState } from "../state/load.ts";
import { forgetSaved, saveTrustSnapshot, snapshotOf } from "../state/trust-snapshot.ts";
import type { Action, Outcome, SealedDecision } from "../state/types.ts";
import type { WorkspaceState } from "../state/workspace.ts";
import { type Database, isUniqueViolation, storeFault } from "../store/database.ts";
import { lockHead } from "../store/sql/read-entries.ts";
import {
  appendChanges,
  lockLogEnd,
  type Reader,
  readerWithin,
  readSnapshot,
  type Transaction,
} from "../store/transaction.ts";
import {
  Batch,
  type Decide,
  decidedAlone,
  isTask,
  orRejectAll,
  type PendingDecision,
  Queue,
  rejectAll,
  type Steps,
  textLengthOf,
  type Waiting,
} from "./batch.ts";
import { announceStretch, catchUp } from "./catch-up.ts";
import { type SealedChanges, sealChanges } from "./changes.ts";
import type { AppendedEnd, LedgerEvent, LedgerListener, WakeUp } from "./events.ts";
import { assertRepeatable, replayOf } from "./idempotency.ts";
import { type DecisionReceipt, readReceipts, sealedDecisionFromReceipt } from "./receipts.ts";
import type { DatabaseClock } from "./workspace-logs.ts";

/** Scope of a change of a workspace, valid while the end of the log is locked. */
export interface ChangeScope {
  /** Commits together with the log. */
  readonly transaction: Transaction;
  /** The state at the end of the log. Read only: sealed changes are folded into it after the commit. */
  readonly state: WorkspaceState;
  /** Time of the entries that this change seals, epoch milliseconds. */
  readonly nowMs: number;
  /** Index of the next sealed entry. */
  nextSeq(): number;
  /** Adds an entry. It takes effect on every replica when the transaction commits. */
  seal(change: ControlChange): void;
  /**
   * Decides the action that the change was prepared for, and appends the decision before all entries that the change seals. The
   * state shows it at once. MUST be called at most once, and before `seal`.
   */
  append(steps: Steps): Promise<Outcome>;
}

/** Optional helpers of a log outside the database. Losing one costs time, never correctness. */
export interface LogSurroundings {
  /** Clock of every log. Default: one that follows the database's. */
  readonly clock?: DatabaseClock;
  /** Second source of window histories. */
  readonly mirror?: HistoryMirror;
  /** Receives the end of the log after every durable append of this replica. MUST NOT throw. */
  readonly onAppended?: (end: AppendedEnd) => void;
  /** Receives the earliest expiry of escalations that this replica created, epoch milliseconds. MUST NOT throw. */
  readonly onEscalated?: (workspaceId: string, nextExpiryMs: number) => void;
}

/** A batch that was sent and is not known to be durable. */
interface SentBatch {
  readonly batch: Batch;
  /** Settled result of the append: never rejects. */
  readonly appended: Promise<PromiseSettledResult<number | undefined>>;
  readonly sentAtMs: number;
}

/** Batches in flight at once: one that the database works on, and one that it finds when it is done. */
const MAX_IN_FLIGHT = 2;
/** Characters of a batch after which the event loop serves others before the next: each takes milliseconds. */
const LARGE_BATCH_TEXT = 65_536;
/** Smallest share of the open actions that one batch takes while another gathers. */
const MIN_SHARE = 16;
/**
 * Longest time between two batches in flight, milliseconds: less than the shortest window, so that nothing tentative leaves
 * a window before it is durable or rolled back.
 */
const MAX_AHEAD_MS = 500;
/** Time between sweeps of expired authority, milliseconds: a sweep visits all authority that has not ended. */
const SWEEP_MS = 60_000;

function unknownAgent(agentId: string): ControlPlaneError {
  return new ControlPlaneError(ErrorReason.AGENT_NOT_FOUND, `no agent \`${agentId}\``, { agent_id: agentId });
}

/**
 * The log of one workspace on this replica, and the only way to decide, to change and to read it.
 *
 * One loop writes. It takes the actions that wait (group commit), decides them as a batch on the state in memory, folds them
 * in, and sends them by compare-and-append. While fewer than two batches are in flight it goes on. Then it awaits the oldest:
 * a durable batch is published; one that another replica overtook is rolled back with the batch behind it, and both are
 * repeated under the lock of the log's end, which guarantees progress. Tasks (changes, reads) take turns with batches.
 *
 * INVARIANT: a decision is appended at exactly the index that it was decided for, so every decision is valid against the
 * state that the log had before it.
 */
export class WorkspaceLog {
  readonly workspaceId: string;
  readonly #database: Database;
  /** Replaced by one that is read anew after a fault that may have left it with half a step. */
  #state: WorkspaceState;
  #isTorn = false;
  /** Index after the last entry that listeners heard of. */
  #announcedSeq: number;
  readonly #clock: DatabaseClock;
  readonly #surroundings: LogSurroundings;
  readonly #listeners = new Set<LedgerListener>();

  readonly #queue = new Queue();
  readonly #inFlight: SentBatch[] = [];
  /** Durable batches whose callers are answered after the next batch is on its way. */
  readonly #unpublished: Batch[] = [];
  /** Held while batches are in flight, so that the database takes them in the order in which they were decided. */
  #connection: PoolClient | undefined;
  #running: Promise<void> | undefined;
  #lastBatchSize = 0;
  /** True after a batch with much text, until others had their turn. */
  #owesTurn = false;
  #onGathered: (() => void) | undefined;

  #usedAt = performance.now();
  #sweptAt = this.#usedAt;
  #reading: Promise<WorkspaceState> | undefined;
  /** Largest size that wake-ups named and no task has caught up to yet; 0 for none. */
  #notifiedSeq = 0;
  /** True if the last change found entries of other replicas: the next one reads before it takes the lock. */
  #isBehind = true;

  /** Opens the log over its loaded state. */
  constructor(database: Database, state: WorkspaceState, clock: DatabaseClock, surroundings: LogSurroundings = {}) {
    this.workspaceId = state.workspaceId;
    this.#database = database;
    this.#state = state;
    this.#announcedSeq = state.seq;
    this.#clock = clock;
    this.#surroundings = surroundings;
  }

  /** Actions and tasks that wait. */
  get waiting(): number {
    return this.#queue.length;
  }

  /** `performance.now()` of the last use, for eviction. */
  get usedAt(): number {
    return this.#usedAt;
  }

  get listeners(): number {
    return this.#listeners.size;
  }

  /** Time of an entry sealed now, epoch milliseconds. */
  get nowMs(): number {
    return this.#now();
  }

  /** Tells which preparations an action needs, by the mandates in force as far as this replica is caught up. */
  needsOf(action: Action): { readonly mayTakeLong: boolean; readonly asksGuard: boolean } {
    const policies = this.#state.policies.policySet();
    return { mayTakeLong: policies.mayTakeLong(textLengthOf(action)), asksGuard: policies.asksGuard };
  }

  /**
   * Decides an action and appends it. Resolves only after the decision is durable. Rejects with AGENT_NOT_FOUND,
   * REQUEST_ID_REUSED, REQUEST_ID_EXPIRED, OVERLOADED, CANCELLED or STORE_UNAVAILABLE; nothing was decided then, except that after
   * STORE_UNAVAILABLE it may have been.
   */
  append(action: Action, steps: Steps, isAbandoned: () => boolean): Promise<SealedDecision> {
    this.#usedAt = performance.now();
    return new Promise((resolve, reject) => {
      this.#queue.assertRoom();
      this.#enqueue({ action, steps, isAbandoned, resolve, reject });
    });
  }

  /** Tells if the log holds a decision. Rejects with STORE_UNAVAILABLE. */
  async holds(decisionId: string): Promise<boolean> {
    return (await readReceipts(this.#database.pool, this.workspaceId, [decisionId])).size > 0;
  }

  /**
   * Runs `run` on the state at the end of the log and the time of a decision made now, with everything in memory that deciding
   * the actions needs, and appends nothing. Reads in a READ ONLY transaction. `run` MUST leave the state as it was. Rejects with
   * AGENT_NOT_FOUND, OVERLOADED or STORE_UNAVAILABLE.
   */
  async dryRun<T>(actions: readonly Action[], run: (state: WorkspaceState, nowMs: number) => T): Promise<T> {
    this.#queue.assertRoom();
    const { pool } = this.#database;
    return this.#runAlone(() =>
      readSnapshot(pool, async (client) => {
        await this.#catchUp(client);
        const state = this.#state;
        const stranger = actions.find(({ agentId }) => !state.agents.has(agentId));
        if (stranger !== undefined) throw unknownAgent(stranger.agentId);
        await loadNamed(client, state, actions);
        const nowMs = await completeWindows(client, state, this.#clock, this.#surroundings.mirror);
        return run(state, nowMs);
      }),
    );
  }

  /**
   * Changes the workspace in one transaction: everything that `apply` writes and seals is durable and in the state when
   * this resolves, or nothing is. `action`: one that `apply` decides; its agent MUST be in the workspace. Default: none.
   */
  change<T>(by: string, apply: (scope: ChangeScope) => Promise<T>, action?: Action): Promise<T> {
    return this.#runAlone(async () => {
      const { result, sealed, batch } = await this.#commitChange(by, apply, action);
      if (batch !== undefined) {
        this.#unpublished.push(batch);
        this.#publish();
      }
      if (sealed !== undefined) this.#foldOwn(sealed);
      return result;
    });
  }

  /** Gives the state at the end of the log: it shows everyone's writes before the call. Read it before the next await. */
  caughtUp(): Promise<WorkspaceState> {
    // Readers that come before the read has begun share it.
    this.#reading ??= this.#readAlone();
    return this.#reading;
  }

  #readAlone(): Promise<WorkspaceState> {
    const reading = this.#runAlone(async () => {
      this.#reading = undefined;
      await this.#catchUp(this.#database.pool);
      return this.#state;
    });
    reading.catch(() => {
      if (this.#reading === reading) this.#reading = undefined;
    });
    return reading;
  }

  /** Takes in that another replica appended. Catches up unless only listeners would want to know and there are none. */
  wakeUp({ seq, isChange }: Pick<WakeUp, "seq" | "isChange">): void {
    if ((!isChange && this.#listeners.size === 0) || seq <= this.#state.seq) return;
    const isWoken = this.#notifiedSeq > 0;
    this.#notifiedSeq = Math.max(this.#notifiedSeq, seq);
    if (isWoken) return;
    this.#runTask(async () => {
      const notified = this.#notifiedSeq;
      this.#notifiedSeq = 0;
      // This replica also hears of its own changes; they are in the state by now.
      if (notified > this.#state.seq) await this.#catchUp(this.#database.pool);
    }).catch(() => {
      this.#notifiedSeq = 0;
    });
  }

  /** Calls the listener with every entry from now on. Returns the function that ends it. */
  subscribe(listener: LedgerListener): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** Writes the trust snapshot if trust changed since the last one. */
  async saveTrust(): Promise<void> {
    if (this.#state.trustChangedAt.size === 0) return;
    const snapshot = await this.#runTask(async () => snapshotOf(this.#state));
    forgetSaved(this.#state, await saveTrustSnapshot(this.#database.pool, snapshot));
    // After the snapshot, which keeps the last uses of authority that expired.
    if (performance.now() - this.#sweptAt < SWEEP_MS) return;
    this.#sweptAt = performance.now();
    await this.#runTask(async () => this.#state.authority.forgetExpired(snapshot.lastAtMs));
  }

  /** Resolves when everything that was asked for is done. */
  async idle(): Promise<void> {
    await this.#running;
  }

  // The loop.

  #enqueue(entry: Waiting): void {
    this.#queue.push(entry);
    this.#running ??= this.#run();
    if (this.#hasGathered()) this.#onGathered?.();
  }

  #runTask<T>(task: () => Promise<T>): Promise<T> {
    return new Promise((resolve, reject) => this.#enqueue({ run: () => task().then(resolve, reject), reject }));
  }

  async #runAlone<T>(task: () => Promise<T>): Promise<T> {
    this.#usedAt = performance.now();
    try {
      return await this.#runTask(task);
    } catch (error) {
      throw storeFault(error);
    }
  }

  async #run(): Promise<void> {
    while (this.#queue.length > 0 || this.#inFlight.length > 0 || this.#unpublished.length > 0) {
      try {
        if (this.#isTorn) await this.#restore();
        await this.#turn();
      } catch (error) {
        await this.#giveUp(error);
      }
    }
    this.#running = undefined;
  }

  async #turn(): Promise<void> {
    if (this.#owesTurn) await setImmediate();
    this.#owesTurn = false;
    if (this.#inFlight.length === 0) await this.#startNext();
    else if (!this.#sendBehind()) {
      this.#publish();
      await this.#awaitOldest();
      return;
    }
    this.#publish();
  }

  /**
   * Goes on after a fault of the loop itself: answers batches that became durable, and gives everyone else who waits the error.
   * The state may hold half a step, so it is read anew before the next one.
   */
  async #giveUp(error: unknown): Promise<void> {
    this.#isTorn = true;
    const sent = this.#inFlight.splice(0);
    const waiting = this.#queue.takeAll();
    const results = await Promise.all(sent.map(({ appended }) => appended));
    this.#release(true);
    const durable = sent.filter((_, index) => isAppended(results[index] as PromiseSettledResult<number | undefined>));
    for (const batch of [...this.#unpublished.splice(0), ...durable.map(({ batch }) => batch)]) batch.settle();
    // Has no effect on callers that were answered.
    for (const { batch } of sent) rejectAll(batch.items, error);
    rejectAll(waiting, error);
  }

  /** Reads the state anew, and announces what listeners have not heard of. */
  async #restore(): Promise<void> {
    const { pool } = this.#database;
    const { workspaceId } = this;
    const state = await loadState(pool, workspaceId);
    this.#state = state;
    this.#isTorn = false;
    await announceStretch(pool, { workspaceId, from: this.#announcedSeq, before: state.seq }, this.#announce);
  }

  async #catchUp(reader: Reader): Promise<void> {
    try {
      await catchUp(reader, this.#state, this.#announce);
    } catch (error) {
      this.#suspect(error);
      throw error;
    }
  }

  /** Notes that the state may hold half a step, unless the error is a fault of the call or of the database. */
  #suspect(error: unknown): void {
    if (!(storeFault(error) instanceof ControlPlaneError)) this.#isTorn = true;
  }

  /** Starts whatever is next in the queue while nothing is in flight. */
  async #startNext(): Promise<void> {
    const { first: next } = this.#queue;
    if (next === undefined) return;
    // A turn of the event loop: requests that have arrived on other connections join the batch. A caller alone, whose last
    // batch was its own, is not made to wait.
    await (this.#lastBatchSize > 1 ? setImmediate() : undefined);
    if (isTask(next)) {
      this.#publish();
      this.#queue.shiftTask();
      await next.run();
    } else if (this.#queue.isRepeat(next)) await this.#answerRepeats(this.#queue.takeRepeats());
    else await this.#sendFirst(this.#takeBatch());
  }

  /** Waits until the oldest batch is over, or until enough has gathered to send another behind it. */
  async #awaitOldest(): Promise<void> {
    const oldest = this.#inFlight[0] as SentBatch;
    let isOver = false;
    const over = oldest.appended.then(() => {
      isOver = true;
    });
    const gathered = new Promise<void>((resolve) => {
      if (this.#inFlight.length < MAX_IN_FLIGHT) this.#onGathered = resolve;
    });
    await Promise.race([over, gathered]);
    this.#onGathered = undefined;
    if (isOver) await this.#settleOldest();
  }

  // Taking from the queue.

  #openActions(): number {
    return this.#inFlight.reduce((sum, { batch }) => sum + batch.items.length, this.#queue.length);
  }

  /** True if as many actions wait as the batch in flight has: the smaller the batches, the more each decision costs. */
  #hasGathered(): boolean {
    const [oldest] = this.#inFlight;
    return oldest === undefined || this.#queue.length >= oldest.batch.items.length;
  }

  /** Takes at most half of the open actions, so that the callers of one half send anew while the other is decided. */
  #takeBatch(): readonly PendingDecision[] {
    const share = Math.max(MIN_SHARE, Math.floor(this.#openActions() / MAX_IN_FLIGHT));
    const items = this.#queue.takeBatch(share);
    this.#lastBatchSize = items.length;
    this.#owesTurn = items.reduce((sum, { action }) => sum + textLengthOf(action), 0) > LARGE_BATCH_TEXT;
    return items;
  }

  // The pipelined way: batches behind each other on one connection.

  async #sendFirst(items: readonly PendingDecision[]): Promise<void> {
    let ready = items;
    try {
      if (!this.#isLoaded(items, this.#now())) {
        this.#publish();
        ready = await this.#prepare(this.#database.pool, items);
        await this.#completeWindows();
      }
      if (ready.length === 0) return;
      const { pool } = this.#database;
      if (pool.idleCount === 0) this.#publish();
      this.#connection = await pool.connect();
      const nowMs = this.#now();
      if (this.#isLoaded(ready, nowMs)) return this.#send(this.#connection, ready, nowMs);
      // The wait for a connection was long enough for a window to need more history.
      this.#release();
      this.#publish();
      await this.#appendLocked(ready);
    } catch (error) {
      this.#suspect(error);
      this.#release();
      rejectAll(ready, error);
    }
  }

  /** Sends a batch behind the one in flight; false when it has to wait for that to be over. */
  #sendBehind(): boolean {
    const [oldest] = this.#inFlight;
    const { first: next } = this.#queue;
    if (oldest === undefined || this.#connection === undefined || this.#inFlight.length >= MAX_IN_FLIGHT) return false;
    if (next === undefined || isTask(next) || !this.#hasGathered() || this.#queue.isRepeat(next)) return false;
    const { pool } = this.#database;
    const nowMs = this.#now();
    // While others of this process wait for a connection, this one is given back as soon as possible.
    if (pool.waitingCount > pool.idleCount || nowMs - oldest.batch.atMs >= MAX_AHEAD_MS) return false;
    if (!this.#isLoaded(this.#queue.upcoming(), nowMs)) return false;
    const items = this.#takeBatch();
    if (items.length > 0) this.#send(this.#connection, items, nowMs);
    return true;
  }

  /** Decides actions as of a time for which they are loaded, and sends them. What it throws, their callers get. */
  #send(connection: PoolClient, items: readonly PendingDecision[], nowMs: number): void {
    const batch = new Batch(this.#state, items, nowMs);
    orRejectAll(items, () => batch.decide());
    this.#queue.putBack(batch.left);
    if (batch.items.length === 0) {
      if (this.#inFlight.length === 0) this.#release();
      return;
    }
    this.#queue.remember(batch.items);
    const sentAtMs = performance.now();
    const appended = Promise.allSettled([batch.send(connection)]).then(([result]) => result);
    this.#inFlight.push({ batch, appended, sentAtMs });
  }

  async #settleOldest(): Promise<void> {
    const oldest = this.#inFlight.shift() as SentBatch;
    const result = await oldest.appended;
    if (!isAppended(result)) return this.#settleRefused(oldest, result);
    this.#clock.observe(result.value, oldest.sentAtMs, performance.now());
    this.#unpublished.push(oldest.batch);
    if (this.#inFlight.length === 0) this.#release();
  }

  /** Settles a batch that wrote nothing, as far as is known, together with the batch behind it. */
  async #settleRefused(first: SentBatch, firstResult: PromiseSettledResult<number | undefined>): Promise<void> {
    const behind = this.#inFlight.splice(0);
    const results = [firstResult, ...(await Promise.all(behind.map(({ appended }) => appended)))];
    const batches = [first, ...behind].map(({ batch }) => batch);
    this.#release(results.some(isFault));
    if (!results.some(isAppended)) return this.#rollBack(batches, results);
    // The frontier that the batch behind was appended to stands for the same entries as the first batch's: another replica
    // wrote them, for the same requests in the same millisecond. So the log holds both batches as they were decided.
    this.#unpublished.push(...batches);
  }

  /** Rolls back batches that were not appended, the last first, and repeats under the lock what may be repeated. */
  async #rollBack(
    batches: readonly Batch[],
    results: readonly PromiseSettledResult<number | undefined>[],
  ): Promise<void> {
    const all = batches.flatMap(({ items }) => items);
    orRejectAll(all, () => {
      for (const batch of batches.toReversed()) batch.undo();
    });
    this.#publish();
    for (const [index, { items }] of batches.entries()) {
      const result = results[index] as PromiseSettledResult<number | undefined>;
      if (isFault(result)) rejectAll(items, result.reason);
      else await this.#appendLocked(items);
    }
  }

  /** Releases the connection. After a fault its state is unknown, and it is closed. */
  #release(isSuspect = false): void {
    const connection = this.#connection;
    this.#connection = undefined;
    connection?.release(isSuspect);
  }

  // The locked way: one batch in a transaction that holds the end of the log.

  async #appendLocked(items: readonly PendingDecision[]): Promise<void> {
    try {
      let left = items;
      while (left.length > 0) left = await this.#lockedRound(left);
    } catch (error) {
      this.#suspect(error);
      rejectAll(items, error);
    }
  }

  /** Appends the first of every id under the lock and answers repeats. Returns what has to go again. */
  async #lockedRound(items: readonly PendingDecision[]): Promise<readonly PendingDecision[]> {
    const connection = await this.#database.pool.connect();
    let fault: Error | undefined;
    try {
      await connection.query("begin");
      await connection.query({ ...lockHead, values: [this.workspaceId] });
      await this.#catchUp(connection);
      const unanswered = await this.#answerFrom(connection, items);
      const firsts = [...Map.groupBy(unanswered, ({ action }) => action.decisionId).values()].map(
        ([first]) => first as PendingDecision,
      );
      await this.#commitLocked(connection, await this.#prepare(connection, firsts));
      return unanswered.filter((item) => !firsts.includes(item));
    } catch (error) {
      await connection.query("rollback").catch((cause: Error) => {
        fault = cause;
      });
      throw error;
    } finally {
      connection.release(fault);
    }
  }

  async #commitLocked(connection: PoolClient, items: readonly PendingDecision[]): Promise<void> {
    if (items.length === 0) return void (await connection.query("rollback"));
    // Without the mirror: other replicas wait for the lock meanwhile.
    const nowMs = await completeWindows(connection, this.#state, this.#clock);
    const batch = new Batch(this.#state, items, nowMs);
    batch.decide();
    this.#queue.putBack(batch.left);
    if (batch.items.length === 0) return void (await connection.query("rollback"));
    try {
      const sentAtMs = performance.now();
      const now = await batch.send(connection);
      if (now === undefined) throw new Error("the log moved under its lock");
      this.#clock.observe(now, sentAtMs, performance.now());
      await connection.query("commit");
    } catch (error) {
      batch.undo();
      throw error;
    }
    this.#queue.remember(batch.items);
    this.#unpublished.push(batch);
    this.#publish();
  }

  // Repeated requests (AIP-155).

  /** Answers requests that this replica decided before with their first decisions. */
  async #answerRepeats(items: readonly PendingDecision[]): Promise<void> {
    this.#publish();
    try {
      // The caller's key may have ended on another replica.
      await this.#catchUp(this.#database.pool);
      const unanswered = await this.#answerFrom(this.#database.pool, items);
      // A first attempt that failed left no decision: the request is new after all.
      await this.#appendLocked(unanswered);
    } catch (error) {
      rejectAll(items, error);
    }
  }

  /** Answers the items whose decisions the log holds. Returns the others, and the refusals to seal in place of repeats. */
  async #answerFrom(reader: Reader, items: readonly PendingDecision[]): Promise<readonly PendingDecision[]> {
    const ids = items.filter(({ action }) => action.isRetryable).map(({ action }) => action.decisionId);
    if (ids.length === 0) return items;
    const receipts = await readReceipts(reader, this.workspaceId, ids);
    const refusals: PendingDecision[] = [];
    const unanswered = items.filter((item) => {
      const receipt = receipts.get(item.action.decisionId);
      if (receipt === undefined) return true;
      const refusal = this.#answerRepeat(item, receipt);
      if (refusal !== undefined) refusals.push(refusal);
      return false;
    });
    return refusals.length === 0 ? unanswered : [...unanswered, ...(await this.#answerFrom(reader, refusals))];
  }

  /** Answers a repeat with its first decision, unless its caller is refused now: then returns the refusal to seal. */
  #answerRepeat(item: PendingDecision, receipt: DecisionReceipt): PendingDecision | undefined {
    const { action, steps } = item;
    const nowMs = this.#now();
    try {
      if (action.replayOf === undefined) {
        assertRepeatable(action, receipt, nowMs);
        const replay = replayOf(action);
        const refusal = steps.refuseReplay(this.#state, replay, nowMs);
        if (refusal !== undefined) {
          const decide: Decide = (state, atMs) => steps.refuseReplay(state, replay, atMs) ?? refusal;
          return { ...item, action: replay, steps: { ...steps, decide } };
        }
      }
      item.resolve(sealedDecisionFromReceipt(receipt));
    } catch (error) {
      item.reject(error);
    }
    return undefined;
  }

  // Everything that a decision needs in memory.

  #now(): number {
    return Math.max(this.#clock.now(), this.#state.lastAtMs);
  }

  /** True if the actions can be decided as of a time without reading anything. */
  #isLoaded(items: readonly PendingDecision[], nowMs: number): boolean {
    const { agents, authority, escalations, sequences, windows } = this.#state;
    if (!sequences.isComplete || !windows.isReady(nowMs)) return false;
    return items.every(
      ({ action }) =>
        agents.has(action.agentId) &&
        (action.escalationId === undefined || escalations.has(action.escalationId)) &&
        (action.grantId === undefined || authority.knowsGrant(action.grantId)),
    );
  }

  /** Loads what the actions name. Rejects actions of unknown agents; returns the others. */
  async #prepare(reader: Reader, items: readonly PendingDecision[]): Promise<readonly PendingDecision[]> {
    const { agents } = this.#state;
    const isKnown = ({ action }: PendingDecision): boolean => agents.has(action.agentId);
    // An agent may have been registered on another replica a moment ago.
    if (!items.every(isKnown)) await this.#catchUp(reader);
    const actions = items.map(({ action }) => action);
    await loadNamed(reader, this.#state, actions);
    for (const item of items) if (!isKnown(item)) item.reject(unknownAgent(item.action.agentId));
    return items.filter(isKnown);
  }

  async #completeWindows(): Promise<void> {
    await completeWindows(this.#database.pool, this.#state, this.#clock, this.#surroundings.mirror);
  }

  // Changes.

  async #commitChange<T>(
    by: string,
    apply: (scope: ChangeScope) => Promise<T>,
    action: Action | undefined,
  ): Promise<CommittedChange<T>> {
    const state = this.#state;
    const changes: ControlChange[] = [];
    let batch: Batch | undefined;
    if (this.#isBehind) await this.#catchUp(this.#database.pool);
    // Before the lock is taken: a long window may have much to read.
    if (action !== undefined) await this.#completeWindows();
    const commit = async (transaction: Transaction): Promise<CommittedChange<T>> => {
      const end = await lockLogEnd(transaction, this.workspaceId);
      this.#isBehind = end !== state.seq;
      const reader = readerWithin(transaction);
      if (this.#isBehind) await this.#catchUp(reader);
      const nowMs = action === undefined ? this.#now() : await this.#timeToDecide(reader, action);
      const result = await apply({
        ...{ transaction, state, nowMs },
        nextSeq: () => state.seq + changes.length,
        seal: (change) => void changes.push(change),
        append: async (steps) => {
          if (action === undefined || batch !== undefined || changes.length > 0) throw new Error("decides too late");
          const decided = decidedAlone(state, action, steps, nowMs);
          batch = decided;
          if ((await decided.send(reader)) === undefined) throw new Error("the log moved under its lock");
          return decided.outcomes[0] as Outcome;
        },
      });
      await transaction.flush();
      if (changes.length === 0) return { result, batch };
      const { workspaceId, seq, frontier } = state;
      const sealed = sealChanges({ workspaceId, seq, frontier, atMs: nowMs, by }, changes);
      await appendChanges(transaction, sealed);
      return { result, sealed, batch };
    };
    try {
      return await this.#database.orm.em.fork().transactional(commit);
    } catch (error) {
      batch?.undo();
      throw error;
    }
  }

  /** Loads what deciding an action needs. Returns the time for which it is complete, the time of a decision made now. */
  async #timeToDecide(reader: Reader, action: Action): Promise<number> {
    await loadNamed(reader, this.#state, [action]);
    // Without the mirror: other replicas wait for the lock meanwhile.
    return completeWindows(reader, this.#state, this.#clock);
  }

  /** Folds changes of this replica after their commit. */
  #foldOwn({ events, end, frontier }: SealedChanges): void {
    try {
      for (const { change, seq, atMs } of events) foldChange(this.#state, { change, seq, atMs });
    } catch (error) {
      this.#isTorn = true;
      throw error;
    }
    Object.assign(this.#state, { seq: end.seq, lastAtMs: end.lastAtMs, frontier });
    this.#announce(events);
    this.#notifyAppended(end.seq, "change");
  }

  // Publishing.

  /** Answers the callers of durable batches and tells listeners, in the order of the log. */
  #publish(): void {
    for (const batch of this.#unpublished.splice(0)) {
      batch.settle();
      this.#announce(batch.events());
      this.#notifyAppended(batch.endSeq, batch.isAwaited ? "decisions" : undefined);
      const { nextExpiryMs } = batch;
      if (nextExpiryMs !== undefined) apart(() => this.#surroundings.onEscalated?.(this.workspaceId, nextExpiryMs));
    }
  }

  readonly #announce = (events: readonly LedgerEvent[]): void => {
    const last = events.at(-1);
    if (last === undefined) return;
    this.#announcedSeq = last.seq + 1;
    for (const listener of this.#listeners) apart(() => listener(events));
  };

  #notifyAppended(seq: number, wakes: AppendedEnd["wakes"]): void {
    const { onAppended } = this.#surroundings;
    if (onAppended === undefined) return;
    const { workspaceId, windows } = this.#state;
    apart(() => onAppended({ workspaceId, seq, longestWindowMs: windows.longestMs, wakes }));
  }
}

/** A change that was committed. */
interface CommittedChange<T> {
  readonly result: T;
  /** Undefined if it sealed nothing. */
  readonly sealed?: SealedChanges;
  /** The decision that it appended before; undefined for none. */
  readonly batch: Batch | undefined;
}

/** Runs a listener. Its fault goes to the process's last handler: the log and the other listeners go on. */
function apart(listen: () => void): void {
  try {
    listen();
  } catch (error) {
    queueMicrotask(() => {
      throw error;
    });
  }
}

function isAppended(result: PromiseSettledResult<number | undefined>): result is PromiseFulfilledResult<number> {
  return result.status === "fulfilled" && result.value !== undefined;
}

/** True for an append that failed for another reason than a decision that exists already. */
function isFault(result: PromiseSettledResult<number | undefined>): result is PromiseRejectedResult {
  return result.status === "rejected" && !isUniqueViolation(result.reason);
}
