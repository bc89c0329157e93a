import type { Pool } from "pg";
import { OBSERVED_KIND_NUMBERS } from "../log/observation.ts";
import { stored } from "../store/database.ts";
import { countObservations, type ObservationCount } from "../store/sql/observations.ts";

/** Observations of a session, in numbers. */
export interface ObservedNumbers {
  readonly prompts: bigint;
  readonly promptValues: bigint;
  readonly approvedValues: bigint;
  /** Most values first. */
  readonly tools: { tool: string | undefined; results: bigint; values: bigint }[];
  readonly full: boolean;
}

/** Maximum tools that are listed. */
const MAX_TOOLS = 500;

/** Reads what a session observed, in numbers. Rejects with STORE_UNAVAILABLE. */
export async function observationsOf(pool: Pool, workspaceId: string, sessionId: string): Promise<ObservedNumbers> {
  const values = [workspaceId, sessionId, MAX_TOOLS + 2];
  const { rows } = await stored(pool.query<ObservationCount>({ ...countObservations, values }));
  const ofKind = (kind: keyof typeof OBSERVED_KIND_NUMBERS) =>
    rows.filter((row) => row.kind === OBSERVED_KIND_NUMBERS[kind]);
  const sum = (counts: readonly ObservationCount[], member: "observations" | "values"): bigint =>
    BigInt(counts.reduce((total, count) => total + count[member], 0));
  return {
    prompts: sum(ofKind("prompt"), "observations"),
    promptValues: sum(ofKind("prompt"), "values"),
    approvedValues: sum(ofKind("approval"), "values"),
    tools: ofKind("result")
      .slice(0, MAX_TOOLS)
      .map(({ tool, observations, values: seen }) => ({
        tool: tool ?? undefined,
        results: BigInt(observations),
        values: BigInt(seen),
      })),
    full: rows.some(({ isFull }) => isFull),
  };
}
