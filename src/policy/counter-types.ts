import type { Decision, ScopeWord } from "./types.ts";

/** Which counter a velocity rule reads. One object for the life of the compiled rule, so it may key a `WeakMap`. */
export interface CounterSpec {
  /** Names the matcher, equal for equal `patterns` and `countDecisions` in any order; scope and window are not in it. */
  readonly key: string;
  /** Normalised, sorted, without duplicates; exact or with a trailing `*`. */
  readonly patterns: readonly string[];
  /** Counts only actions with one of these decisions, sorted; empty counts every attempt. */
  readonly countDecisions: readonly Decision[];
  /** Length of the sliding window in milliseconds. */
  readonly windowMs: number;
  readonly scope: ScopeWord;
  /** With scope `department`: this one instead of those of the acting agent. */
  readonly departmentId?: string;
}

/** The state of one counter, this action included. */
export interface CounterReading {
  /** Agent id, department ids joined by `+`, or workspace id. */
  readonly group: string;
  /** How many agents the group has. */
  readonly members: number;
  /** Matching actions in the window, this one included. */
  readonly count: number;
  /** Where the history came from. */
  readonly source: "decision_log" | "mirror";
}

/** A counter as a decision saw it; the fields of the message `CollectiveLimit`. */
export interface LimitState {
  readonly scope: ScopeWord;
  readonly group: string;
  readonly members: number;
  readonly count: number;
  readonly limit: number;
  /** Seconds. */
  readonly window: number;
  /** max(0, limit - count). */
  readonly remaining: number;
  readonly source: CounterReading["source"];
  readonly mandateId: string;
  /** Path of the rule in the mandate: `rules[0]`. */
  readonly rule: string;
}

/** The velocity part of a compiled rule. */
export interface CompiledVelocity {
  readonly counter: CounterSpec;
  /** The rule fires when the count is above this. */
  readonly maxCount: number;
  readonly windowSeconds: number;
}
