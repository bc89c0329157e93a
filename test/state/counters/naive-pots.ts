import type { BudgetWindow } from "../../../src/policy/budget.ts";
import type { Amounts, MissingAmounts, PotAmount, PotSum } from "../../../src/state/counters/budget-pots.ts";
import type { Membership } from "../../../src/state/counters/windows.ts";

/** An amount in the log of a test: what a decision reserved in a pot. */
export interface LoggedAmount extends PotAmount {
  readonly pot: string;
}

/** A budget over the amounts of `pay` in EUR, with what a test changes of it. */
export function budgetOf(
  key: string,
  change: Partial<BudgetWindow["pot"]> = {},
  windowMs = 1_000,
): BudgetWindow & { readonly pot: { readonly key: string } } {
  const sum = {
    tool: "pay",
    field: "amount",
    steps: ["amount"],
    holder: 0,
    currencies: ["currency"],
    isInteger: false,
  };
  return { pot: { key, sums: [sum], currency: "eur", scope: "agent", ...change }, windowMs };
}

/** Adds straight from the definition: each amount of the pot by a member of the group, or on behalf of one, later than now minus the window. */
export function naiveTotal(
  log: readonly LoggedAmount[],
  { pot, windowMs }: BudgetWindow,
  membership: Membership,
  agentId: string,
  now: number,
): { readonly reserved: bigint; readonly captured: bigint } {
  const own = membership.departmentsOf(agentId);
  const departments = pot.departmentId === undefined ? own : [pot.departmentId];
  const isMember = (other: string): boolean => {
    if (pot.scope === "workspace") return true;
    if (pot.scope === "agent" || departments.length === 0) return other === agentId;
    return membership.membersOfAny(departments).has(other);
  };
  let [reserved, captured] = [0n, 0n];
  for (const amount of log) {
    const isCounted = amount.pot === pot.key && amount.at > now - windowMs && amount.at <= now;
    if (!isCounted || ![amount.agentId, amount.principalId ?? amount.agentId].some(isMember)) continue;
    reserved += BigInt(amount.reserved);
    captured += BigInt(amount.captured);
  }
  return { reserved, captured };
}

/** Finds straight from the definition when a total is `most` at most: now, or at one of the times at which an amount leaves. */
export function naivePotResetsAt(
  log: readonly LoggedAmount[],
  budget: BudgetWindow,
  membership: Membership,
  agentId: string,
  now: number,
  most: bigint,
): number | undefined {
  const times = [now, ...log.filter(({ at }) => at <= now).map(({ at }) => at + budget.windowMs)];
  const past = log.filter(({ at }) => at <= now);
  return times
    .filter((time) => time >= now)
    .sort((a, b) => a - b)
    .find((time) => {
      const { reserved, captured } = naiveTotal(past, budget, membership, agentId, time);
      return reserved + captured <= most;
    });
}

/** Reads from a list what the store reads from its table, about `page` amounts at once, of each time all or none. */
export function naiveAmounts(
  log: readonly LoggedAmount[],
  { pot, from, before }: MissingAmounts,
  lastAt: number,
  page: number,
): Amounts {
  const own = log.filter((each) => each.pot === pot && each.at >= from && each.at < (before ?? Infinity));
  const stop = before ?? lastAt;
  const end = own[page - 1]?.at;
  if (end === undefined || end + 1 >= stop) return { oldest: own, left: undefined, rest: [], newest: [] };
  const left = { from: end + 1, before: stop };
  const oldest = own.filter(({ at }) => at <= end);
  if (before !== undefined) return { oldest, left, rest: [], newest: [] };
  const between = own.filter(({ at }) => at > end && at < stop);
  return { oldest, left, rest: sumsOf(between), newest: own.filter(({ at }) => at >= stop) };
}

function sumsOf(amounts: readonly PotAmount[]): PotSum[] {
  return [...Map.groupBy(amounts, ({ agentId, principalId = "" }) => `${agentId} ${principalId}`).values()].flatMap(
    (own) => {
      const [first] = own;
      if (first === undefined) return [];
      const sum = (member: "reserved" | "captured") => own.reduce((total, each) => total + BigInt(each[member]), 0n);
      const { agentId, principalId } = first;
      return [{ agentId, principalId, reserved: sum("reserved"), captured: sum("captured") }];
    },
  );
}
