import type { JsonObject } from "@bufbuild/protobuf";

/** Draws of one caller; the same for the same seed. */
export interface Draws {
  below(bound: number): number;
  chance(percent: number): boolean;
  pick<T>(list: readonly T[]): T;
}

/** Draws over a generator of whole numbers below a bound. */
export function drawsFrom(below: (bound: number) => number): Draws {
  return {
    below,
    chance: (percent) => below(100) < percent,
    pick: <T>(list: readonly T[]) => list[below(list.length)] as T,
  };
}

/** The action types that callers attempt. */
export const ACTION_TYPES = ["pay", "pay.send", "Pay.Refund", "read", "write", "delete.file"];

/** Few of them block, so that trust moves and does not end at 0. */
const DECISIONS = ["allow", "allow", "escalate", "block"];
/** Seconds. The short ones are loaded from the mirror soon after Redis began to record; the long one never is. */
const WINDOWS = [1, 1, 1, 1, 2, 2, 2, 3, 3, 3_600];
const PATTERNS = ["pay*", "pay.send", "pay.refund", "read", "write", "delete*", "*"];

function groupOf({ chance, pick }: Draws, departments: readonly string[]): JsonObject {
  const scope = pick(["agent", "department", "workspace"]);
  return {
    scope,
    window_seconds: pick(WINDOWS),
    ...(scope === "department" && chance(40) ? { department_id: pick(departments) } : {}),
    ...(chance(30) ? { count_decisions: [pick(DECISIONS)] } : {}),
  };
}

function velocityRule(draws: Draws, departments: readonly string[]): JsonObject {
  const { below, pick } = draws;
  const match_action_types = Array.from({ length: 1 + below(3) }, () => pick(PATTERNS));
  const counted = { match_action_types, max_count: pick([3, 20, 150]) + below(50) };
  const conditions = { mode: "velocity", ...counted, ...groupOf(draws, departments) };
  return { type: "sequence", decision: pick(DECISIONS), conditions };
}

/** The tools that pay. */
export const PAYING_TOOLS = ["bank.pay", "bank.refund"];
/** Schema of their arguments. */
export const PAYING_SCHEMA: JsonObject = {
  type: "object",
  properties: { amount: { type: "number" }, currency: { type: "string" } },
};

/** A budget that one payment of four exceeds by itself. */
export const SMALL_BUDGET: JsonObject = {
  type: "sequence",
  decision: "escalate",
  conditions: {
    mode: "budget",
    sums: PAYING_TOOLS.map((tool) => ({ tool, field: "amount" })),
    currency: "EUR",
    max_total: 15,
    window_seconds: 2,
  },
};

function budgetRule(draws: Draws, departments: readonly string[]): JsonObject {
  const { below, pick } = draws;
  const tools = pick([PAYING_TOOLS, PAYING_TOOLS.slice(0, 1), ["Bank.Refund"]]);
  const added = { sums: tools.map((tool) => ({ tool, field: "amount" })), currency: pick(["EUR", " eur"]) };
  const { count_decisions: _, ...group } = groupOf(draws, departments);
  const conditions = {
    mode: "budget",
    ...added,
    max_total: (pick([500, 5_000, 50_000]) + below(500)) / 100,
    ...group,
    window_seconds: pick([1, 3, 3_600]),
  };
  return { type: "sequence", decision: pick(["block", "escalate"]), conditions };
}

function orderedRule(draws: Draws, departments: readonly string[]): JsonObject {
  const { below, pick } = draws;
  const steps = Array.from({ length: 2 + below(3) }, () => pick(["pay*", "pay.send", "read", "write", "delete*"]));
  const conditions = { mode: "ordered", steps, ...groupOf(draws, departments) };
  return { type: "sequence", decision: pick(DECISIONS), conditions };
}

function scheduleRule({ chance, pick }: Draws): JsonObject {
  const hours = { from: pick(["00:00", "08:30", "17:00"]), to: pick(["06:15", "12:00", "24:00"]) };
  const place = { time_zone: pick(["UTC", "America/New_York", "Asia/Kathmandu"]), outside: chance(30) };
  const conditions = { ...hours, ...place, match_action_types: [pick(["write", "delete*"])] };
  return { type: "schedule", decision: pick(DECISIONS), conditions };
}

/** A random rule. */
export function randomRule(draws: Draws, departments: readonly string[]): JsonObject {
  const { below, chance, pick } = draws;
  if (chance(45)) return velocityRule(draws, departments);
  if (chance(40)) return budgetRule(draws, departments);
  if (chance(40)) return orderedRule(draws, departments);
  if (chance(25)) return scheduleRule(draws);
  const match_action_types = [pick(["delete*", "write", "pay.refund"])];
  if (chance(50)) return { type: "action", decision: pick(DECISIONS), conditions: { match_action_types } };
  return { type: "trust", decision: pick(DECISIONS), conditions: { below: 30 + below(40), match_action_types } };
}

/** Registration of an agent: mostly without restrictions. */
export function randomRegistration({ chance }: Draws, name: string): JsonObject {
  if (chance(75)) return { name };
  return { name, permissions: { denied_action_types: ["delete*"], allowed_action_types: ["pay*"] } };
}

/** A random mandate without its name. */
export function randomMandate(draws: Draws, agents: readonly string[], departments: readonly string[]): JsonObject {
  const { below, chance, pick } = draws;
  const rules = Array.from({ length: 1 + below(2) }, () => randomRule(draws, departments));
  const mode = chance(20) ? "observe" : "enforce";
  const scope = chance(20)
    ? { scope: "agent", agent_id: pick(agents) }
    : chance(20)
      ? { scope: "department", department_id: pick(departments) }
      : {};
  return { rules, mode, priority: below(3), ...scope };
}
