import type { WorkspaceLog } from "../log/writer.ts";
import type { GuardAnswer, SemanticSpec } from "../policy/types.ts";

import type { Guard } from "../semantic/guard.ts";
import type { Action } from "../state/types.ts";
import { decide } from "./decide.ts";

/**
 * Asks the guard the questions of the semantic rules that cover an action, and returns its answers by question. Rules with
 * the same question share an answer. Nothing is asked about an action that deterministic rules block, or that no semantic
 * rule covers.
 *
 * The log goes on meanwhile: the answers are weighed against the state at the action's turn. A rule that was published in
 * between has no answer there and counts as unavailable.
 */
export async function askGuard(
  guard: Guard,
  log: WorkspaceLog,
  action: Action,
  signal: AbortSignal,
): Promise<ReadonlyMap<string, GuardAnswer>> {
  const { policy, toolName } = await log.dryRun([action], (state, nowMs) => decide(state, action, nowMs, { undo: [] }));
  const questions = new Map(policy?.guards.map(({ spec }) => [spec.key, spec]));
  // The tool that the action calls, also when its metadata or its type names it.
  const asked = { ...action, tool: toolName };
  const ask = async ({ key, prompt, timeoutMs }: SemanticSpec): Promise<[string, GuardAnswer]> => {
    return [key, await guard.judge({ rule: prompt, action: asked, timeoutMs }, signal)];
  };
  return new Map(await Promise.all([...questions.values()].map(ask)));
}
