import { decide, steps } from "../../src/decision/decide.ts";
import type { WorkspaceLog } from "../../src/log/writer.ts";
import type { Action, Outcome, SealedDecision } from "../../src/state/types.ts";

/** Decides an action on a log, as an intercept without semantic rules does. */
export function decideOn(log: WorkspaceLog, action: Action, isAbandoned = () => false): Promise<SealedDecision> {
  return log.append(action, steps(action), isAbandoned);
}

/** The outcome that an action would have on a log now. */
export function dryRunOn(log: WorkspaceLog, action: Action): Promise<Outcome> {
  return log.dryRun([action], (state, nowMs) => decide(state, action, nowMs, { undo: [] }));
}
