import type { Action, SealedDecision, WorkspaceLogs } from "../ledger/index.ts";

/** One action to decide. */
export interface InterceptCommand {
  readonly workspaceId: string;
  readonly action: Action;
  /** True once the caller no longer waits; the action is then not decided. */
  readonly isAbandoned: () => boolean;
}

/** Decides an action: the only way to a decision. Resolves only after the decision is durable in the workspace's log. */
export type Intercept = (command: InterceptCommand) => Promise<SealedDecision>;

/** Creates the use-case over the workspace logs, whose `decide` takes the decision when the action's turn has come. */
export function createIntercept(logs: WorkspaceLogs): Intercept {
  return ({ workspaceId, action, isAbandoned }) => {
    const log = logs.of(workspaceId);
    // Without a needless turn of the event loop: the log is in memory for every action but the first.
    if (log instanceof Promise) return log.then((loaded) => loaded.decide(action, isAbandoned));
    return log.decide(action, isAbandoned);
  };
}
