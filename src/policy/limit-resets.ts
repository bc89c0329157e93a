import type { ReasonCode } from "./reason-codes.ts";
import type { CounterSpec, PolicyReason, PolicyResult, ReadLimit } from "./types.ts";

/**
 * Reads when a group has room for one more action under a limit if nothing else happens, in epoch milliseconds. Undefined if it never
 * has, and if that is not known.
 */
export type ResetReader = (limit: ReadLimit & { readonly counter: CounterSpec }) => number | undefined;

/** The part of a reason that tells which rule gave it. */
interface RuleReason {
  readonly code: ReasonCode;
  readonly mandateId?: string;
  readonly rule?: string;
}

/** Result of evaluating the mandates, and the reasons of the decision that it led to. */
export interface TimedPolicy<Reason extends RuleReason> {
  readonly policy: PolicyResult;
  readonly reasons: readonly Reason[];
}

/**
 * Adds to each limit that is reached when it has room again, and to each reason of a rule whose limit was exceeded when the rule has:
 * the latest of its counters that are reached, because one that this action fills refuses the next. MUST be called once the decision
 * is final, because a limit may count only some decisions, and before the action is counted.
 */
export function withLimitResets<Reason extends RuleReason>(
  { policy, reasons }: TimedPolicy<Reason>,
  resetsAt: ResetReader,
): TimedPolicy<Reason> {
  if (policy.collectiveLimits.every(({ remaining }) => remaining > 0)) return { policy, reasons };
  const collectiveLimits = policy.collectiveLimits.map((limit) => {
    const { counter, remaining } = limit;
    const resetsAtMs = counter === undefined || remaining > 0 ? undefined : resetsAt({ ...limit, counter });
    return resetsAtMs === undefined ? limit : { ...limit, resetsAtMs };
  });
  if (collectiveLimits.every(isWithin)) return { policy: { ...policy, collectiveLimits }, reasons };
  const reached = collectiveLimits.filter(({ remaining }) => remaining === 0);
  const timed = <R extends RuleReason>(reason: R): R => ({ ...reason, ...resetOf(reason, reached) });
  const observed = policy.observed.map((each) => ({ ...each, reasons: each.reasons.map(timed) }));
  return {
    policy: { ...policy, collectiveLimits, observed, reasons: policy.reasons.map(timed) },
    reasons: reasons.map(timed),
  };
}

/** Returns what a reason says of the limits of its rule if one was exceeded, of those that are reached; nothing for any other rule. */
function resetOf(
  { code, mandateId, rule = "" }: RuleReason,
  reached: readonly ReadLimit[],
): Pick<PolicyReason, "remaining" | "resetsAtMs"> {
  const own = reached.filter((limit) => limit.mandateId === mandateId && isPartOf(rule, limit.rule));
  if (own.every(isWithin)) return {};
  const times = own.map(({ resetsAtMs }) => resetsAtMs).filter((time) => time !== undefined);
  return {
    ...(code === "LIMIT_EXCEEDED" && { remaining: 0 }),
    ...(times.length === own.length && { resetsAtMs: Math.max(...times) }),
  };
}

/** Tests whether an action is within a limit. */
const isWithin = ({ count, limit }: ReadLimit): boolean => count <= limit;

/** Tests whether a path is that of a rule, or of a part of it. */
const isPartOf = (path: string, rule: string): boolean => path === rule || path.startsWith(`${rule}.`);
