import { naiveBudgetResetsAt } from "../../src/dryrun/naive/naive-limits.ts";
import type { NaiveAgent, NaiveBody, NaiveRule, NaiveState, Word } from "./naive-log.ts";

/*
 * Budgets, claims and outcomes of the naive model, as design-2 §14 says them: amounts in a list, whole millionths, nothing added ahead.
 */

/** Amount that an allowed action reserved in a pot, as it stands. */
interface NaiveAmount {
  readonly pot: string;
  readonly asked: number;
  reserved: number;
  captured: number;
}

/** Allowed action, with what followed it. */
export interface NaiveAllowed {
  readonly agentId: string;
  readonly principalId: string | undefined;
  /** Epoch milliseconds. */
  readonly at: number;
  readonly amounts: readonly NaiveAmount[];
  claimId: string | undefined;
  /** Time from which the outcome becomes unknown; undefined if it is not tracked. */
  dueAt: number | undefined;
  status: string | undefined;
}

/** A claim or an outcome as sealed. */
export interface SealedFollowUp {
  readonly at: string;
  readonly decision_id: string;
  readonly claim_id?: string;
  readonly outcome_due_at?: string;
  readonly status?: string;
  readonly amount?: number;
  readonly source?: string;
  readonly settles?: boolean;
}

const MILLION = 1_000_000;

export const isBudget = ({ conditions }: NaiveRule): boolean => conditions.mode === "SEQUENCE_MODE_BUDGET";

const millionthsOf = (amount: number): number => Math.round(amount * MILLION);

/** Pot of a budget: everything that says which amounts are added. */
function potOf({ conditions }: NaiveRule): string {
  const { sums = [], currency = "", scope = "SCOPE_AGENT", department_id = "" } = conditions;
  const added = [...new Set(sums.map(({ tool, field }) => `${tool.toLowerCase()} ${field}`))].sort();
  return JSON.stringify([added, currency.trim().toLowerCase(), scope, department_id]);
}

/** Amount that an action pays into a budget, in millionths; undefined if the budget adds no amount of its tool. The model knows one currency. */
export function paidInto({ conditions }: NaiveRule, { action }: NaiveBody): number | undefined {
  const sum = (conditions.sums ?? []).find(({ tool }) => tool.toLowerCase() === action.tool?.toLowerCase());
  const args = (action.metadata?.arguments ?? action.metadata) as Readonly<Record<string, number>> | undefined;
  return sum === undefined ? undefined : millionthsOf(args?.[sum.field] ?? Number.NaN);
}

/** Sums of the pot of a budget for a group, with the action at hand, as a receipt shows them. */
export function budgetOf(
  rule: NaiveRule,
  { allowed }: NaiveState,
  isOfGroup: (past: Pick<NaiveAllowed, "agentId" | "principalId">) => boolean,
  now: number,
  paid: number,
) {
  const { max_total = 0, currency = "", window_seconds } = rule.conditions;
  const since = now - Number(window_seconds) * 1_000;
  const inside = [...allowed.values()].filter((each) => each.at > since && isOfGroup(each));
  const pot = potOf(rule);
  const amounts = inside.flatMap(({ at, amounts: own }) =>
    own.filter((each) => each.pot === pot).map((each) => ({ ...each, at })),
  );
  const reserved = amounts.reduce((sum, each) => sum + each.reserved, paid);
  const captured = amounts.reduce((sum, each) => sum + each.captured, 0);
  const [total, limit] = [reserved + captured, millionthsOf(max_total)];
  const told = { limit, total, reserved, captured, remaining: Math.max(0, limit - total) };
  const inUnits = Object.entries(told).map(([name, millionths]) => [name, millionths / MILLION]);
  return {
    isOver: total > limit,
    budget: { currency: currency.trim().toUpperCase(), ...(Object.fromEntries(inUnits) as typeof told) },
    amounts,
    paid,
  };
}

/** When the amount of an action fits a budget again, shown where it would not fit a second time. */
export function budgetResetsAt(
  { conditions }: NaiveRule,
  { budget, amounts, paid }: Pick<ReturnType<typeof budgetOf>, "budget" | "amounts" | "paid">,
  decision: Word,
  now: number,
): string | undefined {
  const [maxTotal, own] = [millionthsOf(budget.limit), { atMs: now, millionths: BigInt(paid) }];
  if (millionthsOf(budget.total) + paid <= maxTotal) return undefined;
  const past = amounts.map(({ at, reserved, captured }) => ({ atMs: at, millionths: BigInt(reserved + captured) }));
  const windowMs = Number(conditions.window_seconds) * 1_000;
  const all = { maxTotal: BigInt(maxTotal), windowMs, amounts: decision === "allow" ? [...past, own] : past };
  const resets = naiveBudgetResetsAt(all, own.millionths, now);
  return resets === undefined ? undefined : new Date(resets).toISOString();
}

/** Amounts that an action reserves if it is allowed: one in every pot in force that adds amounts of its tool, whoever the pot is for. */
function amountsOf({ mandates }: NaiveState, body: NaiveBody): readonly NaiveAmount[] {
  const rules = [...mandates.values()].flatMap(({ definition }) => definition.rules).filter(isBudget);
  const pots = new Map(rules.map((rule) => [potOf(rule), paidInto(rule, body)]));
  return [...pots].flatMap(([pot, asked]) =>
    asked === undefined ? [] : [{ pot, asked, reserved: asked, captured: 0 }],
  );
}

/** What the entry of a decision says of budgets, claim and outcome. Claims come from the request, which the model does not see. */
export function trackedOf(state: NaiveState, body: NaiveBody, decision: Word, isFree: boolean) {
  const reserved = decision === "allow" && !isFree ? amountsOf(state, body).map(({ asked }) => asked) : [];
  const isTracked = decision === "allow" && (reserved.length > 0 || body.claim_id !== undefined);
  const dueAt = Date.parse(body.at) + state.settings.outcome_timeout_seconds * 1_000;
  return { reserved, dueAt: isTracked ? new Date(dueAt).toISOString() : undefined };
}

/** Folds an allowed action. */
export function foldAllowed(state: NaiveState, body: NaiveBody, principalId: string | undefined): void {
  const amounts = amountsOf(state, body);
  const dueAt = body.outcome_due_at === undefined ? undefined : Date.parse(body.outcome_due_at);
  const known = { agentId: body.action.agent_id, principalId, at: Date.parse(body.at), amounts };
  state.allowed.set(body.decision_id, { ...known, claimId: body.claim_id, dueAt, status: undefined });
}

/** Folds a claim. Throws for one that the design refuses. */
export function foldClaim(state: NaiveState, claim: SealedFollowUp): void {
  const allowed = state.allowed.get(claim.decision_id);
  const at = Date.parse(claim.at);
  const timeout = state.settings.outcome_timeout_seconds * 1_000;
  const statusOf = (agentId: string): string => (state.agents.get(agentId) as NaiveAgent).status;
  const isRight =
    allowed !== undefined &&
    allowed.claimId === undefined &&
    allowed.status === undefined &&
    at < (allowed.dueAt ?? allowed.at + timeout) &&
    statusOf(allowed.agentId) === "active" &&
    (allowed.principalId === undefined || statusOf(allowed.principalId) !== "revoked");
  if (!isRight || Date.parse(claim.outcome_due_at ?? "") !== at + timeout)
    throw new Error(`${claim.decision_id} is claimed by ${claim.claim_id} though it is ${JSON.stringify(allowed)}`);
  allowed.claimId = claim.claim_id;
  allowed.dueAt = at + timeout;
}

/** Folds an outcome. Throws for one that the design refuses. */
export function foldOutcome({ allowed: all }: NaiveState, outcome: SealedFollowUp): void {
  const { decision_id, status = "", source, settles, amount } = outcome;
  const allowed = all.get(decision_id);
  const isLate = (allowed?.dueAt ?? Number.POSITIVE_INFINITY) <= Date.parse(outcome.at);
  const isRight =
    allowed !== undefined &&
    (settles === true ? allowed.status === "unknown" && source === "operator" : allowed.status === undefined) &&
    (status === "unknown" ? isLate && source === "timeout" : source !== "timeout");
  if (!isRight) throw new Error(`${decision_id} is ${status} by ${source} though it is ${JSON.stringify(allowed)}`);
  allowed.status = status;
  if (status === "unknown") return;
  for (const each of allowed.amounts) {
    each.reserved = 0;
    if (status === "succeeded") each.captured = amount === undefined ? each.asked : millionthsOf(amount);
  }
}
