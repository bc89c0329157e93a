import { momentText } from "../retry/retry-after.ts";
import { isPaymentFault, totalOf } from "./budget.ts";
import { amountFrom, amountText } from "./decimal.ts";
import type { ReasonCode } from "./reason-codes.ts";
import type { PolicyReason, PolicyResult, ReadLimit } from "./types.ts";

/**
 * Reads when a group has room for one more action under a limit if nothing else happens, in epoch milliseconds: under a budget for one of
 * the same amount. Undefined if it never has, and if that is not known.
 */
export type ResetReader = (limit: ReadLimit) => number | undefined;

/** The part of a reason that tells which rule gave it. */
interface RuleReason {
  readonly code: ReasonCode;
  readonly mandateId?: string;
  readonly rule?: string;
  readonly wouldPass?: string;
}

/** Result of evaluating the mandates, and the reasons of the decision that it led to. */
export interface TimedPolicy<Reason extends RuleReason> {
  readonly policy: PolicyResult;
  readonly reasons: readonly Reason[];
}

/**
 * Adds to each limit that is reached when it has room again, and to each reason of a rule whose limit was exceeded by how much, and when
 * the rule has room: the latest of its limits that are reached, because one that this action fills refuses the next. MUST be called once
 * the decision is final, because a limit may count only some decisions, and before the action is counted. `nowMs`: its time.
 */
export function withLimitResets<Reason extends RuleReason>(
  { policy, reasons }: TimedPolicy<Reason>,
  nowMs: number,
  resetsAt: ResetReader,
): TimedPolicy<Reason> {
  if (!policy.collectiveLimits.some(isReached)) return { policy, reasons };
  const collectiveLimits = policy.collectiveLimits.map((limit) => {
    const resetsAtMs = isReached(limit) ? resetsAt(limit) : undefined;
    return resetsAtMs === undefined ? limit : { ...limit, resetsAtMs };
  });
  if (collectiveLimits.every(isWithin)) return { policy: { ...policy, collectiveLimits }, reasons };
  const reached = collectiveLimits.filter(isReached);
  const timed = <R extends RuleReason>(reason: R): R => ({ ...reason, ...resetOf(reason, reached, nowMs) });
  const observed = policy.observed.map((each) => ({ ...each, reasons: each.reasons.map(timed) }));
  return {
    policy: { ...policy, collectiveLimits, observed, reasons: policy.reasons.map(timed) },
    reasons: reasons.map(timed),
  };
}

/** Returns what a reason says of the limits of its rule if one was exceeded, of those that are reached; nothing for any other rule. */
function resetOf(
  { code, mandateId, rule = "", wouldPass }: RuleReason,
  reached: readonly ReadLimit[],
  nowMs: number,
): Pick<PolicyReason, "remaining" | "over" | "resetsAtMs" | "wouldPass"> {
  const own = reached.filter((limit) => limit.mandateId === mandateId && isPartOf(rule, limit.rule));
  // An amount that cannot be added never fits.
  if (own.every(isWithin) || isPaymentFault(code)) return {};
  const times = own.map(({ resetsAtMs }) => resetsAtMs).filter((time) => time !== undefined);
  const resetsAtMs = times.length === own.length ? Math.max(...times) : undefined;
  return {
    ...(code === "LIMIT_EXCEEDED" && { remaining: 0, over: Math.max(...own.map(({ count, limit }) => count - limit)) }),
    ...(code === "BUDGET_EXCEEDED" && { ...amountsOf(own), ...fitsFrom(own, wouldPass, resetsAtMs, nowMs) }),
    ...(resetsAtMs !== undefined && { resetsAtMs }),
  };
}

/** Returns what fits all pots of a budget, and by how much the action exceeds the fullest of them. */
function amountsOf(own: readonly ReadLimit[]): Required<Pick<PolicyReason, "remaining" | "over">> {
  const over = own.map(excessOf).reduce((most, each) => (each > most ? each : most), 0n);
  const left = own
    .flatMap(({ spending }) => (spending === undefined ? [] : [BigInt(spending.budget.maxTotal) - spending.past]))
    .reduce((least, each) => (each < least ? each : least));
  return { remaining: amountFrom(left < 0n ? 0n : left), over: amountFrom(over) };
}

/** Adds to what fits a budget now when the amount of the action fits: `8.20 EUR still fit; 100 EUR from 14:05:00 UTC`. */
function fitsFrom(
  [limit]: readonly ReadLimit[],
  wouldPass: string | undefined,
  resetsAtMs: number | undefined,
  nowMs: number,
): Pick<PolicyReason, "wouldPass"> {
  if (wouldPass === undefined || limit?.spending === undefined || resetsAtMs === undefined) return {};
  const { budget, payment } = limit.spending;
  const amount = `${amountText(BigInt(payment.millionths ?? 0))} ${budget.currency}`;
  return { wouldPass: `${wouldPass}; ${amount} from ${momentText(resetsAtMs, nowMs)}` };
}

/** Tests that one more action, under a budget one of the same amount, exceeds a limit. */
function isReached({ spending, remaining }: ReadLimit): boolean {
  if (spending === undefined) return remaining === 0;
  return totalOf(spending) + BigInt(spending.payment.millionths ?? 0) > BigInt(spending.budget.maxTotal);
}

/** Returns by how many millionths an action exceeds a budget; below 0 if it does not. */
const excessOf = ({ spending }: ReadLimit): bigint =>
  spending === undefined ? 0n : totalOf(spending) - BigInt(spending.budget.maxTotal);

/** Tests whether an action is within a limit. */
const isWithin = (limit: ReadLimit): boolean =>
  limit.spending === undefined ? limit.count <= limit.limit : excessOf(limit) <= 0n;

/** Tests whether a path is that of a rule, or of a part of it. */
const isPartOf = (path: string, rule: string): boolean => path === rule || path.startsWith(`${rule}.`);
