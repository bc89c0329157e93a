/** Status of an allowed action; the words of the proto enum `OutcomeStatus`. */
export type OutcomeStatus = "succeeded" | "failed" | "cancelled" | "pending" | "unknown";

/** Statuses with which an amount counts in a budget that names none. */
const BUDGET_DEFAULT: readonly OutcomeStatus[] = ["pending", "succeeded", "unknown"];

/** Amounts of an action, in millionths. */
export interface HeldAmount {
  readonly reserved: number;
  readonly captured: number;
}

/**
 * Returns what counts of an amount with an outcome: what was paid of one that succeeded, of any other what was reserved, if its status
 * counts. `paid`: millionths that a success names. `outcomes`: default `pending`, `succeeded` and `unknown`.
 */
export function heldAmount(
  status: OutcomeStatus,
  millionths: number,
  paid: number | undefined,
  outcomes: readonly OutcomeStatus[] = BUDGET_DEFAULT,
): HeldAmount {
  if (!outcomes.includes(status)) return { reserved: 0, captured: 0 };
  if (status === "succeeded") return { reserved: 0, captured: paid ?? millionths };
  return { reserved: millionths, captured: 0 };
}

/** Tests whether statuses are those of a budget that names none. Each MUST be given once. */
export const areDefaultOutcomes = (outcomes: readonly OutcomeStatus[]): boolean =>
  outcomes.length === BUDGET_DEFAULT.length && BUDGET_DEFAULT.every((status) => outcomes.includes(status));
