import type { ResetReader } from "../../policy/limit-resets.ts";
import type { Decision, ReadLimit } from "../../policy/types.ts";
import type { BudgetPots } from "./budget-pots.ts";
import type { VelocityWindows } from "./windows.ts";

/** A decided action that is not counted yet. */
export interface DecidedAction {
  readonly decision: Decision;
  /** False for an action that changes no counter. */
  readonly counts: boolean;
  /** Time of the decision, epoch milliseconds. */
  readonly nowMs: number;
}

/** The counters of a workspace, each read only where a limit needs it. */
interface Counters {
  readonly windows: VelocityWindows;
  readonly budgets: BudgetPots;
}

/** Creates the reader of the times at which the limits of a decided action have room again: for it, as it will be counted, and one more. */
export function createResetReader(counters: Counters, action: DecidedAction): ResetReader {
  return (limit) => {
    const { counter, spending } = limit;
    if (counter !== undefined) return countResetsAt(counters.windows, { ...limit, counter }, action);
    return spending === undefined ? undefined : budgetResetsAt(counters.budgets, { ...limit, spending }, action);
  };
}

function countResetsAt(
  windows: VelocityWindows,
  { counter, agentId, limit }: ReadLimit & { readonly counter: NonNullable<ReadLimit["counter"]> },
  { decision, counts, nowMs }: DecidedAction,
): number | undefined {
  const isNamed = counter.countDecisions.length === 0 || counter.countDecisions.includes(decision);
  return windows.resetsAt(counter, agentId, nowMs, { maxCount: limit, isCounted: counts && isNamed });
}

function budgetResetsAt(
  budgets: BudgetPots,
  { spending, agentId }: ReadLimit & { readonly spending: NonNullable<ReadLimit["spending"]> },
  { decision, counts, nowMs }: DecidedAction,
): number | undefined {
  const { budget, payment } = spending;
  const amount = BigInt(payment.millionths ?? 0);
  const most = BigInt(budget.maxTotal) - amount;
  if (!counts || decision !== "allow") return budgets.resetsAt(budget, agentId, nowMs, most);
  // The amount at hand is the newest: where two of it do not fit, it is the one that has to leave.
  if (most >= 0n && most < amount) return nowMs + budget.windowMs;
  return budgets.resetsAt(budget, agentId, nowMs, most - amount);
}
