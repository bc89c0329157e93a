import type { WorkspaceLogs } from "../log/workspace-logs.ts";
import type { Guard } from "../semantic/guard.ts";
import type { Action, SealedDecision } from "../state/types.ts";
import { askGuard } from "./ask-models.ts";
import { decide } from "./decide.ts";

/** The caller of a decision while it waits. */
export interface Waiter {
  /** True once the caller has left; the action is then not decided. */
  readonly isOver: boolean;
  /** Aborts at the same moment. MAY be created on first use: it is needed only when the guard is asked. */
  readonly signal: AbortSignal;
}

/** One action to decide. */
export interface InterceptCommand {
  readonly workspaceId: string;
  readonly action: Action;
  readonly waiter: Waiter;
}

/** Decides an action: the only way to a decision. Resolves only after the decision is durable in the workspace's log. */
export type Intercept = (command: InterceptCommand) => Promise<SealedDecision>;

/**
 * Creates the use-case over the workspace logs. It asks the guard first if a mandate in force has a semantic rule; then the
 * log calls `decide` when the action's turn has come.
 */
export function createIntercept(logs: Pick<WorkspaceLogs, "of">, guard: Guard): Intercept {
  return async ({ workspaceId, action, waiter }) => {
    const log = await logs.of(workspaceId);
    const isAbandoned = (): boolean => waiter.isOver;
    if (!log.asksGuard)
      return log.append(action, (state, nowMs, journal) => decide(state, action, nowMs, journal), isAbandoned);
    const asked = { ...action, answers: await askGuard(guard, log, action, waiter.signal) };
    // The log may have left the memory while the guard was asked.
    const current = await logs.of(workspaceId);
    return current.append(asked, (state, nowMs, journal) => decide(state, asked, nowMs, journal), isAbandoned);
  };
}
