import type { Outcome } from "../state/types.ts";
import { decideInTurn } from "./decide-in-turn.ts";
import type { DryRuns, Question } from "./dry-runs.ts";
import { type NearestAllow, nearestAllow } from "./nearest-allow.ts";
import { withSeen } from "./supposed-knowledge.ts";
import { type Trace, trace } from "./trace.ts";

/** Outcome of one action, with its reasons. */
export interface Probe {
  readonly outcome: Outcome;
  readonly trace: Trace;
  readonly nearestAllow: readonly NearestAllow[];
  /** Size of the log on which it was decided. */
  readonly seq: number;
  /** Epoch milliseconds. */
  readonly atMs: number;
}

/** Decides one action, traces it through the rules and looks for changes that are allowed. Rejects as `DryRuns.run` does. */
export function probe(dryRuns: DryRuns, question: Question): Promise<Probe> {
  return dryRuns.run(
    question,
    function* (state, given, nowMs) {
      const actions = yield* withSeen(state, given, question.seen ?? []);
      const [action] = actions;
      const [outcome] = yield* decideInTurn(state, actions, nowMs);
      if (action === undefined || outcome === undefined) throw new Error("a probe is of one action");
      const traced = yield* trace(state, action, nowMs);
      const nearest = yield* nearestAllow(state, action, nowMs, outcome, traced.rules);
      return { outcome, trace: traced, nearestAllow: nearest, seq: state.seq, atMs: nowMs };
    },
    ({ outcome }) => [outcome],
  );
}
