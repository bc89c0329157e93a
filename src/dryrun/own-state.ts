import type { Release } from "../async/semaphore.ts";
import type { Holder } from "../async/shared-pot.ts";
import { Slots } from "../async/slots.ts";
import { Turns } from "../async/turns.ts";
import { ControlPlaneError, ErrorReason, invalidField, notFound, overShare } from "../errors.ts";
import type { DatabaseClock } from "../log/clock.ts";
import type { ListDraft } from "../registry/lists.ts";
import { completeWindows } from "../state/counters/log-history.ts";
import { loadNamed, loadSnapshot } from "../state/load.ts";
import { loadSessions } from "../state/load-sessions.ts";
import type { SessionKeys } from "../state/session-keys.ts";
import type { Action } from "../state/types.ts";
import type { WorkspaceState } from "../state/workspace.ts";
import { stored, storeFault } from "../store/database.ts";
import type { ReadOnlyDatabase } from "../store/transaction.ts";
import { applyDrafts, applyLists, type Draft } from "./drafts.ts";

/** Suppositions of a dry run. */
export interface Supposition {
  readonly drafts: readonly Draft[];
  /** Lists that are put in force before the drafts. */
  readonly lists: readonly ListDraft[];
  /** Time at which the actions are attempted, epoch milliseconds; undefined for the present time. */
  readonly atMs: number | undefined;
}

/** Maximum number of such states in memory, of which one workspace alone has half: each is as large as the state it decides on. */
const MAX_LOADED = 4;
/** Maximum number of dry runs that have a second state, to compare with. */
const MAX_PAIRS = 2;
/** Dry runs that have one or wait for it. */
const MAX_DRY_RUNS = 40;
/** Milliseconds that a message may wait for its reader while its dry run holds room that others wait for. */
const READER_MS = 30_000;
/** Bound and words of a refusal. */
const REFUSAL = {
  size: MAX_DRY_RUNS,
  unit: "dry runs on a state of their own",
  advice: "make fewer at once",
  retryAfterSeconds: 2,
  refuse: overShare,
} as const;

/** Loads states that no other request uses, in READ ONLY transactions, for dry runs that cannot use the state in force. */
export class OwnStates {
  readonly #reads: ReadOnlyDatabase;
  readonly #clock: Pick<DatabaseClock, "now">;
  readonly #sessionKeys: SessionKeys | undefined;
  readonly #slots = new Slots({ ...REFUSAL, name: "dry_runs", permits: MAX_LOADED });
  readonly #pairs = new Slots({ ...REFUSAL, name: "dry_run_pairs", permits: MAX_PAIRS });

  constructor(reads: ReadOnlyDatabase, clock: Pick<DatabaseClock, "now">, sessionKeys: SessionKeys | undefined) {
    this.#reads = reads;
    this.#sessionKeys = sessionKeys;
    this.#clock = clock;
  }

  /**
   * Runs `run` on a state with the drafts in force and the time of the actions, with everything in memory that deciding them
   * needs. Rejects with AGENT_NOT_FOUND, OVERLOADED, STORE_UNAVAILABLE, INVALID_FIELD for a time before the last entry, and what
   * publishing a draft would.
   */
  async run<T>(
    holder: Holder,
    supposition: Supposition,
    actions: readonly Action[],
    run: (state: WorkspaceState, nowMs: number) => Promise<T>,
  ): Promise<T> {
    return this.#slots.run(async () => {
      const { state, nowMs } = await stored(this.#load(holder.workspaceId, supposition, actions));
      return run(state, nowMs);
    }, holder);
  }

  /** Waits for room for a state. Returns the function that releases it. Rejects with OVERLOADED, and when the signal aborts. */
  acquire(holder: Holder, signal: AbortSignal): Promise<Release> {
    return this.#slots.acquire(holder, signal);
  }

  /** Waits for room for two states. Returns the function that releases both. Rejects as `acquire` does. */
  async acquirePair(holder: Holder, signal: AbortSignal): Promise<Release> {
    // First, so that nobody who holds a state waits for a second one.
    const releasePair = await this.#pairs.acquire(holder, signal);
    try {
      const release = await this.#slots.acquire(holder, signal);
      return () => {
        release();
        releasePair();
      };
    } catch (error) {
      releasePair();
      throw error;
    }
  }

  #load(workspaceId: string, { drafts, lists, atMs }: Supposition, actions: readonly Action[]): Promise<OwnState> {
    return this.#reads.snapshot(async (client) => {
      const state = await loadSnapshot(client, workspaceId);
      const stranger = actions.find(({ agentId }) => !state.agents.has(agentId));
      if (stranger !== undefined) throw notFound(ErrorReason.AGENT_NOT_FOUND, "agent", { agent_id: stranger.agentId });
      if (atMs !== undefined && atMs < state.lastAtMs) {
        const last = new Date(state.lastAtMs).toISOString();
        throw invalidField("at", `must not lie before the last entry of the log, ${last}`);
      }
      await applyLists(state, lists);
      const turns = new Turns();
      await applyDrafts(state, drafts, () => turns.giveWay());
      await loadNamed(client, state, actions);
      const sessions = actions.flatMap(({ sessionId }) => sessionId ?? []);
      await loadSessions(client, state, sessions, this.#sessionKeys);
      const now = atMs ?? this.#clock.now();
      return { state, nowMs: await completeWindows(client, state, { now: () => now }) };
    });
  }
}

/**
 * Yields what `run` does while the room that was asked for is held. Yields nothing if the caller left before there was room. Faults of the
 * database become STORE_UNAVAILABLE. A message that waits `readerMs` milliseconds for its reader ends the run and frees the room; the
 * reader then gets DEADLINE_EXCEEDED.
 */
export async function* whileHeld<T>(
  acquired: Promise<Release>,
  signal: AbortSignal,
  run: () => AsyncGenerator<T>,
  readerMs = READER_MS,
): AsyncGenerator<T> {
  const release = await acquired.catch((error: unknown) => {
    if (!signal.aborted) throw error;
  });
  if (release === undefined) return;
  const source = run();
  let isHeld = true;
  const free = (): void => {
    if (isHeld) release();
    isHeld = false;
  };
  let isUnread = false;
  const giveUp = (): void => {
    isUnread = true;
    // The source waits at its message, so this also gives up its state.
    void source.return(undefined).then(free, free);
  };
  try {
    for await (const message of source) {
      const timer = setTimeout(giveUp, readerMs);
      try {
        yield message;
      } finally {
        clearTimeout(timer);
      }
      if (isUnread) throw unread(readerMs);
    }
  } catch (error) {
    throw storeFault(error);
  } finally {
    free();
  }
}

function unread(readerMs: number): ControlPlaneError {
  const seconds = String(readerMs / 1000);
  return new ControlPlaneError(
    ErrorReason.DEADLINE_EXCEEDED,
    `a message was not read for ${seconds} s, which ended the dry run; read the stream without a pause`,
    { seconds },
  );
}

interface OwnState {
  readonly state: WorkspaceState;
  readonly nowMs: number;
}
