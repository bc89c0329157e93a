import { Turns } from "../async/turns.ts";
import { ControlPlaneError, ErrorReason } from "../errors.ts";
import { completeWindows } from "../state/counters/log-history.ts";
import { foldChange } from "../state/fold.ts";
import { loadNamed } from "../state/load.ts";
import { holdsSession, loadSessions } from "../state/load-sessions.ts";
import type { Action } from "../state/types.ts";
import type { WorkspaceState } from "../state/workspace.ts";
import { type Database, storeFault } from "../store/database.ts";
import type { Reader } from "../store/transaction.ts";
import { announceStretch, catchUp } from "./catch-up.ts";
import type { SealedChanges } from "./changes.ts";
import type { DatabaseClock } from "./clock.ts";
import type { LedgerEvent, LedgerListener } from "./events.ts";
import { actionFromReceipt } from "./follow-up.ts";
import { headMissing, openState } from "./head.ts";
import { actionOf, isFollowUp, isObservation, type PendingFollowUp, type PendingItem, sessionOf } from "./queue.ts";
import { readFollowed } from "./read-follow-ups.ts";
import type { LogSurroundings } from "./surroundings.ts";

/** Dependencies of a workspace's state in memory. */
export interface StateSources {
  readonly database: Database;
  readonly clock: DatabaseClock;
  readonly surroundings: LogSurroundings;
}

/** Builds AGENT_NOT_FOUND. */
export function unknownAgent(agentId: string): ControlPlaneError {
  return new ControlPlaneError(ErrorReason.AGENT_NOT_FOUND, `no agent \`${agentId}\``, { agent_id: agentId });
}

/**
 * State of a workspace in memory, folded from its log. It follows the log, loads what a decision needs, and announces entries
 * to listeners in the order of the log.
 *
 * INVARIANT: only the one loop of `WorkspaceLog` folds entries, and it reads them from the database only while no batch is in flight.
 */
export class LoadedState {
  readonly #sources: StateSources;
  readonly #listeners = new Set<LedgerListener>();
  /** Read again and replaced after a fault that may have left half a step in it. */
  #state: WorkspaceState;
  #isTorn = false;
  /** Index after the last announced entry. */
  #announcedSeq: number;

  constructor(state: WorkspaceState, sources: StateSources) {
    this.#state = state;
    this.#announcedSeq = state.seq;
    this.#sources = sources;
  }

  get current(): WorkspaceState {
    return this.#state;
  }

  /** Number of listeners. */
  get listeners(): number {
    return this.#listeners.size;
  }

  /** Time of an entry sealed now, epoch milliseconds. */
  now(): number {
    return Math.max(this.#sources.clock.now(), this.#state.lastAtMs);
  }

  /** Calls the listener with every entry from now on. Returns the function that ends it. */
  subscribe(listener: LedgerListener): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** Tells every listener of entries that are durable. */
  announce(events: readonly LedgerEvent[]): void {
    const last = events.at(-1);
    if (last === undefined) return;
    this.#announcedSeq = last.seq + 1;
    for (const listener of this.#listeners) runApart(() => listener(events));
  }

  /** Folds and announces the entries that other replicas appended. */
  async catchUp(reader: Reader): Promise<void> {
    try {
      await catchUp(reader, this.#state, (events) => this.announce(events));
    } catch (error) {
      this.suspect(error);
      // No action may be decided without the values of a list, even if the log grows no more.
      if (this.#state.lists.hasUnread) this.tear();
      throw error;
    }
  }

  /** Folds changes of this replica after their commit. */
  fold({ events, end, frontier }: SealedChanges): void {
    try {
      for (const { change, seq, atMs, by } of events) foldChange(this.#state, { change, seq, atMs, by });
    } catch (error) {
      this.tear();
      throw error;
    }
    Object.assign(this.#state, { seq: end.seq, lastAtMs: end.lastAtMs, frontier });
  }

  /** Notes that the state may hold half a step, unless the error is a fault of the call or of the database. */
  suspect(error: unknown): void {
    if (!(storeFault(error) instanceof ControlPlaneError)) this.tear();
  }

  /** Notes that the state may hold half a step. */
  tear(): void {
    this.#isTorn = true;
  }

  /** Notes that someone deleted the head of the log, which mending rebuilds. Returns STORE_UNAVAILABLE. */
  loseHead(): ControlPlaneError {
    this.tear();
    return headMissing(this.#state.workspaceId);
  }

  /** Reads the state anew if it may hold half a step, and announces what listeners have not heard of. */
  async mend(): Promise<void> {
    if (!this.#isTorn) return;
    const { database } = this.#sources;
    const { workspaceId } = this.#state;
    const state = await openState(database, workspaceId);
    this.#state = state;
    this.#isTorn = false;
    const stretch = { workspaceId, from: this.#announcedSeq, before: state.seq };
    await announceStretch(database.pool, stretch, (events) => this.announce(events));
  }

  /** True if the actions can be decided as of a time without reading anything. */
  holdsAllFor(items: readonly PendingItem[], nowMs: number): boolean {
    const { agents, authority, escalations, outcomes, sequences, windows, budgets } = this.#state;
    if (!sequences.isComplete || !windows.isReady(nowMs) || !budgets.isReady(nowMs)) return false;
    return items.every((item) => {
      const action = actionOf(item);
      if (!holdsSession(this.#state, sessionOf(item))) return false;
      if (isObservation(item)) return true;
      if (action === undefined || (isFollowUp(item) && !outcomes.isWatched(item.decisionId, item))) return false;
      return (
        agents.has(action.agentId) &&
        (action.escalationId === undefined || escalations.knows(action.escalationId)) &&
        (action.grantId === undefined || authority.knowsGrant(action.grantId))
      );
    });
  }

  /** Loads what the items name. Rejects those of unknown agents and decisions, and returns the others. */
  async loadFor(reader: Reader, items: readonly PendingItem[]): Promise<readonly PendingItem[]> {
    const { agents } = this.#state;
    const found = await this.loadDecisions(reader, items);
    const agentOf = (item: PendingItem): string =>
      (isObservation(item) ? item.observation : actionOf(item))?.agentId ?? "";
    const isKnown = (item: PendingItem): boolean => agents.has(agentOf(item));
    // An agent may have been registered on another replica a moment ago.
    if (!found.every(isKnown)) await this.catchUp(reader);
    await loadNamed(
      reader,
      this.#state,
      found.flatMap((item) => actionOf(item) ?? []),
    );
    const sessions = found.flatMap((item) => sessionOf(item) ?? []);
    await loadSessions(reader, this.#state, sessions, this.#sources.surroundings.sessionKeys);
    for (const item of found) if (!isKnown(item)) item.reject(unknownAgent(agentOf(item)));
    return found.filter(isKnown);
  }

  /**
   * Reads the decisions that claims and reports follow up, and keeps what is sealed about them from now on. Rejects the items whose
   * decisions are unknown or damaged, and returns the others.
   */
  async loadDecisions(reader: Reader, items: readonly PendingItem[]): Promise<readonly PendingItem[]> {
    const { outcomes, workspaceId } = this.#state;
    const missing = items.filter(isFollowUp).filter((item) => !outcomes.isWatched(item.decisionId, item));
    if (missing.length === 0) return items;
    for (const item of missing) outcomes.watch(item.decisionId, item);
    const read = await readFollowed(
      reader,
      workspaceId,
      missing.map(({ decisionId }) => decisionId),
    );
    const failed = new Set<PendingItem>();
    const turns = new Turns();
    for (const item of missing) {
      await turns.giveWay();
      const result = read(item.decisionId);
      if (result instanceof ControlPlaneError) {
        failed.add(item);
        item.reject(result);
      } else item.read = { followed: result, action: actionFromReceipt(result.receipt) };
    }
    return items.filter((item) => !failed.has(item));
  }

  /** Ends what `loadDecisions` began for an item. */
  forgetDecision(item: PendingFollowUp): void {
    this.#state.outcomes.unwatch(item.decisionId, item);
  }

  /** Loads what the actions name. Throws AGENT_NOT_FOUND if an agent is unknown. */
  async loadNamed(reader: Reader, actions: readonly Action[]): Promise<void> {
    const stranger = actions.find(({ agentId }) => !this.#state.agents.has(agentId));
    if (stranger !== undefined) throw unknownAgent(stranger.agentId);
    await loadNamed(reader, this.#state, actions);
    const sessions = actions.flatMap(({ sessionId }) => sessionId ?? []);
    await loadSessions(reader, this.#state, sessions, this.#sources.surroundings.sessionKeys);
  }

  /** Loads what a session observed. */
  loadSession(reader: Reader, sessionId: string): Promise<void> {
    return loadSessions(reader, this.#state, [sessionId], this.#sources.surroundings.sessionKeys);
  }

  /** Loads the history of every window and budget in force, with the mirror's help. Returns the time for which it is complete. */
  completeWindows(reader: Reader = this.#sources.database.pool): Promise<number> {
    const { clock, surroundings } = this.#sources;
    return completeWindows(reader, this.#state, clock, { mirror: surroundings.mirror });
  }

  /** Does the same under the lock on the end of the log. Skips the mirror, because other replicas wait for the lock. */
  completeWindowsLocked(reader: Reader): Promise<number> {
    return completeWindows(reader, this.#state, this.#sources.clock);
  }
}

/**
 * Runs a listener. If it throws, the process's handler of uncaught exceptions gets the error, and the log and the other
 * listeners continue.
 */
export function runApart(listen: () => void): void {
  try {
    listen();
  } catch (error) {
    queueMicrotask(() => {
      throw error;
    });
  }
}
