import type { Holder } from "../async/shared-pot.ts";
import { ControlPlaneError } from "../errors.ts";
import type { WorkspaceLogs } from "../log/workspace-logs.ts";
import type { WorkspaceLog } from "../log/writer.ts";
import type { LongChecker } from "../policy/long/checker.ts";
import type { GuardAnswer, SemanticSpec } from "../policy/types.ts";
import type { Guard } from "../semantic/guard.ts";
import { type Action, isHaltedRefusal, type Outcome, type SealedDecision } from "../state/types.ts";
import { inSpan, type SpanOptions, type Tracing } from "../tracing/tracing.ts";
import { decide, steps } from "./decide.ts";
import { EndedKeys } from "./ended-keys.ts";
import type { DecisionMetrics, DecisionWire } from "./metrics.ts";

/** The caller of a decision while it waits. */
export interface Waiter {
  /** True once the caller has left. The action is then not decided, unless a batch has taken it. */
  readonly isOver: boolean;
  /** Aborts when the caller leaves. MAY be created on first use: it is needed only when the guard is asked. */
  readonly signal: AbortSignal;
}

/** One action to decide. */
export interface InterceptCommand {
  readonly workspaceId: string;
  readonly action: Action;
  readonly waiter: Waiter;
  /** Way by which the action came. */
  readonly wire: DecisionWire;
  /** `performance.now()` when the action was received, in milliseconds. */
  readonly receivedAt: number;
}

/** Decides an action: the only way to a decision. Resolves only after the decision is durable in the workspace's log. */
export type Intercept = (command: InterceptCommand) => Promise<SealedDecision>;

/** Dependencies of the use case. */
export interface InterceptParts {
  readonly logs: Pick<WorkspaceLogs, "of">;
  readonly guard: Guard;
  readonly checker: LongChecker;
  /** Default: a new one, which knows no ended key. */
  readonly endedKeys?: EndedKeys;
  /** Records every decision as a span. Default: nothing is recorded. */
  readonly tracing?: Tracing | undefined;
  /** Counts the decisions. Default: nothing counts them. */
  readonly metrics?: DecisionMetrics;
}

/**
 * Creates the use case over the workspace logs. It first runs the checks that take long and asks the guard; the log then takes
 * the steps of `decide.ts` at the action's turn. An ended key that keeps calling gets its last refusal, as does any key of a halted
 * workspace.
 */
export function createIntercept({
  logs,
  guard,
  checker,
  endedKeys = new EndedKeys(),
  tracing,
  metrics,
}: InterceptParts): Intercept {
  const append = async ({ workspaceId, action, waiter }: InterceptCommand): Promise<SealedDecision> => {
    const prepared = await prepareAction({ guard, checker }, await logs.of(workspaceId), action, waiter);
    // Looked up again: the log may have been unloaded while the action was prepared.
    const log = await logs.of(workspaceId);
    return log.append(prepared, steps(prepared), () => waiter.isOver);
  };
  /**
   * Tests whether a request repeats a decided one. The repeat of a token's last use gets the first decision, although the token
   * is used up.
   */
  const isDecided = async ({ workspaceId, action }: InterceptCommand): Promise<boolean> =>
    action.isRetryable && (await logs.of(workspaceId)).holds(action.decisionId);
  /** Tests whether the last refusal of a key still holds: the end of a key does for good, a halt until it is over. */
  const isStanding = async (refusal: SealedDecision, { workspaceId }: InterceptCommand): Promise<boolean> => {
    if (!isHaltedRefusal(refusal)) return true;
    const log = await logs.of(workspaceId);
    return (await log.caughtUp()).settings.halted === true;
  };
  const intercept: Intercept = async (command) => {
    const { workspaceId, action } = command;
    const refusal = endedKeys.refusalOf(workspaceId, action);
    if (refusal !== undefined && (await isStanding(refusal, command)) && !(await isDecided(command))) return refusal;
    const sealed = await append(command);
    endedKeys.note(workspaceId, action, sealed);
    metrics?.record(sealed, command.wire, command.receivedAt);
    return sealed;
  };
  if (tracing === undefined) return intercept;
  return (command) =>
    inSpan(
      tracing,
      "agentcontrol.decide",
      () => spanOptions(command.action),
      async (span) => {
        // A span that is not recorded names no trace that anyone could find.
        const trace = span?.isSampled === true ? span : command.action.trace;
        const sealed = await intercept({ ...command, action: { ...command.action, trace } });
        span?.set({
          "agentcontrol.decision_id": sealed.decisionId,
          "agentcontrol.decision": sealed.decision,
          "agentcontrol.decision_path": sealed.path,
          "gen_ai.agent.id": sealed.agentId,
          "gen_ai.tool.name": sealed.registeredTool,
        });
        return sealed;
      },
    );
}

/** The decision on a message that brought a trace of its own is a call from outside. */
const spanOptions = ({ trace }: Action): SpanOptions => ({
  kind: trace?.isRemote === true ? "server" : "internal",
  parent: trace,
});

/** Parts that prepare an action. */
export type PrepareParts = Pick<InterceptParts, "guard" | "checker">;

/**
 * Prepares an action for its turn, by the mandates in force. There are three cases: most actions need nothing; one with texts
 * too long to be searched at its turn has these checks made in a thread; one that a semantic rule covers has the model asked,
 * after the long checks. The log goes on meanwhile, and the answers are weighed against the state at the action's turn. A rule
 * that was published in between has no answer there: a long check counts as too long, with which a rule that blocks or escalates
 * fires; a semantic rule does what its `on_unavailable` says, by default `escalate`.
 */
export async function prepareAction(
  { guard, checker }: PrepareParts,
  log: WorkspaceLog,
  action: Action,
  { signal }: Pick<Waiter, "signal">,
): Promise<Action> {
  const { mayTakeLong, asksGuard } = log.needsOf(action);
  if (!mayTakeLong && !asksGuard) return action;
  const checked = mayTakeLong ? await withLongAnswers(checker, log, action, signal) : action;
  return asksGuard ? await withGuardAnswers(guard, log, checked, signal) : checked;
}

/**
 * Decides an action at the end of the log without appending it, to learn which answers its rules ask for. A task of the log: it
 * waits for what is in flight. Undefined if the action cannot be decided: at its turn it is refused, or answered as a repeat.
 */
function rehearse(log: WorkspaceLog, action: Action): Promise<Outcome | undefined> {
  return log.dryRun([action], (state, nowMs) => {
    try {
      return decide(state, action, nowMs, { undo: [] });
    } catch (error) {
      if (error instanceof ControlPlaneError) return undefined;
      throw error;
    }
  });
}

const holderOf = ({ workspaceId }: WorkspaceLog, { agentId }: Action): Holder => ({ workspaceId, agentId });

/** Adds the results of the checks that would take too long at the action's turn, such as patterns over a long text. */
async function withLongAnswers(
  checker: LongChecker,
  log: WorkspaceLog,
  action: Action,
  signal: AbortSignal,
): Promise<Action> {
  const policy = (await rehearse(log, action))?.policy;
  if (policy === undefined || policy.missingChecks.length === 0) return action;
  return { ...action, longAnswers: await checker.run(holderOf(log, action), policy.missingChecks, signal) };
}

/**
 * Adds the guard's answers to the questions of the semantic rules that cover the action, by question: rules with the same
 * question share an answer. If deterministic rules block the action, the guard is not asked.
 */
async function withGuardAnswers(guard: Guard, log: WorkspaceLog, action: Action, signal: AbortSignal): Promise<Action> {
  const rehearsed = await rehearse(log, action);
  if (rehearsed === undefined) return action;
  const { policy, toolName } = rehearsed;
  const questions = new Map(policy?.guards.map(({ spec }) => [spec.key, spec]));
  // The tool that the action calls, even if only its metadata or its type names it.
  const asked = { ...action, tool: toolName };
  const holder = holderOf(log, action);
  const ask = async ({ key, prompt, timeoutMs }: SemanticSpec): Promise<[string, GuardAnswer]> => {
    return [key, await guard.judge({ rule: prompt, action: asked, holder, timeoutMs, trace: action.trace }, signal)];
  };
  return { ...action, answers: new Map(await Promise.all([...questions.values()].map(ask))) };
}
