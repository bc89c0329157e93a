import type { PoolClient } from "pg";
import type { SharedPot } from "../async/shared-pot.ts";
import { nextTurn } from "../async/turns.ts";
import { ControlPlaneError } from "../errors.ts";
import { MAX_FORMS_LENGTH, searchedLength } from "../policy/checks.ts";
import type { ToolSchema } from "../policy/types.ts";
import type { AgentStatus } from "../state/agents.ts";
import type { PromptSource } from "../state/control-changes.ts";
import { bytesOfSession } from "../state/load-sessions.ts";
import { forgetSaved, saveTrustSnapshot, snapshotOf } from "../state/trust-snapshot.ts";
import type { Action, SealedDecision } from "../state/types.ts";
import { forgetExpired, type WorkspaceState } from "../state/workspace.ts";
import { type Database, isUniqueViolation, storeFault } from "../store/database.ts";
import { lockHead } from "../store/sql/read-entries.ts";
import { readSnapshot } from "../store/transaction.ts";
import { Batch, type Undecided } from "./batch.ts";
import { ChangeCommitter, type ChangeScope, type SealedChanges } from "./changes.ts";
import type { DatabaseClock } from "./clock.ts";
import type { AppendedEnd, LedgerListener, WakeUp } from "./events.ts";
import type { FollowedDecision, FollowUpStep } from "./follow-up.ts";
import { InFlight, type SentBatch } from "./in-flight.ts";
import { LoadedState, runApart } from "./loaded-state.ts";
import type { Observation, SealedObservation } from "./observation.ts";
import {
  ACTION_OVERHEAD,
  createWaitingPot,
  isDecision,
  isTask,
  type PendingFollowUp,
  type PendingItem,
  Queue,
  rejectAll,
  runOrRejectAll,
  type Steps,
  textLengthOf,
  textLengthOfItem,
  type Waiting,
} from "./queue.ts";
import { readFollowed } from "./read-follow-ups.ts";
import { readDecisionRows } from "./read-receipts.ts";
import { answerRepeats } from "./replays.ts";
import type { LogSurroundings } from "./surroundings.ts";

/** Caller of an entry about a decision. */
interface FollowUpOptions {
  /** True once the caller has left. Default: it stays. */
  readonly isAbandoned?: () => boolean;
  /** Characters of text that the entry brings. Default 0. */
  readonly textLength?: number;
}

/**
 * Characters of text in a batch after which the event loop gets a turn before the next batch: such a batch takes milliseconds.
 */
const LARGE_BATCH_TEXT = 65_536;
/** Maximum claims and reports whose decisions one statement reads. */
const MAX_SHARED_READ = 64;
/** Time between sweeps of expired authority, milliseconds: a sweep visits all authority that has not ended. */
const SWEEP_MS = 60_000;

/**
 * The log of one workspace on this replica, and the only way to decide, to change and to read it.
 *
 * One loop writes. It takes the actions that wait (group commit), decides them as a batch on the state in memory, folds them
 * in, and sends them by compare-and-append. A second batch is decided on top of the first and sent behind it once enough has
 * gathered. Then it awaits the older one: a durable batch is published; one that another replica overtook is rolled back with the
 * batch behind it, and both are decided again under the lock of the log's end, which guarantees progress. Tasks (changes, reads)
 * take turns with batches. Callers are answered late, after the next batch is on its way or before anything that waits, so
 * that the database never idles.
 *
 * INVARIANT: a decision is appended at exactly the index that it was decided for, so every decision is valid against the
 * state that the log had before it.
 */
export class WorkspaceLog {
  readonly workspaceId: string;
  readonly #database: Database;
  readonly #clock: DatabaseClock;
  readonly #surroundings: LogSurroundings;
  readonly #loaded: LoadedState;
  readonly #changes: ChangeCommitter;

  readonly #queue = new Queue();
  readonly #waiting: SharedPot;
  readonly #inFlight: InFlight;
  /** Durable batches whose callers are answered after the next batch is on its way. */
  readonly #unpublished: Batch[] = [];
  #running: Promise<void> | undefined;
  #lastBatchSize = 0;
  /** True after a batch with much text, until the event loop has had its turn. */
  #owesTurn = false;

  /** Claims and reports whose decisions the next read finds; undefined if no read waits. */
  #nextRead: PendingFollowUp[] | undefined;
  /** The end of all reads so far. */
  #reads: Promise<void> = Promise.resolve();

  #usedAt = performance.now();
  #sweptAt = this.#usedAt;
  #reading: Promise<WorkspaceState> | undefined;
  /** Largest log size of the wake-ups that no task has caught up to yet; 0 when there are none. */
  #notifiedSeq = 0;

  /** Opens the log over its loaded state. */
  constructor(database: Database, state: WorkspaceState, clock: DatabaseClock, surroundings: LogSurroundings = {}) {
    this.workspaceId = state.workspaceId;
    this.#database = database;
    this.#clock = clock;
    this.#surroundings = surroundings;
    this.#loaded = new LoadedState(state, { database, clock, surroundings });
    this.#changes = new ChangeCommitter(database, this.#loaded);
    this.#inFlight = new InFlight(database.pool, surroundings.tracing);
    this.#waiting = surroundings.waitingPot ?? createWaitingPot();
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
    return this.#loaded.listeners;
  }

  /** Time of an entry sealed now, epoch milliseconds. */
  get nowMs(): number {
    return this.#loaded.now();
  }

  /** Returns the status of an agent as this replica knows it; undefined if it knows no such agent. */
  agentStatus(agentId: string): AgentStatus | undefined {
    return this.#loaded.current.agents.get(agentId)?.status;
  }

  /** Returns the agent of a session that has not ended, as this replica knows it. */
  agentOfSession(sessionId: string): string | undefined {
    const sealed = this.#loaded.current.authority.get(sessionId)?.sealed;
    return sealed?.kind === "session" ? (sealed.agent_id ?? undefined) : undefined;
  }

  /** Returns what the registration of a tool says of its results and arguments, as this replica knows it. */
  provenanceOf(tool: string): ToolSchema["provenance"] {
    return this.#loaded.current.policies.tool(tool)?.schema.provenance;
  }

  /** Parties that may tell a session what its agent was asked, as this replica knows it. */
  get promptFrom(): PromptSource {
    return this.#loaded.current.settings.prompt_from ?? "agent";
  }

  /** Returns the preparations that an action needs under the mandates that this replica knows. */
  needsOf(action: Action): { readonly mayTakeLong: boolean; readonly asksGuard: boolean } {
    const policies = this.#loaded.current.policies.policySet();
    const { actionContent, metadataText } = action;
    // Short texts are not read for it.
    const mayTakeLong =
      policies.mayTakeLong(MAX_FORMS_LENGTH * textLengthOf(action)) &&
      policies.mayTakeLong(searchedLength(actionContent) + searchedLength(metadataText));
    return { mayTakeLong, asksGuard: policies.asksGuard };
  }

  /**
   * Decides an action and appends it. Resolves only after the decision is durable. Rejects with AGENT_NOT_FOUND,
   * REQUEST_ID_REUSED, REQUEST_ID_EXPIRED, OVERLOADED, CANCELLED or STORE_UNAVAILABLE. After STORE_UNAVAILABLE the
   * action may have been decided, after any other rejection it was not.
   */
  append(action: Action, steps: Steps, isAbandoned: () => boolean): Promise<SealedDecision> {
    this.#usedAt = performance.now();
    return new Promise((resolve, reject) => {
      const { workspaceId } = this;
      const place = this.#waiting.take(
        { workspaceId, agentId: action.agentId },
        textLengthOf(action) + ACTION_OVERHEAD,
      );
      const settled =
        <T>(settle: (result: T) => void) =>
        (result: T): void => {
          place.release();
          settle(result);
        };
      this.#enqueue({ action, steps, isAbandoned, resolve: settled(resolve), reject: settled(reject) });
    });
  }

  /**
   * Seals an entry about a decision, or finds that the log answers the step already. Resolves with the decision and all entries about
   * it, only once they are durable. Rejects with what the step throws, DECISION_NOT_FOUND, ENTRY_DAMAGED, OVERLOADED, CANCELLED or
   * STORE_UNAVAILABLE. After STORE_UNAVAILABLE the entry may have been sealed, after any other rejection it was not.
   */
  async followUp(
    decisionId: string,
    step: FollowUpStep,
    { isAbandoned = () => false, textLength = 0 }: FollowUpOptions = {},
  ): Promise<FollowedDecision> {
    this.#usedAt = performance.now();
    const place = this.#waiting.take({ workspaceId: this.workspaceId }, textLength + ACTION_OVERHEAD);
    const { promise, resolve, reject } = Promise.withResolvers<FollowedDecision>();
    const item: PendingFollowUp = {
      decisionId,
      followUp: step,
      textLength,
      read: undefined,
      isAbandoned,
      resolve,
      reject,
    };
    try {
      // Read before its turn, so that the batches in flight do not wait for it.
      this.#readDecisionOf(item);
      return await promise;
    } finally {
      this.#loaded.forgetDecision(item);
      place.release();
    }
  }

  /**
   * Seals what a session observed, or finds that the log holds it already. Resolves only once it is durable. Rejects with SESSION_ENDED,
   * OBSERVATION_EXISTS, OVERLOADED, CANCELLED or STORE_UNAVAILABLE. After STORE_UNAVAILABLE it may have been sealed, after any other
   * rejection it was not.
   */
  observe(observation: Observation, isAbandoned: () => boolean): Promise<SealedObservation> {
    this.#usedAt = performance.now();
    const textLength = Object.values(observation.digests).reduce((sum, digests) => sum + digests.length, 0);
    const holder = { workspaceId: this.workspaceId, agentId: observation.agentId };
    const place = this.#waiting.take(holder, textLength + ACTION_OVERHEAD);
    const { promise, resolve, reject } = Promise.withResolvers<SealedObservation>();
    this.#enqueue({ observation, textLength, isAbandoned, resolve, reject });
    return promise.finally(() => place.release());
  }

  /** Reads the decision of an item and enqueues it, or rejects it. Items that come while a read is under way share the next one. */
  #readDecisionOf(item: PendingFollowUp): void {
    if (this.#nextRead !== undefined && this.#nextRead.length < MAX_SHARED_READ) return void this.#nextRead.push(item);
    const items = [item];
    this.#nextRead = items;
    this.#reads = this.#reads.then(() => this.#readDecisions(items));
  }

  async #readDecisions(items: readonly PendingFollowUp[]): Promise<void> {
    if (this.#nextRead === items) this.#nextRead = undefined;
    try {
      for (const item of await this.#loaded.loadDecisions(this.#database.pool, items)) this.#enqueue(item);
    } catch (error) {
      rejectAll(items, error);
    }
  }

  /** Reads a decision with all entries about it. Rejects with DECISION_NOT_FOUND, ENTRY_DAMAGED or STORE_UNAVAILABLE. */
  async followed(decisionId: string): Promise<FollowedDecision> {
    const read = (await readFollowed(this.#database.pool, this.workspaceId, [decisionId]))(decisionId);
    if (read instanceof ControlPlaneError) throw read;
    return read;
  }

  /** Tests whether the log holds a decision. Rejects with STORE_UNAVAILABLE. */
  async holds(decisionId: string): Promise<boolean> {
    return (await readDecisionRows(this.#database.pool, this.workspaceId, [decisionId])).size > 0;
  }

  /**
   * Calls `run` with the state at the end of the log and the present time, after loading everything that deciding the actions
   * needs. Appends nothing, and reads in a READ ONLY transaction. `run` MUST leave the state as it was. Rejects with
   * AGENT_NOT_FOUND, OVERLOADED or STORE_UNAVAILABLE.
   */
  async dryRun<T>(actions: readonly Action[], run: (state: WorkspaceState, nowMs: number) => T): Promise<T> {
    const place = this.#waiting.take({ workspaceId: this.workspaceId }, ACTION_OVERHEAD);
    try {
      return await this.#runAlone(() =>
        readSnapshot(this.#database.pool, async (client) => {
          await this.#loaded.catchUp(client);
          await this.#loaded.loadNamed(client, actions);
          const nowMs = await this.#loaded.completeWindows(client);
          return run(this.#loaded.current, nowMs);
        }),
      );
    } finally {
      place.release();
    }
  }

  /**
   * Changes the workspace in one transaction: everything that `apply` writes and seals is durable and in the state when this
   * resolves, or nothing is. `action`: the action that `apply` decides, if any; its agent MUST be in the workspace.
   */
  change<T>(by: string, apply: (scope: ChangeScope) => Promise<T>, action?: Action): Promise<T> {
    return this.#runAlone(async () => {
      const { result, sealed, batch } = await this.#changes.commit(by, apply, action);
      if (batch !== undefined) {
        this.#unpublished.push(batch);
        this.#publish();
      }
      if (sealed !== undefined) this.#publishChanges(sealed);
      return result;
    });
  }

  /**
   * Returns the state at the end of the log, which holds everything that was written before the call. MUST be read before the
   * next await.
   */
  caughtUp(): Promise<WorkspaceState> {
    // Readers that come before the read has begun share it.
    this.#reading ??= this.#readAlone();
    return this.#reading;
  }

  #readAlone(): Promise<WorkspaceState> {
    const reading = this.#runAlone(async () => {
      this.#reading = undefined;
      await this.#loaded.catchUp(this.#database.pool);
      return this.#loaded.current;
    });
    reading.catch(() => {
      if (this.#reading === reading) this.#reading = undefined;
    });
    return reading;
  }

  /** Handles a wake-up from another replica. Catches up, unless the entries matter only to listeners and there are none. */
  wakeUp({ seq, isChange }: Pick<WakeUp, "seq" | "isChange">): void {
    if ((!isChange && this.listeners === 0) || seq <= this.#loaded.current.seq) return;
    const isWoken = this.#notifiedSeq > 0;
    this.#notifiedSeq = Math.max(this.#notifiedSeq, seq);
    if (isWoken) return;
    this.#runTask(async () => {
      const notified = this.#notifiedSeq;
      this.#notifiedSeq = 0;
      // This replica also hears of its own changes; they are in the state by now.
      if (notified > this.#loaded.current.seq) await this.#loaded.catchUp(this.#database.pool);
    }).catch(() => {
      this.#notifiedSeq = 0;
    });
  }

  /** Calls the listener with every entry from now on. Returns the function that ends it. */
  subscribe(listener: LedgerListener): () => void {
    return this.#loaded.subscribe(listener);
  }

  /** Writes the trust snapshot if trust changed since the last one. */
  async saveTrust(): Promise<void> {
    if (this.#loaded.current.trustChangedAt.size === 0) return;
    const snapshot = await this.#runTask(async () => snapshotOf(this.#loaded.current));
    forgetSaved(this.#loaded.current, await saveTrustSnapshot(this.#database.pool, snapshot));
    // After the snapshot, which keeps the last uses of authority that expired.
    if (performance.now() - this.#sweptAt < SWEEP_MS) return;
    this.#sweptAt = performance.now();
    await this.#runTask(async () => forgetExpired(this.#loaded.current, snapshot.lastAtMs));
  }

  /** Resolves when all queued work is done. */
  async idle(): Promise<void> {
    await this.#running;
  }

  // The loop.

  #enqueue(entry: Waiting): void {
    this.#queue.push(entry);
    this.#running ??= this.#run();
    this.#inFlight.noteWaiting(this.#queue);
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
    while (this.#queue.length > 0 || !this.#inFlight.isEmpty || this.#unpublished.length > 0) {
      try {
        await this.#loaded.mend();
        await this.#turn();
      } catch (error) {
        await this.#giveUp(error);
      }
    }
    this.#running = undefined;
  }

  async #turn(): Promise<void> {
    if (this.#owesTurn) await nextTurn();
    this.#owesTurn = false;
    if (this.#inFlight.isEmpty) {
      await this.#startNext();
      this.#publish();
      return;
    }
    const goesOn = this.#sendBehind();
    this.#publish();
    if (goesOn) return;
    if ((await this.#inFlight.untilOverOrGathered()) === "over") await this.#settleOldest();
  }

  /**
   * Recovers from a fault of the loop itself: answers the batches that became durable, and rejects everyone else who waits. The
   * state may hold half a step, so it is read again before the next one.
   */
  async #giveUp(error: unknown): Promise<void> {
    this.#loaded.tear();
    const sent = this.#inFlight.takeAll();
    const waiting = this.#queue.takeAll();
    const results = await Promise.all(sent.map(({ appended }) => appended));
    this.#inFlight.release(true);
    const durable = sent.filter((_, index) => isAppended(results[index] as PromiseSettledResult<number | undefined>));
    for (const batch of [...this.#unpublished.splice(0), ...durable.map(({ batch }) => batch)]) this.#settle(batch);
    // Has no effect on callers that were already answered.
    for (const { batch } of sent) rejectAll(batch.items, error);
    rejectAll(waiting, error);
  }

  /** Starts whatever is next in the queue while nothing is in flight. */
  async #startNext(): Promise<void> {
    const { first: next } = this.#queue;
    if (next === undefined) return;
    // In this turn of the event loop, requests that have arrived on other connections join the batch. A lone caller, whose last
    // batch held only its own action, does not wait.
    if (this.#lastBatchSize > 1) await nextTurn();
    if (isTask(next)) {
      this.#publish();
      this.#queue.shiftTask();
      await next.run();
    } else if (this.#queue.isRepeat(next)) await this.#settleRepeats(this.#queue.takeRepeats());
    else await this.#sendFirst(this.#takeBatch());
  }

  #takeBatch(): readonly PendingItem[] {
    const items = this.#queue.takeBatch(this.#inFlight.share(this.#queue), (sessionId) =>
      bytesOfSession(this.#loaded.current, sessionId),
    );
    this.#lastBatchSize = items.length;
    this.#owesTurn = items.reduce((sum, item) => sum + textLengthOfItem(item), 0) > LARGE_BATCH_TEXT;
    return items;
  }

  // The pipelined way: batches behind each other on one connection.

  async #sendFirst(items: readonly PendingItem[]): Promise<void> {
    let ready = items;
    try {
      if (!this.#loaded.holdsAllFor(items, this.nowMs)) {
        this.#publish();
        ready = await this.#loaded.loadFor(this.#database.pool, items);
        await this.#loaded.completeWindows();
      }
      if (ready.length === 0) return;
      if (this.#database.pool.idleCount === 0) this.#publish();
      await this.#inFlight.connect();
      const { nowMs } = this;
      if (this.#loaded.holdsAllFor(ready, nowMs)) return this.#send(ready, nowMs);
      // The wait for a connection was long enough for a window to need more history.
      this.#inFlight.release();
      this.#publish();
      await this.#appendLocked(ready);
    } catch (error) {
      this.#loaded.suspect(error);
      this.#inFlight.release();
      rejectAll(ready, error);
    }
  }

  /** Takes a batch and sends it behind the one in flight. Returns false if that has to wait until more has gathered or the one is over. */
  #sendBehind(): boolean {
    const { nowMs } = this;
    // First, since the test below lets actions leave their windows as of now.
    if (!this.#inFlight.mayFollow(this.#queue, nowMs)) return false;
    if (!this.#loaded.holdsAllFor(this.#queue.upcoming(), nowMs)) return false;
    const items = this.#takeBatch();
    if (items.length > 0) this.#send(items, nowMs);
    return true;
  }

  /**
   * Decides actions as of a time for which their state is loaded, and sends them. If deciding throws, their callers get the
   * error too.
   */
  #send(items: readonly PendingItem[], nowMs: number): void {
    const batch = new Batch(this.#loaded.current, items, nowMs);
    runOrRejectAll(items, () => batch.decide());
    this.#queue.putBack(batch.left);
    this.#settleUndecided(batch.undecided);
    if (batch.isEmpty) {
      batch.undo();
      this.#settleAnswered(batch.items);
      this.#inFlight.releaseIfIdle();
      return;
    }
    this.#queue.remember(batch.items);
    this.#inFlight.send(batch);
  }

  async #settleOldest(): Promise<void> {
    const oldest = this.#inFlight.shift();
    const result = await oldest.appended;
    if (!isAppended(result)) return this.#settleRefused(oldest, result);
    this.#clock.observe(result.value, oldest.sentAtMs, performance.now());
    this.#unpublished.push(oldest.batch);
    this.#inFlight.releaseIfIdle();
  }

  /** Settles a batch that wrote nothing, or may have written nothing, together with the batch behind it. */
  async #settleRefused(first: SentBatch, firstResult: PromiseSettledResult<number | undefined>): Promise<void> {
    const behind = this.#inFlight.takeAll();
    const results = [firstResult, ...(await Promise.all(behind.map(({ appended }) => appended)))];
    const batches = [first, ...behind].map(({ batch }) => batch);
    this.#inFlight.release(results.some(isFault));
    if (!results.some(isAppended)) return this.#rollBack(batches, results);
    // The batch behind was appended, so the log had grown by exactly the first batch's entries: its append was committed although
    // its answer was lost, or another replica wrote the same. The log holds both batches as they were decided.
    this.#unpublished.push(...batches);
  }

  /**
   * Rolls back batches that were not appended, the last first. Those that another writer overtook are decided again under the
   * lock, which may leave a part of the first for after the second: the order between callers that wait is free.
   */
  async #rollBack(
    batches: readonly Batch[],
    results: readonly PromiseSettledResult<number | undefined>[],
  ): Promise<void> {
    const all = batches.flatMap(({ items }) => items);
    runOrRejectAll(all, () => {
      for (const batch of batches.toReversed()) batch.undo();
    });
    this.#publish();
    for (const [index, { items }] of batches.entries()) {
      const result = results[index] as PromiseSettledResult<number | undefined>;
      if (isFault(result)) {
        rejectAll(items, result.reason);
        continue;
      }
      // The batch behind another one always falls with it.
      if (index === 0 && result.status === "fulfilled") this.#surroundings.metrics?.overtaken();
      await this.#appendLocked(items);
    }
  }

  // The locked way: one batch in a transaction that holds the end of the log.

  async #appendLocked(items: readonly PendingItem[]): Promise<void> {
    try {
      let open = items;
      while (open.length > 0) open = await this.#lockedRound(open);
    } catch (error) {
      this.#loaded.suspect(error);
      rejectAll(items, error);
    }
  }

  /**
   * Appends the first action of each id under the lock, as many as one batch takes, and answers repeats. Returns the actions
   * whose ids were appended in this round.
   */
  async #lockedRound(items: readonly PendingItem[]): Promise<readonly PendingItem[]> {
    const connection = await this.#database.pool.connect();
    let fault: Error | undefined;
    try {
      await connection.query("begin");
      const { rowCount } = await connection.query({ ...lockHead, values: [this.workspaceId] });
      if (rowCount === 0) throw this.#loaded.loseHead();
      await this.#loaded.catchUp(connection);
      const unanswered = await answerRepeats(connection, items, this.#loaded.current, () => this.nowMs);
      const idOf = (item: PendingItem) => (isDecision(item) ? item.action.decisionId : item);
      const firsts = [...Map.groupBy(unanswered, idOf).values()].map(([first]) => first as PendingItem);
      await this.#commitLocked(connection, await this.#loaded.loadFor(connection, firsts));
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

  async #commitLocked(connection: PoolClient, items: readonly PendingItem[]): Promise<void> {
    if (items.length === 0) return void (await connection.query("rollback"));
    const nowMs = await this.#loaded.completeWindowsLocked(connection);
    const batch = new Batch(this.#loaded.current, items, nowMs);
    batch.decide();
    // Their repeats were answered before.
    for (const { item, error } of batch.undecided) item.reject(error);
    if (batch.isEmpty) {
      batch.undo();
      await connection.query("rollback");
      this.#queue.putBack(batch.left);
      batch.settle();
      return;
    }
    try {
      const sentAtMs = performance.now();
      const now = await batch.send(connection, this.#surroundings.tracing);
      if (now === undefined) throw new Error("the log moved under its lock");
      this.#clock.observe(now, sentAtMs, performance.now());
      await connection.query("commit");
    } catch (error) {
      batch.undo();
      throw error;
    }
    // Only now: a fault before rejects the callers of all actions.
    this.#queue.putBack(batch.left);
    this.#queue.remember(batch.items);
    this.#unpublished.push(batch);
    this.#publish();
  }

  /** Answers requests that this replica decided before with their first decisions. */
  async #settleRepeats(items: readonly PendingItem[]): Promise<void> {
    this.#publish();
    try {
      // The caller's key may have ended on another replica.
      await this.#loaded.catchUp(this.#database.pool);
      const unanswered = await answerRepeats(this.#database.pool, items, this.#loaded.current, () => this.nowMs);
      // A first attempt that failed left no decision: the request is new after all.
      await this.#appendLocked(unanswered);
    } catch (error) {
      rejectAll(items, error);
    }
  }

  /**
   * Answers claims and reports that need no entry: under the lock, because what answers them may still be in flight, and authority
   * may have ended on another replica.
   */
  #settleAnswered(items: readonly PendingItem[]): void {
    if (items.length === 0) return;
    this.#enqueue({ run: () => this.#appendLocked(items), reject: (error) => rejectAll(items, error) });
  }

  /**
   * Settles actions that cannot be decided. A repeat still gets its first decision, made before the change that now rules the
   * request out; everyone else gets the error.
   */
  #settleUndecided(undecided: readonly Undecided[]): void {
    const errors = new Map<PendingItem, unknown>();
    for (const { item, error } of undecided) {
      if (item.action.isRetryable) errors.set(item, error);
      else item.reject(error);
    }
    if (errors.size === 0) return;
    const items = [...errors.keys()];
    const answer = async (): Promise<void> => {
      await this.#loaded.catchUp(this.#database.pool);
      const open = await answerRepeats(this.#database.pool, items, this.#loaded.current, () => this.nowMs);
      for (const item of open) if (errors.has(item)) item.reject(errors.get(item));
      // The rest are refusals of repeats.
      await this.#appendLocked(open.filter((item) => !errors.has(item)));
    };
    const reject = (error: unknown): void => rejectAll(items, error);
    this.#enqueue({ run: () => answer().catch(reject), reject });
  }

  // Publishing.

  /** Answers the callers of durable batches and tells listeners, in the order of the log. */
  #publish(): void {
    for (const batch of this.#unpublished.splice(0)) {
      this.#settle(batch);
      this.#loaded.announce(batch.events());
      this.#notifyAppended(batch.endSeq, batch.isAwaited ? "decisions" : undefined);
      const { nextExpiryMs, nextReminderMs, nextOutcomeDueMs } = batch;
      if (nextReminderMs !== undefined)
        runApart(() => this.#surroundings.onReminder?.(this.workspaceId, nextReminderMs));
      if (nextOutcomeDueMs !== undefined)
        runApart(() => this.#surroundings.onTracked?.(this.workspaceId, nextOutcomeDueMs));
      if (nextExpiryMs !== undefined) runApart(() => this.#surroundings.onEscalated?.(this.workspaceId, nextExpiryMs));
    }
  }

  /** Counts a durable batch and answers its callers. */
  #settle(batch: Batch): void {
    this.#surroundings.metrics?.appended(batch.outcomes);
    batch.settle();
  }

  /** Folds changes of this replica after their commit, and tells listeners. */
  #publishChanges(sealed: SealedChanges): void {
    this.#loaded.fold(sealed);
    this.#loaded.announce(sealed.events);
    this.#notifyAppended(sealed.end.seq, "change");
    const resolved = sealed.events.flatMap(({ change }) =>
      change.type === "escalation_resolved" ? [change.escalation_id] : [],
    );
    if (resolved.length > 0) runApart(() => this.#surroundings.onResolved?.(this.workspaceId, resolved));
  }

  #notifyAppended(seq: number, wakes: AppendedEnd["wakes"]): void {
    const { onAppended } = this.#surroundings;
    if (onAppended === undefined) return;
    const { workspaceId, windows } = this.#loaded.current;
    runApart(() => onAppended({ workspaceId, seq, longestWindowMs: windows.longestMs, wakes }));
  }
}

function isAppended(result: PromiseSettledResult<number | undefined>): result is PromiseFulfilledResult<number> {
  return result.status === "fulfilled" && result.value !== undefined;
}

/** True for an append that failed for a reason other than a decision that exists already. */
function isFault(result: PromiseSettledResult<number | undefined>): result is PromiseRejectedResult {
  return result.status === "rejected" && !isUniqueViolation(result.reason);
}
