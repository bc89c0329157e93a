import type { Pool } from "pg";
import {
  type Beat,
  indexFromCursor,
  type LogFeed,
  MAX_FEED_BYTES,
  MAX_FEED_PAGE,
  type Selection,
} from "../log/log-feed.ts";
import { type DecisionReceipt, receiptFrom } from "../log/receipts.ts";
import type { WorkspaceLog } from "../log/writer.ts";
import type { Decision } from "../policy/types.ts";
import { numberFromDecision } from "../state/stored-enums.ts";
import {
  findFirstAfter,
  listDecisions,
  listDecisionsOfAgent,
  readDecisionsFrom,
  readDecisionsOfAgentFrom,
} from "../store/sql/read-decisions.ts";
import { readLogSize } from "../store/sql/read-entries.ts";
import { stored } from "../store/store-fault.ts";
import { MAX_PAGE_BYTES, type Page, type PageRequest, pageFrom } from "./page.ts";

/** Filter of a list of decisions; undefined fields do not narrow it. */
export interface DecisionFilter {
  readonly agentId?: string | undefined;
  readonly decision?: Decision | undefined;
  /** At or after this time, epoch milliseconds. */
  readonly sinceMs?: number | undefined;
  /** Before this time, epoch milliseconds. */
  readonly untilMs?: number | undefined;
}

/** Returns the index of the first entry at or after a time, or the size of the log. */
async function firstSeqAt(pool: Pool, workspaceId: string, timeMs: number, size: number): Promise<number> {
  const after = Math.ceil(timeMs) - 1;
  const { rows } = await pool.query<{ seq: number }>({ ...findFirstAfter, values: [workspaceId, after, size] });
  return rows[0]?.seq ?? size;
}

/** Returns the range of log indexes that a span of time covers. */
async function seqRange(
  pool: Pool,
  workspaceId: string,
  { sinceMs, untilMs }: DecisionFilter,
): Promise<{ readonly low: number; readonly high: number }> {
  if (sinceMs === undefined && untilMs === undefined) return { low: 0, high: Number.MAX_SAFE_INTEGER };
  const { rows } = await pool.query<{ seq: number }>({ ...readLogSize, values: [workspaceId] });
  const size = rows[0]?.seq ?? 0;
  const low = sinceMs === undefined ? 0 : await firstSeqAt(pool, workspaceId, sinceMs, size);
  const high = untilMs === undefined ? size : await firstSeqAt(pool, workspaceId, untilMs, size);
  return { low, high };
}

async function readPage(
  pool: Pool,
  workspaceId: string,
  filter: DecisionFilter,
  { size, after }: PageRequest,
): Promise<Page<DecisionReceipt>> {
  type Row = { leafHash: Buffer; body: string };
  const { low, high } = await seqRange(pool, workspaceId, filter);
  const decision = filter.decision === undefined ? null : numberFromDecision(filter.decision);
  const values: unknown[] = [workspaceId, low, Math.min(high, after ?? high), decision, size + 1, MAX_PAGE_BYTES];
  if (filter.agentId !== undefined) values.push(filter.agentId);
  const statement = filter.agentId === undefined ? listDecisions : listDecisionsOfAgent;
  const { rows } = await pool.query<Row>({ ...statement, values });
  const read = rows.map(({ leafHash, body }) => ({
    receipt: receiptFrom(body, leafHash),
    bytes: Buffer.byteLength(body),
  }));
  const { items, next } = pageFrom(
    read,
    size,
    ({ receipt }) => receipt.body.seq,
    ({ bytes }) => bytes,
  );
  return { items: items.map(({ receipt }) => receipt), next };
}

/**
 * Lists decisions with their receipts, newest first; a position is an index in the log. An unknown workspace or agent has
 * no decisions.
 */
export function listDecisionReceipts(
  pool: Pool,
  workspaceId: string,
  filter: DecisionFilter,
  page: PageRequest,
): Promise<Page<DecisionReceipt>> {
  return stored(readPage(pool, workspaceId, filter, page));
}

/** A decision of a watch, not yet parsed. */
export interface DecisionRow {
  readonly seq: number;
  readonly leafHash: Buffer;
  readonly body: string;
}

/** Dependencies and options of a stream of decisions. */
interface WatchContext {
  readonly pool: Pool;
  readonly log: WorkspaceLog;
  readonly feed: LogFeed<DecisionRow>;
  readonly heartbeatMs: number;
  readonly signal: AbortSignal;
}

type WatchFilter = Pick<DecisionFilter, "agentId" | "decision">;

function selectionOf({ pool, log: { workspaceId } }: WatchContext, filter: WatchFilter): Selection<DecisionRow> {
  const { agentId, decision } = filter;
  const number = decision === undefined ? null : numberFromDecision(decision);
  return {
    key: `${decision ?? ""} ${agentId ?? ""}`,
    shows: (event) =>
      event.kind === "decision" &&
      (decision === undefined || event.decision === decision) &&
      (agentId === undefined || event.agentId === agentId),
    async read(from, before) {
      const values: unknown[] = [workspaceId, from, before, number, MAX_FEED_PAGE, MAX_FEED_BYTES];
      if (agentId !== undefined) values.push(agentId);
      const statement = agentId === undefined ? readDecisionsFrom : readDecisionsOfAgentFrom;
      return (await stored(pool.query<DecisionRow>({ ...statement, values }))).rows;
    },
  };
}

/**
 * Streams every decision that the filter lets through, in the order of the log: first those after the cursor (for an empty
 * cursor, none), then new ones. Throws INVALID_FIELD for a cursor that no stream gave.
 */
export async function* watchDecisions(
  context: WatchContext,
  filter: WatchFilter,
  cursor: string,
): AsyncGenerator<DecisionReceipt | Beat> {
  const { feed, heartbeatMs, signal } = context;
  const after = indexFromCursor(cursor);
  for await (const next of feed.watch(selectionOf(context, filter), { after, heartbeatMs, signal }))
    yield "isBeat" in next ? next : receiptFrom(next.body, next.leafHash);
}
