import { cpuSeconds, cpuSecondsWithChildren } from "../cpu.ts";
import type { LoadPlan, Measured } from "./plan.ts";

/** Seconds of processor time that were used up to a moment; undefined where the system does not tell. */
export interface Usage {
  /** The moment, in milliseconds of `performance.now()`. */
  readonly at: number;
  readonly service: number | undefined;
  readonly database: number | undefined;
  /** Of this process and the tools that it started. */
  readonly load: number | undefined;
}

/** What the processes of a plan have used by now. */
export function usageOf({ service, database }: LoadPlan["watched"]): Usage {
  return {
    at: performance.now(),
    service: service === undefined ? undefined : cpuSeconds(service),
    database: database === undefined ? undefined : cpuSecondsWithChildren(database),
    load: cpuSecondsWithChildren(process.pid),
  };
}

function microseconds(before: number | undefined, after: number | undefined, replies: number): number | undefined {
  return before === undefined || after === undefined ? undefined : ((after - before) * 1e6) / replies;
}

/** What was used between two moments for each of the replies that came between them. */
export function costsOf(
  before: Usage,
  after: Usage,
  replies: number,
): Pick<Measured, "serviceCpu" | "databaseCpu" | "loadCpu"> {
  return {
    serviceCpu: microseconds(before.service, after.service, replies),
    databaseCpu: microseconds(before.database, after.database, replies),
    loadCpu: microseconds(before.load, after.load, replies),
  };
}

/** What a share of the values, 0 to 1, stays within. The values MUST be in order. NaN for none. */
export function quantile(sorted: Float64Array, share: number): number {
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN;
}
