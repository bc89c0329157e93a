import type { CounterReading, CounterSpec } from "../../policy/types.ts";
import type { BudgetPots } from "./budget-pots.ts";
import type { VelocityWindows } from "./windows.ts";

/** The counters of a workspace, each read only where a limit needs it. */
export interface Counters {
  readonly windows: VelocityWindows;
  readonly budgets: BudgetPots;
}

/**
 * Reads the counter of a velocity rule for the group of an agent, including the action at hand: from its window, or from the pot that has
 * the actions whose outcomes count. `now` MUST NOT go back.
 */
export function readCounter(counters: Counters, spec: CounterSpec, agentId: string, now: number): CounterReading {
  const { pot, windowMs } = spec;
  if (pot === undefined) return counters.windows.read(spec, agentId, now);
  const { group, members, reserved, captured } = counters.budgets.read({ pot, windowMs }, agentId, now);
  return { group, members, count: Number(reserved + captured) + 1, source: "decision_log" };
}
