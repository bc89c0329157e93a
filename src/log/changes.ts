import type { SessionValues } from "../provenance/session-values.ts";
import { type ControlChange, controlEntryFrom } from "../state/control-changes.ts";
import type { Action, Outcome } from "../state/types.ts";
import type { WorkspaceState } from "../state/workspace.ts";
import type { Database } from "../store/database.ts";
import { createId } from "../store/ids.ts";
import { signingKeyEntryId } from "../store/sql/signing-keys.ts";
import {
  type AppendedChanges,
  appendChanges,
  type ChangeEntry,
  lockLogEnd,
  readerWithin,
  type Transaction,
} from "../store/transaction.ts";
import { canonicalJson } from "../tree/canonical.ts";
import { appendLeaves, bytesFromFrontier, type Frontier, leafHash, rootText } from "../tree/merkle.ts";
import { type Batch, decidedAlone } from "./batch.ts";
import { type ChangeEvent, WAKE_UP_CHANNEL, wakeUpPayload } from "./events.ts";
import type { LoadedState } from "./loaded-state.ts";
import type { Steps } from "./queue.ts";

/** The end of a log to which changes are appended. */
export interface ChangePlace {
  readonly workspaceId: string;
  readonly seq: number;
  readonly frontier: Frontier;
  readonly atMs: number;
  /** Key of the caller who makes the changes. */
  readonly by: string;
}

/** Entries of changes in the form that the log stores, with the events that announce them. */
export interface SealedChanges extends AppendedChanges {
  readonly events: readonly ChangeEvent[];
  /** Frontier of the tree after the changes. */
  readonly frontier: Frontier;
}

const agentOf = (change: ControlChange): string | null => ("agent_id" in change ? change.agent_id : null);

/** Returns the id of a change's entry. It is fixed for each step of a signing key, so that a log cannot seal a step twice. */
function entryIdOf(change: ControlChange): string {
  if (change.type === "signing_key_added") return signingKeyEntryId.added(change.signing_key.key_id);
  if (change.type === "signing_key_retired") return signingKeyEntryId.retired(change.key_id);
  return createId("ent");
}

/** Builds the entries of changes for the end of a log. */
export function sealChanges(place: ChangePlace, changes: readonly ControlChange[]): SealedChanges {
  const { workspaceId, atMs, by } = place;
  const previousRoot = rootText(place.frontier);
  let { frontier } = place;
  const entries = changes.map((change, index): ChangeEntry => {
    const seq = place.seq + index;
    const body = canonicalJson(
      controlEntryFrom(change, { workspaceId, seq, atMs, by, previousRoot, previousSize: place.seq }),
    );
    const leaf = leafHash(body);
    const subtrees: Uint8Array[] = [];
    frontier = appendLeaves(frontier, [leaf], subtrees);
    return { seq, entryId: entryIdOf(change), agentId: agentOf(change), leafHash: leaf, subtrees, body };
  });
  const seq = place.seq + entries.length;
  const events = changes.map((change, index) => ({
    kind: "change" as const,
    seq: place.seq + index,
    atMs,
    by,
    change,
  }));
  return {
    workspaceId,
    entries,
    end: { seq, frontier: bytesFromFrontier(frontier), lastAtMs: atMs },
    notification: { channel: WAKE_UP_CHANNEL, payload: wakeUpPayload({ workspaceId, seq, isChange: true }) },
    events,
    frontier,
  };
}

/** Scope of a change of a workspace, valid while the end of the log is locked. */
export interface ChangeScope {
  /** Commits together with the log. */
  readonly transaction: Transaction;
  /** The state at the end of the log. Read only: sealed changes are folded into it after the commit. */
  readonly state: WorkspaceState;
  /** Time of the entries that this change seals, epoch milliseconds. */
  readonly nowMs: number;
  /** Loads what a session observed; undefined for one that observed nothing. */
  loadSession(sessionId: string): Promise<SessionValues | undefined>;
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

/** A change that was committed. */
export interface CommittedChange<T> {
  readonly result: T;
  /** Entries of the change; undefined if it sealed none. */
  readonly sealed?: SealedChanges;
  /** Batch with the decision that the change appended before its entries. */
  readonly batch: Batch | undefined;
}

/** Commits changes of a workspace, each in one transaction that holds the end of the log. */
export class ChangeCommitter {
  readonly #database: Database;
  readonly #loaded: LoadedState;
  /** True if the last change found entries of other replicas: the next one reads before it takes the lock. */
  #isBehind = true;

  constructor(database: Database, loaded: LoadedState) {
    this.#database = database;
    this.#loaded = loaded;
  }

  /**
   * Runs `apply` in a transaction and appends the entries that it seals. Only the decision that `apply` appends is folded into
   * the state here; it is undone if the transaction fails. `action`: the action that `apply` decides, if any.
   */
  async commit<T>(
    by: string,
    apply: (scope: ChangeScope) => Promise<T>,
    action: Action | undefined,
  ): Promise<CommittedChange<T>> {
    const loaded = this.#loaded;
    let batch: Batch | undefined;
    const commit = async (transaction: Transaction): Promise<CommittedChange<T>> => {
      const state = loaded.current;
      const { workspaceId } = state;
      const changes: ControlChange[] = [];
      const end = await lockLogEnd(transaction, workspaceId);
      if (end === undefined) throw loaded.loseHead();
      const reader = readerWithin(transaction);
      this.#isBehind = end !== state.seq;
      if (this.#isBehind) await loaded.catchUp(reader);
      if (action !== undefined) await loaded.loadNamed(reader, [action]);
      const nowMs = action === undefined ? loaded.now() : await loaded.completeWindowsLocked(reader);
      const result = await apply({
        transaction,
        state,
        nowMs,
        async loadSession(sessionId) {
          await loaded.loadSession(reader, sessionId);
          return state.sessions.get(sessionId);
        },
        nextSeq: () => state.seq + changes.length,
        seal: (change) => void changes.push(change),
        append: async (steps) => {
          if (action === undefined || batch !== undefined || changes.length > 0)
            throw new Error("a change decides its action once, before it seals");
          const decided = decidedAlone(state, action, steps, nowMs);
          batch = decided;
          if ((await decided.send(reader)) === undefined) throw new Error("the log moved under its lock");
          return decided.outcomes[0] as Outcome;
        },
      });
      await transaction.flush();
      if (changes.length === 0) return { result, batch };
      const sealed = sealChanges({ workspaceId, seq: state.seq, frontier: state.frontier, atMs: nowMs, by }, changes);
      await appendChanges(transaction, sealed);
      return { result, sealed, batch };
    };
    if (this.#isBehind) await loaded.catchUp(this.#database.pool);
    // Before the lock is taken: a long window may have much to read.
    if (action !== undefined) await loaded.completeWindows();
    try {
      return await this.#database.orm.em.fork().transactional(commit);
    } catch (error) {
      batch?.undo();
      throw error;
    }
  }
}
