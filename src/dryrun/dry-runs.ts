import { doAtOnce, doInTurns, type Work } from "../async/work.ts";
import type { DatabaseClock } from "../log/clock.ts";
import type { WorkspaceLog } from "../log/writer.ts";
import type { LongChecker } from "../policy/long/checker.ts";
import type { SessionKeys } from "../state/session-keys.ts";
import type { Action, Outcome } from "../state/types.ts";
import type { WorkspaceState } from "../state/workspace.ts";
import type { ReadOnlyDatabase } from "../store/transaction.ts";
import { type BacktestEvent, type BacktestQuery, backtest } from "./backtest/backtest.ts";
import { type ReplayEvent, type ReplayQuery, replayEpisodes } from "./episodes/replay-episodes.ts";
import { OwnStates, type Supposition } from "./own-state.ts";
import type { SeenContent } from "./supposed-knowledge.ts";

/** Query of a dry run. */
export interface Question extends Supposition {
  readonly workspaceId: string;
  /** Agent that asks. Default: the caller is none. */
  readonly agentId?: string | null | undefined;
  readonly actions: readonly Action[];
  /** Contents that the session of the actions has seen, in place of what it observed. Default: none. */
  readonly seen?: readonly SeenContent[];
  /** Aborts when the caller leaves. */
  readonly signal: AbortSignal;
}

/** Work of a dry run on a state as of a time, epoch milliseconds. It MUST leave the state as it was. */
export type DryRunWork<T> = (state: WorkspaceState, actions: readonly Action[], nowMs: number) => Work<T>;

/** The logs as dry runs see them: without a method that decides, changes or saves. */
export interface ReadOnlyLogs {
  of(workspaceId: string): ReadOnlyLog | Promise<ReadOnlyLog>;
  readonly clock: Pick<DatabaseClock, "now">;
}

/** A log as dry runs see it. */
export type ReadOnlyLog = Pick<WorkspaceLog, "dryRun" | "caughtUp">;

/** Dependencies of the dry runs: none of them can write. */
export interface DryRunParts {
  readonly logs: ReadOnlyLogs;
  readonly reads: ReadOnlyDatabase;
  readonly checker: LongChecker;
  /** Keys of sessions, which actions of observed sessions need. Default: such an action fails. */
  readonly sessionKeys?: SessionKeys | undefined;
}

/**
 * Runs dry runs: on the state in force if that is quick and the query supposes nothing else, and otherwise on a state of their
 * own, so that the workspace's decisions do not wait.
 */
export class DryRuns {
  readonly #parts: DryRunParts;
  readonly #ownStates: OwnStates;

  constructor(parts: DryRunParts) {
    this.#parts = parts;
    this.#ownStates = new OwnStates(parts.reads, parts.logs.clock, parts.sessionKeys);
  }

  /**
   * Runs the work. Rejects with AGENT_NOT_FOUND, OVERLOADED, STORE_UNAVAILABLE, INVALID_FIELD for a time before the last entry,
   * and what publishing a draft would. The work is run again after checks that take too long at an action's turn; `outcomesOf`
   * finds in its result the outcome of each action.
   */
  async run<T>(question: Question, work: DryRunWork<T>, outcomesOf: (result: T) => readonly Outcome[]): Promise<T> {
    const result = await this.#runOnce(question, work);
    const actions = await this.#withLongChecks(question, outcomesOf(result));
    return actions === undefined ? result : this.#runOnce({ ...question, actions }, work);
  }

  /** Backtests a window. Throws as `backtest` does. */
  backtest(query: BacktestQuery): AsyncIterable<BacktestEvent> {
    const { reads, checker } = this.#parts;
    return backtest({ reads, checker, ownStates: this.#ownStates }, query);
  }

  /** Replays recorded sessions. Throws as `replayEpisodes` does. */
  replay(query: ReplayQuery): AsyncIterable<ReplayEvent> {
    const { reads, checker } = this.#parts;
    return replayEpisodes({ reads, checker, ownStates: this.#ownStates }, query);
  }

  async #runOnce<T>(question: Question, work: DryRunWork<T>): Promise<T> {
    const { workspaceId, agentId, actions, drafts, lists, atMs } = question;
    if (drafts.length === 0 && lists.length === 0 && atMs === undefined) {
      const log = await this.#parts.logs.of(workspaceId);
      const done = await log.dryRun(actions, (state, nowMs) => doAtOnce(work(state, actions, nowMs)));
      if (done !== undefined) return done.result;
    }
    return this.#ownStates.run({ workspaceId, agentId }, question, actions, (state, nowMs) =>
      doInTurns(work(state, actions, nowMs)),
    );
  }

  /** Makes the checks that were left out; undefined if there were none. */
  async #withLongChecks(
    { workspaceId, agentId, actions, signal }: Question,
    outcomes: readonly Outcome[],
  ): Promise<readonly Action[] | undefined> {
    if (outcomes.every(({ policy }) => (policy?.missingChecks ?? []).length === 0)) return undefined;
    const { checker } = this.#parts;
    const checked: Action[] = [];
    for (const [index, action] of actions.entries()) {
      const missing = outcomes[index]?.policy?.missingChecks ?? [];
      const longAnswers =
        missing.length === 0 ? undefined : await checker.run({ workspaceId, agentId }, missing, signal);
      checked.push({ ...action, longAnswers });
    }
    return checked;
  }
}
