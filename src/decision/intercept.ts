import type { WorkspaceLog } from "../log/workspace-log.ts";
import type { WorkspaceLogs } from "../log/workspace-logs.ts";
import type { Guard } from "../semantic/guard.ts";
import type { Action, SealedDecision } from "../state/types.ts";
import { askGuard } from "./ask-models.ts";

/** Who waits for a decision. */
export interface Waiter {
  /** True once nobody waits any more; the action is then not decided. */
  readonly isOver: boolean;
  /** Aborts at the same moment. It MAY be made on first use, and is asked for only when the guard has to be. */
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
 * Creates the use-case over the workspace logs, whose `decide` takes the decision when the action's turn has come. `guard`
 * is asked before, if a semantic rule covers the action.
 */
export function createIntercept(logs: WorkspaceLogs, guard: Guard): Intercept {
  const decideGuarded = async (log: WorkspaceLog, { workspaceId, action, waiter }: InterceptCommand) => {
    const answered = await askGuard(guard, log, action, waiter.signal);
    // The log may have been put away while the guard was asked.
    return (await logs.of(workspaceId)).decide(answered, () => waiter.isOver);
  };
  const decideIn = (log: WorkspaceLog, command: InterceptCommand): Promise<SealedDecision> =>
    log.asksGuard ? decideGuarded(log, command) : log.decide(command.action, () => command.waiter.isOver);
  return (command) => {
    const log = logs.of(command.workspaceId);
    // Without a needless turn of the event loop: the log is in memory for every action but the first.
    return log instanceof Promise ? log.then((loaded) => decideIn(loaded, command)) : decideIn(log, command);
  };
}
