import type { Action, SealedDecision, WorkspaceLog, WorkspaceLogs } from "../ledger/index.ts";
import type { Guard } from "../semantic/index.ts";
import { askGuard } from "./guard.ts";

/** One action to decide. */
export interface InterceptCommand {
  readonly workspaceId: string;
  readonly action: Action;
  /** True once the caller no longer waits; the action is then not decided. */
  readonly isAbandoned: () => boolean;
  /** Aborted when the caller no longer waits. */
  readonly signal: AbortSignal;
}

/** Decides an action: the only way to a decision. Resolves only after the decision is durable in the workspace's log. */
export type Intercept = (command: InterceptCommand) => Promise<SealedDecision>;

/**
 * Creates the use-case over the workspace logs, whose `decide` takes the decision when the action's turn has come. `guard`
 * is asked before, if a semantic rule covers the action.
 */
export function createIntercept(logs: WorkspaceLogs, guard: Guard): Intercept {
  const decideGuarded = async (log: WorkspaceLog, command: InterceptCommand): Promise<SealedDecision> => {
    const action = await askGuard(guard, log, command.action, command.signal);
    // The log may have been put away while the guard was asked.
    return (await logs.of(command.workspaceId)).decide(action, command.isAbandoned);
  };
  const decideIn = (log: WorkspaceLog, command: InterceptCommand): Promise<SealedDecision> =>
    log.asksGuard ? decideGuarded(log, command) : log.decide(command.action, command.isAbandoned);
  return (command) => {
    const log = logs.of(command.workspaceId);
    // Without a needless turn of the event loop: the log is in memory for every action but the first.
    return log instanceof Promise ? log.then((loaded) => decideIn(loaded, command)) : decideIn(log, command);
  };
}
