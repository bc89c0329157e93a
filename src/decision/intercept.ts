import type { WorkspaceLogs } from "../log/workspace-logs.ts";
import type { WorkspaceLog } from "../log/writer.ts";
import type { LongAnswers } from "../policy/checks.ts";
import type { LongChecker } from "../policy/long/checker.ts";
import type { GuardAnswer, SemanticSpec } from "../policy/types.ts";
import type { Guard } from "../semantic/guard.ts";
import type { Action, SealedDecision } from "../state/types.ts";
import { decide, steps } from "./decide.ts";
import { EndedKeys } from "./ended-keys.ts";

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

/** Parts that prepare an action. */
export type PrepareParts = Pick<InterceptParts, "guard" | "checker">;

/**
 * Makes the long checks of an action and asks the guard, if the mandates in force need that. Returns the action with the
 * answers.
 */
export async function prepareAction(
  { guard, checker }: PrepareParts,
  log: WorkspaceLog,
  action: Action,
  waiter: Pick<Waiter, "signal">,
): Promise<Action> {
  const { mayTakeLong, asksGuard } = log.needsOf(action);
  let prepared = action;
  if (mayTakeLong) prepared = { ...prepared, longAnswers: await makeLongChecks(checker, log, prepared, waiter.signal) };
  if (asksGuard) prepared = { ...prepared, answers: await askGuard(guard, log, prepared, waiter.signal) };
  return prepared;
}

/** Parts of the use-case. */
export interface InterceptParts {
  readonly logs: Pick<WorkspaceLogs, "of">;
  readonly guard: Guard;
  readonly checker: LongChecker;
  /** Default: none has called yet. */
  readonly endedKeys?: EndedKeys;
}

/**
 * Creates the use-case over the workspace logs. It makes long checks and asks the guard first, if the mandates in force need
 * that; then the log takes the steps of `decide.ts` when the action's turn has come. An ended key that keeps calling gets its
 * last refusal.
 */
export function createIntercept({ logs, guard, checker, endedKeys = new EndedKeys() }: InterceptParts): Intercept {
  const append = async ({ workspaceId, action, waiter }: InterceptCommand): Promise<SealedDecision> => {
    const log = await logs.of(workspaceId);
    const isAbandoned = (): boolean => waiter.isOver;
    const { mayTakeLong, asksGuard } = log.needsOf(action);
    if (!mayTakeLong && !asksGuard) return log.append(action, steps(action), isAbandoned);
    const prepared = await prepareAction({ guard, checker }, log, action, waiter);
    // The log may have left the memory meanwhile.
    const current = await logs.of(workspaceId);
    return current.append(prepared, steps(prepared), isAbandoned);
  };
  /** True for a repeat of a decided request: a token's last use is answered as it was, also once the token is used up. */
  const isDecided = async ({ workspaceId, action }: InterceptCommand): Promise<boolean> =>
    action.isRetryable && (await logs.of(workspaceId)).holds(action.decisionId);
  return async (command) => {
    const { keyId } = command.action;
    const repeated = endedKeys.repeat(keyId);
    if (repeated !== undefined && !(await isDecided(command))) return repeated;
    const sealed = await append(command);
    endedKeys.note(keyId, sealed);
    return sealed;
  };
}
