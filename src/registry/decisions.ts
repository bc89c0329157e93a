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
import { normaliseName } from "../policy/names.ts";
import type { Decision } from "../policy/types.ts";
import type { OutcomeStatus, SealedClaim, SealedOutcome } from "../state/outcomes.ts";
import { DECISION_NUMBERS, OUTCOME_STATUS_NUMBERS } from "../state/types.ts";
import { stored } from "../store/database.ts";
import {
  findFirstAfter,
  listDecisions,
  listDecisionsByOutcome,
  listDecisionsOfAgent,
  listDecisionsOfSession,
  readDecisionsFrom,
  readDecisionsOfAgentFrom,
  readFollowedFrom,
  readFollowedOfAgentFrom,
  readLastTimes,
} from "../store/sql/read-decisions.ts";
import { readLogSize } from "../store/sql/read-entries.ts";
import type { Reader } from "../store/transaction.ts";
import { MAX_PAGE_BYTES, type Page, type PageRequest, pageFrom } from "./page.ts";

/** Filter of a list of decisions; undefined fields do not narrow it. */
export interface DecisionFilter {
  readonly agentId?: string | undefined;
  /** Only actions that named this session. */
  readonly sessionId?: string | undefined;
  readonly decision?: Decision | undefined;
  /** Whole action type, ignoring case. */
  readonly actionType?: string | undefined;
  /** Beginning of the action type, ignoring case. */
  readonly actionTypePrefix?: string | undefined;
  /** The tool's name as receipts show it. */
  readonly tool?: string | undefined;
  /** Only allowed actions whose outcome has this status. */
  readonly outcome?: OutcomeStatus | undefined;
  /** At or after this time, epoch milliseconds. */
  readonly sinceMs?: number | undefined;
  /** Before this time, epoch milliseconds. */
  readonly untilMs?: number | undefined;
}

/**
 * Maximum number of entries that are searched for one page of a narrow list: its matches may be few, and no index finds them.
 */
const MAX_LOOKED_AT = 50_000;

const isNarrow = ({ decision, actionType, actionTypePrefix, tool }: DecisionFilter): boolean =>
  [decision, actionType, actionTypePrefix, tool].some((value) => value !== undefined);

/** Returns the index of the first entry at or after a time, or the size of the log. */
async function firstSeqAt(reader: Reader, workspaceId: string, timeMs: number, size: number): Promise<number> {
  const after = Math.ceil(timeMs) - 1;
  const { rows } = await reader.query<{ seq: number }>({ ...findFirstAfter, values: [workspaceId, after, size] });
  return rows[0]?.seq ?? size;
}

/** Log indexes from `low` to before `high`. */
interface SeqRange {
  readonly low: number;
  readonly high: number;
}

/** Returns the range of log indexes that a filter's span of time covers. It has no end if nothing depends on the end. */
async function seqRange(reader: Reader, workspaceId: string, filter: DecisionFilter): Promise<SeqRange> {
  const { sinceMs, untilMs } = filter;
  if (sinceMs === undefined && untilMs === undefined && !isNarrow(filter))
    return { low: 0, high: Number.MAX_SAFE_INTEGER };
  const { rows } = await reader.query<{ seq: number }>({ ...readLogSize, values: [workspaceId] });
  const size = rows[0]?.seq ?? 0;
  const low = sinceMs === undefined ? 0 : await firstSeqAt(reader, workspaceId, sinceMs, size);
  const high = untilMs === undefined ? size : await firstSeqAt(reader, workspaceId, untilMs, size);
  return { low, high };
}

/** Returns the range of log indexes to look at for a page, and whether older ones are left. */
async function rangeOfPage(
  reader: Reader,
  workspaceId: string,
  filter: DecisionFilter,
  { after }: PageRequest,
  maxLookedAt: number,
): Promise<SeqRange & { readonly isCut: boolean }> {
  const range = await seqRange(reader, workspaceId, filter);
  const high = Math.min(range.high, after ?? range.high);
  const low = isNarrow(filter) ? Math.max(range.low, high - maxLookedAt) : range.low;
  return { low, high, isCut: low > range.low };
}

/** Lists the parameters of the statements that list decisions, except the agent. */
function valuesOf(workspaceId: string, filter: DecisionFilter, { low, high }: SeqRange, size: number): unknown[] {
  const { decision, actionType, actionTypePrefix, tool = null } = filter;
  return [
    workspaceId,
    low,
    high,
    decision === undefined ? null : DECISION_NUMBERS[decision],
    size + 1,
    MAX_PAGE_BYTES,
    actionType === undefined ? null : normaliseName(actionType),
    actionTypePrefix === undefined ? null : normaliseName(actionTypePrefix),
    tool,
    tool === null ? null : `"tool":${JSON.stringify(tool)}`,
  ];
}

/** Returns the statement that reads a list from the index that fits its filter best. */
function statementFor({ agentId, sessionId, outcome }: DecisionFilter, values: readonly unknown[]) {
  if (outcome !== undefined) {
    const more = [OUTCOME_STATUS_NUMBERS[outcome], agentId ?? null, sessionId ?? null];
    return { ...listDecisionsByOutcome, values: [...values, ...more] };
  }
  if (sessionId !== undefined) return { ...listDecisionsOfSession, values: [...values, sessionId, agentId ?? null] };
  if (agentId !== undefined) return { ...listDecisionsOfAgent, values: [...values, agentId] };
  return { ...listDecisions, values: [...values] };
}

async function readPage(
  reader: Reader,
  workspaceId: string,
  filter: DecisionFilter,
  page: PageRequest,
  maxLookedAt: number,
): Promise<Page<DecisionReceipt>> {
  type Row = { leafHash: Buffer; body: string };
  const { size } = page;
  const range = await rangeOfPage(reader, workspaceId, filter, page, maxLookedAt);
  const values = valuesOf(workspaceId, filter, range, size);
  const { rows } = await reader.query<Row>(statementFor(filter, values));
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
  return { items: items.map(({ receipt }) => receipt), next: next ?? (range.isCut ? range.low : undefined) };
}

/**
 * Lists decisions with their receipts, newest first; a position is an index in the log. An unknown workspace or agent has no
 * decisions. With a filter on more than agent and time, a page searches at most `maxLookedAt` entries (default 50,000): it may
 * hold fewer decisions than fit, even none, although the list continues.
 */
export function listDecisionReceipts(
  reader: Reader,
  workspaceId: string,
  filter: DecisionFilter,
  page: PageRequest,
  maxLookedAt = MAX_LOOKED_AT,
): Promise<Page<DecisionReceipt>> {
  return stored(readPage(reader, workspaceId, filter, page, maxLookedAt));
}

/** Reads the times at which agents last attempted an action, in epoch milliseconds. The map lacks agents that never did. */
export async function readLastActions(
  pool: Pool,
  workspaceId: string,
  agentIds: readonly string[],
): Promise<ReadonlyMap<string, number>> {
  type Row = { agentId: string; atMs: number };
  const { rows } = await stored(pool.query<Row>({ ...readLastTimes, values: [workspaceId, agentIds] }));
  return new Map(rows.map(({ agentId, atMs }) => [agentId, atMs]));
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

function selectionOf(
  { pool, log: { workspaceId } }: WatchContext,
  filter: WatchFilter,
  hasFollowUps: boolean,
): Selection<DecisionRow> {
  const { agentId, decision } = filter;
  const number = decision === undefined ? null : DECISION_NUMBERS[decision];
  return {
    key: `${hasFollowUps} ${decision ?? ""} ${agentId ?? ""}`,
    shows: (event) =>
      (hasFollowUps &&
        event.kind === "follow_up" &&
        (decision === undefined || decision === "allow") &&
        (agentId === undefined || event.sealed.agent_id === agentId)) ||
      (event.kind === "decision" &&
        (decision === undefined || event.decision === decision) &&
        (agentId === undefined || event.agentId === agentId)),
    async read(from, before) {
      const values: unknown[] = [workspaceId, from, before, number, MAX_FEED_PAGE, MAX_FEED_BYTES];
      if (agentId !== undefined) values.push(agentId);
      const plain = agentId === undefined ? readDecisionsFrom : readDecisionsOfAgentFrom;
      const followed = agentId === undefined ? readFollowedFrom : readFollowedOfAgentFrom;
      const statement = hasFollowUps ? followed : plain;
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
  for await (const next of watch(context, filter, cursor, false))
    yield "isBeat" in next ? next : receiptFrom(next.body, next.leafHash);
}

/** Streams what `watchDecisions` does, with the claims and outcomes of the decisions among them as they are sealed. */
export async function* watchFollowed(
  context: WatchContext,
  filter: WatchFilter,
  cursor: string,
): AsyncGenerator<DecisionReceipt | SealedClaim | SealedOutcome | Beat> {
  for await (const next of watch(context, filter, cursor, true)) yield "isBeat" in next ? next : entryFrom(next);
}

function watch(context: WatchContext, filter: WatchFilter, cursor: string, hasFollowUps: boolean) {
  const { feed, heartbeatMs, signal } = context;
  const after = indexFromCursor(cursor);
  return feed.watch(selectionOf(context, filter, hasFollowUps), { after, heartbeatMs, signal });
}

function entryFrom({ body, leafHash }: DecisionRow): DecisionReceipt | SealedClaim | SealedOutcome {
  const sealed = JSON.parse(body) as { readonly type: string };
  return sealed.type === "decision" ? receiptFrom(body, leafHash) : (sealed as SealedClaim | SealedOutcome);
}
