import { Counter, Gauge, Histogram, type Registry } from "prom-client";
import type { GuardAnswer } from "./answer.ts";
import type { BreakerState } from "./breaker.ts";

/** Seconds: from a small model nearby up to the longest deadline. */
const BUCKETS_SECONDS = [0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 60];
const BREAKER_STATES: readonly BreakerState[] = ["closed", "half_open", "open"];

/** Counts answers. */
export interface GuardMetrics {
  /** An answer; `isAsked` says whether the model was asked for it. */
  answered(answer: GuardAnswer, isAsked: boolean): void;
}

/** Registers the metrics of a guard. The breaker's state is read whenever the metrics are. */
export function createGuardMetrics(registry: Registry, breakerState: () => BreakerState): GuardMetrics {
  const registers = [registry];
  const verdicts = new Counter({
    name: "acp_guard_verdicts_total",
    help: "Verdicts of the guard's model, by whether they found a violation.",
    labelNames: ["violates"],
    registers,
  });
  const unavailable = new Counter({
    name: "acp_guard_unavailable_total",
    help: "Questions to the guard's model that got no verdict, by cause.",
    labelNames: ["cause"],
    registers,
  });
  const seconds = new Histogram({
    name: "acp_guard_seconds",
    help: "Seconds from the question to its end, of questions that the guard's model was asked.",
    buckets: BUCKETS_SECONDS,
    registers,
  });
  new Gauge({
    name: "acp_guard_breaker_state",
    help: "1 for the state that the guard's circuit breaker is in, 0 for the others.",
    labelNames: ["state"],
    registers,
    collect() {
      for (const state of BREAKER_STATES) this.set({ state }, breakerState() === state ? 1 : 0);
    },
  });
  return {
    answered(answer, isAsked) {
      if (answer.kind === "verdict") verdicts.inc({ violates: String(answer.violates) });
      else unavailable.inc({ cause: answer.cause });
      if (isAsked) seconds.observe(answer.latencyMs / 1_000);
    },
  };
}
