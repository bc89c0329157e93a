import type { PotSpec } from "../../policy/budget.ts";
import type { ResetReader } from "../../policy/limit-resets.ts";
import type { Decision, ReadLimit } from "../../policy/types.ts";
import type { BudgetPots } from "./budget-pots.ts";
import type { Counters } from "./read-counter.ts";

/** A decided action that is not counted yet. */
export interface DecidedAction {
  readonly decision: Decision;
  /** False for an action that changes no counter. */
  readonly counts: boolean;
  /** Time of the decision, epoch milliseconds. */
  readonly nowMs: number;
}

/** Creates the reader of the times at which the limits of a decided action have room again: for it, as it will be counted, and one more. */
export function createResetReader(counters: Counters, action: DecidedAction): ResetReader {
  return (limit) => {
    const { counter, spending } = limit;
    if (counter !== undefined) return countResetsAt(counters, { ...limit, counter }, action);
    return spending === undefined ? undefined : budgetResetsAt(counters.budgets, { ...limit, spending }, action);
  };
}

function countResetsAt(
  counters: Counters,
  { counter, agentId, limit }: ReadLimit & { readonly counter: NonNullable<ReadLimit["counter"]> },
  { decision, counts, nowMs }: DecidedAction,
): number | undefined {
  const isNamed = counter.countDecisions.length === 0 || counter.countDecisions.includes(decision);
  const { pot, windowMs } = counter;
  const isCounted = counts && isNamed && countsPending(pot);
  if (pot === undefined) return counters.windows.resetsAt(counter, agentId, nowMs, { maxCount: limit, isCounted });
  // The action at hand is the newest: of a limit of 1 it is the one that has to leave.
  if (isCounted && limit === 1) return nowMs + windowMs;
  return counters.budgets.resetsAt({ pot, windowMs }, agentId, nowMs, BigInt(limit) - (isCounted ? 2n : 1n));
}

function budgetResetsAt(
  budgets: BudgetPots,
  { spending, agentId }: ReadLimit & { readonly spending: NonNullable<ReadLimit["spending"]> },
  { decision, counts, nowMs }: DecidedAction,
): number | undefined {
  const { budget, payment } = spending;
  const amount = BigInt(payment.millionths ?? 0);
  const most = BigInt(budget.maxTotal) - amount;
  if (!counts || decision !== "allow" || !countsPending(budget.pot))
    return budgets.resetsAt(budget, agentId, nowMs, most);
  // The amount at hand is the newest: where two of it do not fit, it is the one that has to leave.
  if (most >= 0n && most < amount) return nowMs + budget.windowMs;
  return budgets.resetsAt(budget, agentId, nowMs, most - amount);
}

const countsPending = (pot: PotSpec | undefined): boolean => pot?.outcomes?.includes("pending") ?? true;
