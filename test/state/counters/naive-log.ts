import type { CounterSpec } from "../../../src/policy/types.ts";
import type { History, HistoryCount, HistoryEntry, MissingHistory } from "../../../src/state/counters/log-history.ts";
import type { Membership } from "../../../src/state/counters/windows.ts";

/** Agents of the tests' workspace. */
export const AGENTS = ["a", "b", "c", "d"];

/** Departments whose members tests may change, by agent. */
export type Departments = Record<string, readonly string[]>;

/** Departments of each agent at the start. */
export const DEPARTMENTS: Departments = { a: ["x"], b: ["x", "y"], c: ["y"], d: [] };

/** The membership that departments make. */
export function membershipOf(departments: Departments): Membership {
  return {
    agentCount: () => AGENTS.length,
    departmentsOf: (agentId) => departments[agentId] ?? [],
    membersOfAny: (ids) =>
      new Set(AGENTS.filter((agentId) => (departments[agentId] ?? []).some((department) => ids.includes(department)))),
  };
}

/** A counter over `pay*` that counts an agent's actions of the last second, with what a test changes of it. */
export function counterSpec(change: Partial<CounterSpec> = {}): CounterSpec {
  return {
    key: "pay*",
    patterns: ["pay*"],
    excluded: [],
    countDecisions: [],
    windowMs: 1000,
    scope: "agent",
    ...change,
  };
}

/**
 * Counts straight from the definition: every matching attempt by a member of the group, or on behalf of one, later than now minus the
 * window, plus this one.
 */
export function naiveCount(
  log: readonly HistoryEntry[],
  counter: CounterSpec,
  membership: Membership,
  agentId: string,
  now: number,
): number {
  const own = membership.departmentsOf(agentId);
  const departments = counter.departmentId === undefined ? own : [counter.departmentId];
  const isMember = (other: string): boolean => {
    if (counter.scope === "workspace") return true;
    if (counter.scope === "agent" || departments.length === 0) return other === agentId;
    return membership.membersOfAny(departments).has(other);
  };
  const counted = log.filter(
    (entry) =>
      [entry.agentId, entry.principalId ?? entry.agentId].some(isMember) &&
      entry.actionType.startsWith("pay") &&
      !counter.excluded.includes(entry.actionType) &&
      entry.at > now - counter.windowMs &&
      (counter.countDecisions.length === 0 || counter.countDecisions.includes(entry.decision)),
  );
  return counted.length + 1;
}

/** Lists the times at which the count of a group may fall: the present, and each end of an action in the log. */
const momentsOf = (log: readonly HistoryEntry[], { windowMs }: CounterSpec, now: number): readonly number[] =>
  [...new Set([now, ...log.map(({ at }) => at + windowMs)])].filter((moment) => moment >= now).sort((a, b) => a - b);

/**
 * Finds the first time from `now` on at which one more action would not exceed `maxCount`; undefined if there is none. The action at
 * hand is in the log, if it counts.
 */
export function naiveReset(
  log: readonly HistoryEntry[],
  counter: CounterSpec,
  membership: Membership,
  agentId: string,
  { now, maxCount }: { readonly now: number; readonly maxCount: number },
): number | undefined {
  const fits = (moment: number): boolean => naiveCount(log, counter, membership, agentId, moment) <= maxCount;
  return momentsOf(log, counter, now).find(fits);
}

function countsOf(entries: readonly HistoryEntry[]): HistoryCount[] {
  const kindOf = ({ agentId, principalId = "", actionType, decision }: HistoryEntry): string =>
    [agentId, principalId, actionType, decision].join(" ");
  return [...Map.groupBy(entries, kindOf).values()].flatMap(([first, ...others]) => {
    if (first === undefined) return [];
    const { at: _, ...kind } = first;
    return [{ ...kind, count: 1 + others.length }];
  });
}

/** Reads from a list what the ledger reads from its table, `page` entries at once. */
export function naiveHistory(log: readonly HistoryEntry[], missing: MissingHistory, page: number): History {
  const { from, before, after } = missing;
  const later = log.findIndex(({ at }) => at > after);
  const first = Math.max(from ?? 0, later < 0 ? before : Math.min(later, before));
  const nextIndex = Math.min(before, first + page);
  return {
    expired: from === undefined ? [] : countsOf(log.slice(from, first)),
    entries: log.slice(first, nextIndex),
    nextIndex,
    rest: from === undefined ? countsOf(log.slice(nextIndex, before)) : [],
    source: "decision_log",
  };
}
