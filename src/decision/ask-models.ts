import type { WorkspaceLog } from "../log/workspace-log.ts";
import type { GuardAnswer, SemanticSpec } from "../policy/types.ts";
import type { Guard } from "../semantic/guard.ts";
import type { Action } from "../state/types.ts";

/**
 * Asks the guard what the semantic rules that cover an action ask, and gives the action with the answers. Rules that share
 * a question share its answer. Nobody is asked about an action that is refused without it, nor when no such rule covers it.
 *
 * The log goes on meanwhile: what the answers mean is decided against the state that it has when the action's turn comes,
 * where a question that came up since counts as unavailable.
 */
export async function askGuard(guard: Guard, log: WorkspaceLog, action: Action, signal: AbortSignal): Promise<Action> {
  const { policy, toolName } = await log.rehearse(action);
  const questions = new Map(policy?.guards.map(({ spec }) => [spec.key, spec]));
  if (questions.size === 0) return action;
  // The tool that the action calls, also when its metadata or its type names it.
  const asked = { ...action, tool: toolName };
  const ask = async ({ key, prompt, timeoutMs }: SemanticSpec): Promise<[string, GuardAnswer]> => {
    return [key, await guard.judge({ rule: prompt, action: asked, timeoutMs }, signal)];
  };
  return { ...action, answers: new Map(await Promise.all([...questions.values()].map(ask))) };
}
