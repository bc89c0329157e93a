import type { Decision, ScopeWord } from "./types.ts";

/** Which sequence an ordered rule looks for. One object for the life of the compiled rule. */
export interface OrderedSpec {
  /** Equal for equal `steps`, `countDecisions` and `scope`; department and window are not in it. */
  readonly key: string;
  /** Normalised patterns in their order, 2 to 20. The action at hand is the last of them. */
  readonly steps: readonly string[];
  /** Past actions count only with one of these decisions, sorted; empty counts every attempt. */
  readonly countDecisions: readonly Decision[];
  /** Length of the sliding window in milliseconds. */
  readonly windowMs: number;
  readonly scope: ScopeWord;
  /** With scope `department`: this one instead of those of the acting agent. */
  readonly departmentId?: string;
}
