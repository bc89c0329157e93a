import { LRUCache } from "lru-cache";
import { SharedPot } from "../async/shared-pot.ts";
import { ControlPlaneError, ErrorReason, overShare } from "../errors.ts";
import type { Action, Outcome, SealedDecision } from "../state/types.ts";
import type { StateJournal, WorkspaceState } from "../state/workspace.ts";
import { storeFault } from "../store/database.ts";
import type { FollowedDecision, FollowUpStep } from "./follow-up.ts";
import type { PendingObservation } from "./observation.ts";

/**
 * Decides one action against a state at a time (epoch milliseconds). MUST be synchronous, and MUST note in the journal how to undo
 * every change that a later decision could see. Windows forget the actions that have left them as of that time.
 */
export type Decide = (state: WorkspaceState, nowMs: number, journal: StateJournal) => Outcome;

/** Steps that the log takes for an action at its turn. */
export interface Steps {
  readonly decide: Decide;
  /**
   * Checks a repeat of the action, which names its first decision, against a state at a time. Returns the refusal to seal;
   * undefined if the first decision still answers it. Synchronous, and changes nothing.
   */
  readonly refuseReplay: (state: WorkspaceState, replay: Action, nowMs: number) => Outcome | undefined;
}

/** An action that waits to be decided, and its caller. */
export interface PendingDecision {
  readonly action: Action;
  readonly steps: Steps;
  /** True once the caller has left. Asked when a batch takes the action, which is then not decided. */
  readonly isAbandoned: () => boolean;
  resolve(sealed: SealedDecision): void;
  reject(error: unknown): void;
}

/** A claim or a report that waits to be sealed, and its caller. */
export interface PendingFollowUp {
  readonly decisionId: string;
  readonly followUp: FollowUpStep;
  /** Characters of text that it brings. */
  readonly textLength: number;
  /** The decision as it was read, and its action; undefined until both are loaded. */
  read: { readonly followed: FollowedDecision; readonly action: Action } | undefined;
  /** True once the caller has left. Asked when a batch takes the item, which then seals nothing. */
  readonly isAbandoned: () => boolean;
  resolve(followed: FollowedDecision): void;
  reject(error: unknown): void;
}

/** An item that a batch takes. */
export type PendingItem = PendingDecision | PendingFollowUp | PendingObservation;

export const isFollowUp = (item: PendingItem): item is PendingFollowUp => "followUp" in item;
export const isObservation = (item: PendingItem): item is PendingObservation => "observation" in item;
export const isDecision = (item: PendingItem): item is PendingDecision => "action" in item;

/** Returns the action whose facts an item needs in the state; undefined for an item that is not loaded yet, and for one without an action. */
export function actionOf(item: PendingItem): Action | undefined {
  if (isFollowUp(item)) return item.read?.action;
  return isDecision(item) ? item.action : undefined;
}

/** Returns the session whose observations an item reads or extends. */
export const sessionOf = (item: PendingItem): string | undefined =>
  isObservation(item) ? item.observation.sessionId : actionOf(item)?.sessionId;

/** A step of the log that runs alone, with nothing in flight. */
export interface Task {
  readonly run: () => Promise<void>;
  reject(error: unknown): void;
}

/** An item that waits for a batch, or a task that waits for its turn. */
export type Waiting = PendingItem | Task;

export const isTask = (entry: Waiting): entry is Task => "run" in entry;

/** Maximum size of a batch: past it an insert no longer gains from size, and its first action waits for its last. */
const MAX_BATCH = 256;
/** Bytes of the sessions of a batch, whose values are in memory together while it is decided. */
const MAX_SESSION_BYTES = 33_554_432;
/** Characters of content and metadata after which a batch is full: deciding and sending it blocks the event loop. */
const MAX_BATCH_TEXT = 262_144;
/** Characters of all actions that wait to be decided in this process, of which one workspace alone has half. */
const WAITING_TEXT = 134_217_728;
/** Characters that each waiting action counts besides its text. */
export const ACTION_OVERHEAD = 1_024;
/** Number of retryable decisions of this replica that are remembered, so that their repeats stay out of batches. */
const REMEMBERED_REQUESTS = 20_000;

/** Returns the characters of content and metadata of an action. */
export const textLengthOf = ({ actionContent, metadataText }: Action): number =>
  actionContent.length + metadataText.length;

/** Returns the characters of text that an item brings. */
export const textLengthOfItem = (item: PendingItem): number =>
  isDecision(item) ? textLengthOf(item.action) : item.textLength;

/** Creates the pot of the actions that wait to be decided, in all logs of a process. */
export function createWaitingPot(): SharedPot {
  return new SharedPot({
    name: "waiting_actions",
    size: WAITING_TEXT,
    unit: "characters of actions that wait to be decided",
    advice: "send fewer at once",
    retryAfterSeconds: 1,
    refuse: overShare,
  });
}

const cancelled = (): ControlPlaneError =>
  new ControlPlaneError(ErrorReason.CANCELLED, "the caller went away before its turn in the log");

/** Rejects waiting entries. For a database that does not answer, the error is STORE_UNAVAILABLE. */
export function rejectAll(items: readonly Pick<PendingItem, "reject">[], error: unknown): void {
  const fault = storeFault(error);
  for (const item of items) item.reject(fault);
}

/** Runs a step of a batch. If it throws, its callers get the error too: during the step they are in no queue. */
export function runOrRejectAll(items: readonly PendingItem[], step: () => void): void {
  try {
    step();
  } catch (error) {
    rejectAll(items, error);
    throw error;
  }
}

/**
 * Queue of the actions and tasks that wait in the log of a workspace, in the order of arrival, with the rules for batching
 * them.
 */
export class Queue {
  #entries: Waiting[] = [];
  // `maxSize`, as in every cache of a workspace: with `max` the cache allocates all of its memory at once.
  readonly #recentIds = new LRUCache<string, true>({ maxSize: REMEMBERED_REQUESTS, sizeCalculation: () => 1 });

  get length(): number {
    return this.#entries.length;
  }

  get first(): Waiting | undefined {
    return this.#entries[0];
  }

  push(entry: Waiting): void {
    this.#entries.push(entry);
  }

  /** Takes the first entry, a task. */
  shiftTask(): void {
    this.#entries.shift();
  }

  takeAll(): readonly Waiting[] {
    const all = this.#entries;
    this.#entries = [];
    return all;
  }

  /** Returns the items before the first task, at most as many as a batch may take. */
  upcoming(): readonly PendingItem[] {
    const items: PendingItem[] = [];
    for (const entry of this.#entries) {
      if (isTask(entry) || items.length === MAX_BATCH) break;
      items.push(entry);
    }
    return items;
  }

  /**
   * Takes the items of a batch, at most `limit`. Stops before a task, a repeat, or a second action with the same id, and where its
   * sessions, of which `sessionBytes` tells the bytes, take too much memory. Items whose callers have left are rejected with CANCELLED.
   */
  takeBatch(limit: number, sessionBytes: (sessionId: string) => number): readonly PendingItem[] {
    const ids = new Set<string>();
    const sessions = new Set<string>();
    let bytes = 0;
    const items = this.#take(Math.min(MAX_BATCH, limit), (item) => {
      const session = sessionOf(item);
      if (session !== undefined && !sessions.has(session)) {
        bytes += sessionBytes(session);
        if (bytes > MAX_SESSION_BYTES && sessions.size > 0) return false;
        sessions.add(session);
      }
      if (!isDecision(item)) return true;
      const { decisionId } = item.action;
      if (this.isRepeat(item) || ids.has(decisionId)) return false;
      ids.add(decisionId);
      return true;
    });
    return items.filter((item) => {
      if (!item.isAbandoned()) return true;
      item.reject(cancelled());
      return false;
    });
  }

  /** Takes the repeats at the front. */
  takeRepeats(): readonly PendingItem[] {
    return this.#take(MAX_BATCH, (item) => this.isRepeat(item));
  }

  /** Puts back, at the front, the items that a batch did not take. */
  putBack(items: readonly PendingItem[]): void {
    if (items.length > 0) this.#entries = [...items, ...this.#entries];
  }

  /**
   * Tests whether an action repeats a recent decision of this replica. Repeats of any other decision are found when the append
   * of their batch fails with a unique violation.
   */
  isRepeat(item: PendingItem): boolean {
    return isDecision(item) && item.action.isRetryable && this.#recentIds.has(item.action.decisionId);
  }

  /** Remembers decided actions, so that their repeats stay out of batches. */
  remember(items: readonly PendingItem[]): void {
    for (const item of items) {
      if (isDecision(item) && item.action.isRetryable) this.#recentIds.set(item.action.decisionId, true);
    }
  }

  #take(limit: number, accepts: (item: PendingItem) => boolean): PendingItem[] {
    let text = 0;
    const items: PendingItem[] = [];
    for (const entry of this.#entries) {
      if (items.length === limit || text >= MAX_BATCH_TEXT || isTask(entry) || !accepts(entry)) break;
      text += textLengthOfItem(entry);
      items.push(entry);
    }
    this.#entries = this.#entries.slice(items.length);
    return items;
  }
}
