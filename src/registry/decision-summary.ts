import type { Pool, PoolClient } from "pg";
import { invalidField } from "../errors.ts";
import { readLogSize } from "../store/sql/read-entries.ts";
import {
  countDecisionsOfAgent,
  countRefusals,
  findFirstsAfter,
  readTopReasons,
  readTopReasonsOfAgent,
} from "../store/sql/summarize-decisions.ts";
import { readWithin } from "../store/transaction.ts";

const DAY_MS = 86_400_000;
const MAX_SPAN_MS = 366 * DAY_MS;
const MAX_BUCKETS = 500;
const DEFAULT_BUCKETS = 48;
/** Maximum number of decisions, the newest of the window, whose reasons are counted: each takes reading its row. */
const MAX_LOOKED_AT = 50_000;
const MAX_REASONS = 20;
const MAX_OBSERVED = 100;
const MAX_FIRED = 500;
/** Milliseconds that PostgreSQL gives each statement of a summary. */
const STATEMENT_MS = 10_000;

/** Query of a summary; absent fields have their defaults. */
export interface SummaryQuery {
  /** Epoch milliseconds, inclusive. Default: a day before the end. */
  readonly sinceMs?: number | undefined;
  /** Epoch milliseconds, exclusive. Default: now. */
  readonly untilMs?: number | undefined;
  readonly agentId?: string | undefined;
  /** Default: a length that gives at most 48 buckets. */
  readonly bucketSeconds?: number | undefined;
  /** Leaves out what takes reading the decisions. */
  readonly countsOnly: boolean;
}

/** A window of time in buckets of one length; the last one may be cut short. */
export interface SummaryWindow {
  readonly sinceMs: number;
  readonly untilMs: number;
  readonly bucketSeconds: number;
  readonly agentId: string | undefined;
  readonly countsOnly: boolean;
}

/** Numbers of decisions, by decision. */
export interface DecisionCounts {
  readonly allow: number;
  readonly block: number;
  readonly escalate: number;
}

/** A reason of decisions, with its count. */
interface CountedReason {
  readonly code: string;
  readonly mandateId: string | null;
  readonly mandateName: string | null;
  readonly rule: string | null;
  readonly count: number;
}

/** Decisions that a version of a mandate would have made while it observed. */
interface ObservedVersion {
  readonly mandateId: string;
  readonly mandateName: string | null;
  readonly version: number;
  readonly wouldBlock: number;
  readonly wouldEscalate: number;
}

/** Decisions in which rules of a mandate fired, by the decision of the mandate. */
interface MandateFirings extends DecisionCounts {
  readonly mandateId: string;
}

/** Summary of the decisions of a window. */
export interface DecisionSummary {
  readonly buckets: readonly (DecisionCounts & { readonly atMs: number })[];
  readonly totals: DecisionCounts;
  /** Most frequent first. */
  readonly topReasons: readonly CountedReason[];
  readonly observed: readonly ObservedVersion[];
  /** Most frequent first. */
  readonly firings: readonly MandateFirings[];
  /** Number of decisions, the newest of the window, that `topReasons`, `observed` and `firings` come from. */
  readonly reasonsFrom: number;
}

/** Completes and checks a window. `nowMs` is the time of an entry sealed now. Throws INVALID_FIELD. */
export function summaryWindow({ agentId, countsOnly, ...query }: SummaryQuery, nowMs: number): SummaryWindow {
  // Entries sealed in this very millisecond count too.
  const untilMs = query.untilMs ?? nowMs + 1;
  const sinceMs = query.sinceMs ?? untilMs - DAY_MS;
  const spanMs = untilMs - sinceMs;
  if (spanMs <= 0) throw invalidField(query.untilMs === undefined ? "since" : "until", "must leave time after `since`");
  if (spanMs > MAX_SPAN_MS) throw invalidField("since", "must lie at most 366 days before `until`");
  const bucketSeconds = query.bucketSeconds ?? Math.ceil(spanMs / 1000 / DEFAULT_BUCKETS);
  const least = Math.ceil(spanMs / 1000 / MAX_BUCKETS);
  if (bucketSeconds < least) {
    throw invalidField(
      "bucket_seconds",
      `must be at least ${least} for this window: it may have ${MAX_BUCKETS} buckets`,
    );
  }
  return { sinceMs, untilMs, bucketSeconds, agentId, countsOnly };
}

/** Indexes of the log at which the buckets begin, and at which the last one ends. */
interface Bounds {
  readonly starts: readonly number[];
  readonly end: number;
}

function startsOf({ sinceMs, untilMs, bucketSeconds }: SummaryWindow): number[] {
  const bucketMs = bucketSeconds * 1000;
  return Array.from({ length: Math.ceil((untilMs - sinceMs) / bucketMs) }, (_, index) => sinceMs + index * bucketMs);
}

async function readBounds(client: PoolClient, workspaceId: string, window: SummaryWindow): Promise<Bounds> {
  const { rows: sizes } = await client.query<{ seq: number }>({ ...readLogSize, values: [workspaceId] });
  // An entry at the time at which a bucket begins belongs to that bucket.
  const times = [...startsOf(window), window.untilMs].map((ms) => ms - 1);
  const values = [workspaceId, times, sizes[0]?.seq ?? 0];
  const { rows } = await client.query<{ seq: number }>({ ...findFirstsAfter, values });
  const starts = rows.map(({ seq }) => seq);
  return { end: starts.pop() ?? 0, starts };
}

type BucketRow = Omit<DecisionCounts, "allow"> & {
  readonly bucket: number;
  readonly allow?: number;
  readonly entries?: number;
};

async function readCounts(
  client: PoolClient,
  workspaceId: string,
  { agentId }: SummaryWindow,
  { starts, end }: Bounds,
): Promise<DecisionCounts[]> {
  const values: unknown[] = [workspaceId, starts[0], end, starts];
  if (agentId !== undefined) values.push(agentId);
  const statement = agentId === undefined ? countRefusals : countDecisionsOfAgent;
  const { rows } = await client.query<BucketRow>({ ...statement, values });
  const byBucket = new Map(rows.map((row) => [row.bucket, row]));
  return starts.map((start, index) => {
    const { block = 0, escalate = 0, entries = 0, allow } = byBucket.get(index) ?? {};
    const length = (starts[index + 1] ?? end) - start;
    return { allow: allow ?? (agentId === undefined ? length - entries : 0), block, escalate };
  });
}

interface ReasonsRow {
  readonly looked: number;
  readonly reasons: readonly CountedReason[];
  readonly observed: readonly ObservedVersion[];
  readonly firings: readonly MandateFirings[];
}

async function readReasons(
  client: PoolClient,
  workspaceId: string,
  { agentId, countsOnly }: SummaryWindow,
  { starts, end }: Bounds,
): Promise<ReasonsRow> {
  if (countsOnly) return { looked: 0, reasons: [], observed: [], firings: [] };
  const values: unknown[] = [workspaceId, starts[0], end, MAX_LOOKED_AT, MAX_REASONS, MAX_OBSERVED, MAX_FIRED];
  if (agentId !== undefined) values.push(agentId);
  const statement = agentId === undefined ? readTopReasons : readTopReasonsOfAgent;
  const { rows } = await client.query<ReasonsRow>({ ...statement, values });
  return rows[0] as ReasonsRow;
}

function sumOf(counts: readonly DecisionCounts[]): DecisionCounts {
  const totals = { allow: 0, block: 0, escalate: 0 };
  for (const { allow, block, escalate } of counts) {
    totals.allow += allow;
    totals.block += block;
    totals.escalate += escalate;
  }
  return totals;
}

/**
 * Summarises the decisions of a window, without refusals that do not count. Rejects with STORE_UNAVAILABLE, and with OVERLOADED
 * if PostgreSQL takes too long.
 */
export async function summarizeDecisions(
  pool: Pool,
  workspaceId: string,
  window: SummaryWindow,
): Promise<DecisionSummary> {
  const limit = { statementMs: STATEMENT_MS, message: "summing up the window took too long; ask for a shorter one" };
  const { counts, looked, reasons, observed, firings } = await readWithin(pool, limit, async (client) => {
    const bounds = await readBounds(client, workspaceId, window);
    const counts = await readCounts(client, workspaceId, window, bounds);
    return { counts, ...(await readReasons(client, workspaceId, window, bounds)) };
  });
  const startsMs = startsOf(window);
  return {
    buckets: counts.map((each, index) => ({ ...each, atMs: startsMs[index] as number })),
    totals: sumOf(counts),
    topReasons: reasons,
    observed,
    firings,
    reasonsFrom: looked,
  };
}
