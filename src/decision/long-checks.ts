import type { WorkspaceLog } from "../log/writer.ts";
import type { LongAnswers } from "../policy/checks.ts";
import type { LongChecker } from "../policy/long/checker.ts";
import type { Action } from "../state/types.ts";
import { decide } from "./decide.ts";

/**
 * Makes the checks of an action that would take too long at its turn, such as patterns over a long text. Decides the action
 * without appending it to learn which these are. A rule that was published in between has no answer and holds.
 */
export async function makeLongChecks(
  checker: LongChecker,
  log: WorkspaceLog,
  action: Action,
  signal: AbortSignal,
): Promise<LongAnswers | undefined> {
  const { policy } = await log.dryRun([action], (state, nowMs) => decide(state, action, nowMs, { undo: [] }));
  if (policy === undefined || policy.missingChecks.length === 0) return undefined;
  return checker.run(log.workspaceId, policy.missingChecks, signal);
}
