import type { LoadPlan, Measured } from "./plan.ts";
import { costsOf, quantile, type Usage, usageOf } from "./usage.ts";

/** Takes in what the callers of a load see. */
export interface Recorder {
  /** A call that began at `startedAt` (`performance.now()`) was answered; it stands for `weight` replies, 1 by default. */
  record(startedAt: number, weight?: number): void;
  /** From here on it counts. */
  begin(): void;
  /** Up to here it counted. */
  finish(): Measured;
}

/** Creates a recorder that watches the processes of the plan. */
export function createRecorder(watched: LoadPlan["watched"]): Recorder {
  let durations = new Float64Array(1 << 16);
  let calls = 0;
  let replies = 0;
  let before: Usage | undefined;

  return {
    record(startedAt, weight = 1) {
      if (before === undefined) return;
      if (calls === durations.length) {
        const longer = new Float64Array(durations.length * 2);
        longer.set(durations);
        durations = longer;
      }
      durations[calls] = performance.now() - startedAt;
      calls += 1;
      replies += weight;
    },
    begin() {
      before = usageOf(watched);
    },
    finish() {
      const after = usageOf(watched);
      const started = before as Usage;
      const sorted = durations.slice(0, calls).sort();
      return {
        perSecond: (replies * 1000) / (after.at - started.at),
        p50: quantile(sorted, 0.5),
        p99: quantile(sorted, 0.99),
        ...costsOf(started, after, replies),
      };
    },
  };
}
