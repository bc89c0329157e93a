import { ControlPlaneError, ErrorReason } from "../errors.ts";
import type { ControlChange } from "../state/control-changes.ts";
import type { HistoryMirror } from "../state/counters/load-history.ts";
import { forgetSaved, saveTrustSnapshot, snapshotOf } from "../state/trust-snapshot.ts";
import type { Action, Outcome } from "../state/types.ts";
import { foldChange, type WorkspaceState } from "../state/workspace.ts";
import type { Database } from "../store/database.ts";
import { storeFault } from "../store/store-fault.ts";
import { appendChanges, lockLogEnd, readerWithin, type Transaction } from "../store/transaction.ts";
import { createAppender } from "./appender.ts";
import type { Decide, DecidedBatch } from "./batch.ts";
import { createBusyPoll } from "./busy-poll.ts";
import { catchUp } from "./catch-up.ts";
import { type SealedChanges, sealChanges } from "./changes.ts";
import type { DatabaseClock } from "./clock.ts";
import { rehearse } from "./dry-run.ts";
import type { LedgerListener, WakeUp } from "./events.ts";
import { type AppendedBatch, appendedBatchFrom, followBatch } from "./follow.ts";
import { createHandOver, type DecisionPeers, type TakeDecision } from "./peers.ts";
import type { SealContext } from "./seal-batch.ts";
import { createTaskQueue, DEPTH, DEPTH_FOR_PEERS } from "./task-queue.ts";

/** What a change of a workspace works with, while the end of the log is locked. */
export interface ChangeScope {
  /** Commits together with the log. */
  readonly transaction: Transaction;
  /** The state at the end of the log. Read only: it changes by what is sealed, after the commit. */
  readonly state: WorkspaceState;
  /** Time of the entries that this change seals, epoch milliseconds. */
  readonly nowMs: number;
  /** Index that the next sealed entry will have. */
  nextSeq(): number;
  /** Adds an entry; it takes effect on every replica when the transaction commits. */
  seal(change: ControlChange): void;
}

/** The log of one workspace on this replica: the only way to decide, to change and to read. */
export interface WorkspaceLog {
  readonly workspaceId: string;
  /**
   * Decides an action. Resolves only after the decision is durable. Rejects with AGENT_NOT_FOUND, REQUEST_ID_REUSED,
   * OVERLOADED, CANCELLED or STORE_UNAVAILABLE; nothing was decided then, except that after STORE_UNAVAILABLE it may have been.
   */
  decide: TakeDecision;
  /** As `decide`, for a peer: in this process, whatever others there are. */
  decideHere: TakeDecision;
  /** Whether a mandate in force, as far as this replica is caught up, has a semantic rule. */
  readonly asksGuard: boolean;
  /**
   * What the action would come to if it were decided now, as far as this replica is caught up. Decides nothing. Rejects with
   * AGENT_NOT_FOUND, OVERLOADED or STORE_UNAVAILABLE.
   */
  rehearse(action: Action): Promise<Outcome>;
  /** Changes the workspace: what `apply` writes and seals is durable and in the state when this resolves, or nothing is. */
  change<T>(by: string, apply: (scope: ChangeScope) => Promise<T>): Promise<T>;
  /** The state at the end of the log: it shows everyone's writes before the call. Read it before the next await. */
  caughtUp(): Promise<WorkspaceState>;
  /** Another replica appended. Reads on unless only listeners would want to know and there are none. */
  wakeUp(wakeUp: Pick<WakeUp, "seq" | "isChange">): void;
  /** A peer appended a batch: folds it, and what comes before it. What cannot be read now is read by whoever needs it. */
  follow(batch: AppendedBatch): void;
  /** Calls with every entry from now on. Gives the function that ends it. */
  subscribe(listener: LedgerListener): () => void;
  /** Writes the trust snapshot if trust changed since the last. */
  saveTrust(): Promise<void>;
  /** Actions that wait to be decided. */
  readonly waiting: number;
  /** `performance.now()` of the last use, for eviction. */
  readonly usedAt: number;
  readonly listeners: number;
  /** Whether a peer decides what comes here, so that nothing but a look now and then keeps this replica near the end. */
  readonly handsOver: boolean;
  /** Resolves when everything that was asked for is done. */
  idle(): Promise<void>;
}

/** Actions of one workspace that may wait; past it OVERLOADED tells callers to back off. */
const MAX_WAITING = 50_000;
/** Milliseconds between looks for authority that expired, which costs time in proportion to all that has not ended. */
const FORGET_MS = 60_000;

function overloaded(waiting: number): ControlPlaneError {
  const message = `${waiting} actions of the workspace are waiting to be decided; retry with back-off`;
  return new ControlPlaneError(ErrorReason.OVERLOADED, message, { waiting: String(waiting) });
}

/** The end of a log that this replica appended to. */
export interface AppendedEnd {
  readonly workspaceId: string;
  /** The size of the log. */
  readonly seq: number;
  /** Length in milliseconds of the longest window in force; 0 when there is none. */
  readonly longestWindowMs: number;
  /** What the entries were, as far as other replicas have to be woken; undefined when nobody waits for them. */
  readonly wakes: "change" | "decisions" | undefined;
}

/** What a log tells and asks beside the database. All of it may be lost: it costs time, never correctness. */
export interface LogSurroundings {
  /** Where windows may be loaded from. */
  readonly mirror?: HistoryMirror;
  /** Default: a new one that follows the database's. */
  readonly clock?: DatabaseClock;
  /** Who may decide in place of this process. */
  readonly peers?: DecisionPeers | undefined;
  /** Milliseconds that the process stays awake for a decision that a caller alone waits for; absent or 0: none. */
  readonly busyPollMs?: number;
  /** Hears of everything that this replica appended, after it is durable. MUST NOT throw. */
  readonly onAppended?: (end: AppendedEnd) => void;
}

/** Creates the log of a workspace over its loaded state. */
export function createWorkspaceLog(
  database: Database,
  state: WorkspaceState,
  clock: DatabaseClock,
  decide: Decide,
  { mirror, peers, busyPollMs = 0, onAppended = () => undefined }: LogSurroundings = {},
): WorkspaceLog {
  const { pool, orm } = database;
  const listeners = new Set<LedgerListener>();
  let usedAt = performance.now();
  let forgotAt = usedAt;
  let reading: Promise<WorkspaceState> | undefined;
  /** The furthest size that wake-ups named whose turn has not come; 0 for none. */
  let wokenFor = 0;
  // Whether the last change found that others had appended: then it is worth a look before the next one takes the lock.
  let isOvertaken = true;

  const announce: LedgerListener = (events) => {
    if (events.length > 0) for (const listener of listeners) listener(events);
  };
  let untold = 0;
  // With others waiting, the next batch is sent first (measured at 32 callers over gRPC); alone, nobody is kept waiting.
  const afterCommit = (tell: () => void): void => {
    if (queue.waiting === 0 && untold === 0) tell();
    else {
      untold += 1;
      setImmediate(() => {
        untold -= 1;
        tell();
      });
    }
  };
  const appended = (seq: number, wakes: AppendedEnd["wakes"]): void =>
    onAppended({ workspaceId: state.workspaceId, seq, longestWindowMs: state.windows.longestMs, wakes });
  const tell = (batch: DecidedBatch): void => peers?.tell(state.workspaceId, () => appendedBatchFrom(batch));
  const overtaken = (): void => handOver.overtaken();
  const context: SealContext = { pool, state, clock, decide, mirror, announce, afterCommit, appended, tell, overtaken };

  const depth = (): number => (handOver.isAsked ? DEPTH_FOR_PEERS : DEPTH);
  const queue = createTaskQueue(createAppender(context), { busyPoll: createBusyPoll(busyPollMs), depth });

  const decideHere: TakeDecision = (action, isAbandoned) => {
    usedAt = performance.now();
    const { waiting } = queue;
    if (waiting >= MAX_WAITING) return Promise.reject(overloaded(waiting));
    return new Promise((resolve, reject) => queue.add({ action, isAbandoned, resolve, reject }));
  };
  const handOver = createHandOver(state.workspaceId, peers, decideHere);

  const seal = (by: string, atMs: number, changes: readonly ControlChange[]): SealedChanges =>
    sealChanges({ workspaceId: state.workspaceId, seq: state.seq, frontier: state.frontier, atMs, by }, changes);
  /** Makes durable changes part of the state. */
  const take = ({ events, end, frontier }: SealedChanges): void => {
    for (const { change, seq, atMs } of events) foldChange(state, { change, seq, atMs });
    Object.assign(state, { seq: end.seq, lastAtMs: end.lastAtMs, frontier });
    announce(events);
    appended(state.seq, "change");
  };

  const applyChange = async <T>(by: string, apply: (scope: ChangeScope) => Promise<T>): Promise<T> => {
    const changes: ControlChange[] = [];
    if (isOvertaken) await catchUp(pool, state, announce);
    const { result, sealed } = await orm.em.fork().transactional(async (transaction) => {
      const end = await lockLogEnd(transaction, state.workspaceId);
      isOvertaken = end !== state.seq;
      if (isOvertaken) await catchUp(readerWithin(transaction), state, announce);
      const nowMs = Math.max(clock.now(), state.lastAtMs);
      const nextSeq = (): number => state.seq + changes.length;
      const result = await apply({ transaction, state, nowMs, nextSeq, seal: (change) => void changes.push(change) });
      await transaction.flush();
      if (changes.length === 0) return { result };
      const sealed = seal(by, nowMs, changes);
      await appendChanges(transaction, sealed);
      return { result, sealed };
    });
    if (sealed !== undefined) take(sealed);
    return result;
  };

  const faultsOf = async <T>(work: () => Promise<T>): Promise<T> => {
    usedAt = performance.now();
    try {
      return await work();
    } catch (error) {
      throw storeFault(error);
    }
  };

  const readWoken = async (): Promise<void> => {
    const seq = wokenFor;
    wokenFor = 0;
    // A change of this replica tells this replica too, before it is answered; it is in the state by now.
    if (seq > state.seq) await catchUp(pool, state, announce);
  };

  const readUp = (): Promise<WorkspaceState> =>
    queue.run(async () => {
      reading = undefined;
      await catchUp(pool, state, announce);
      return state;
    });

  return {
    workspaceId: state.workspaceId,
    get waiting() {
      return queue.waiting;
    },
    get usedAt() {
      return usedAt;
    },
    get listeners() {
      return listeners.size;
    },
    get handsOver() {
      return handOver.isActive;
    },
    decide(action, isAbandoned) {
      usedAt = performance.now();
      return handOver.decide(action, isAbandoned);
    },
    decideHere: handOver.decideForPeer,
    get asksGuard() {
      return state.policies.policySet().asksGuard;
    },
    rehearse(action) {
      const { waiting } = queue;
      if (waiting >= MAX_WAITING) return Promise.reject(overloaded(waiting));
      return faultsOf(() => queue.run(() => rehearse(context, action)));
    },
    change: (by, apply) => faultsOf(() => queue.run(() => applyChange(by, apply))),
    caughtUp: () =>
      faultsOf(() => {
        // Readers that come before the read has begun share it.
        reading ??= readUp();
        return reading;
      }),
    wakeUp({ seq, isChange }) {
      if ((!isChange && listeners.size === 0) || seq <= state.seq) return;
      const isWoken = wokenFor > 0;
      wokenFor = Math.max(wokenFor, seq);
      if (!isWoken) queue.run(readWoken).catch(() => undefined);
    },
    follow: (batch) => void queue.run(() => followBatch(pool, state, batch, announce)).catch(() => undefined),
    subscribe(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    async saveTrust() {
      if (state.trustChangedAt.size === 0) return;
      const snapshot = await queue.run(async () => snapshotOf(state));
      const savedSeq = await saveTrustSnapshot(pool, snapshot);
      forgetSaved(state, savedSeq);
      // After the snapshot, so that the last uses of what expired are kept.
      if (performance.now() - forgotAt < FORGET_MS) return;
      forgotAt = performance.now();
      await queue.run(async () => state.authority.forgetExpired(snapshot.lastAtMs));
    },
    idle: queue.idle,
  };
}
