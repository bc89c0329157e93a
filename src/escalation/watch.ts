import type { Pool } from "pg";
import { EventBuffer } from "../log/event-buffer.ts";
import { indexFromCursor, MAX_FEED_BYTES, MAX_FEED_PAGE } from "../log/log-feed.ts";
import type { WorkspaceLog } from "../log/writer.ts";
import { stored } from "../store/database.ts";
import { readPendingEscalations } from "../store/sql/read-escalations.ts";
import {
  asPending,
  asResolved,
  type Escalation,
  escalationFromRow,
  getEscalation,
  settleExpired,
} from "./escalation.ts";
import type { EscalationChangeRow, EscalationFeed, EscalationNews } from "./feed.ts";

/** A change of an escalation. */
export interface EscalationChange {
  /** Log index of the entry that made the change; a watch resumes after it. */
  readonly seq: number;
  readonly atMs: number;
  readonly kind: EscalationChangeRow["kind"];
  /** The escalation right after the change. */
  readonly escalation: Escalation;
}

/** Characters of an entry up to which a wait keeps its escalation in memory. A larger one is read again when it is resolved. */
const MAX_KEPT = 16_384;

/** Pending escalations that a watch yields together, unless their entries have more characters: their names are read at once. */
const MAX_TOGETHER = 50;
const MAX_CHARACTERS_TOGETHER = 65_536;

/** Dependencies and options of a stream of escalations. */
export interface WatchContext {
  readonly log: WorkspaceLog;
  readonly feed: EscalationFeed;
  readonly pool: Pool;
  readonly heartbeatMs: number;
  readonly signal: AbortSignal;
}

function changeFrom({ seq, kind, atMs, ...row }: EscalationChangeRow): EscalationChange {
  const escalation = escalationFromRow(row);
  return { seq, kind, atMs, escalation: kind === "resolved" ? escalation : asPending(escalation) };
}

function* togetherIn(rows: readonly EscalationChangeRow[]): Generator<readonly EscalationChangeRow[]> {
  let together: EscalationChangeRow[] = [];
  let characters = 0;
  for (const row of rows) {
    together.push(row);
    characters += row.body.length;
    if (together.length < MAX_TOGETHER && characters < MAX_CHARACTERS_TOGETHER) continue;
    yield together;
    together = [];
    characters = 0;
  }
  if (together.length > 0) yield together;
}

/** Yields the escalations created before an index that are pending when they are read, oldest first, some together. */
async function* pendingBefore(
  { pool, log, feed }: WatchContext,
  before: number,
): AsyncGenerator<readonly EscalationChangeRow[]> {
  for (let from = 0; ; ) {
    const values = [log.workspaceId, from, before, MAX_FEED_PAGE, MAX_FEED_BYTES];
    const read = () => stored(pool.query<EscalationChangeRow>({ ...readPendingEscalations, values }));
    const { rows } = await feed.changes.inTurn(read);
    yield* togetherIn(rows);
    const last = rows.at(-1);
    if (last === undefined) return;
    from = last.seq + 1;
  }
}

/**
 * Streams every change of every escalation once, in the order of the log: first the backlog after the cursor (for an
 * empty cursor, the pending escalations), then new changes. Pending escalations come some together. `undefined` is a heartbeat.
 */
export async function* watchEscalations(
  context: WatchContext,
  cursor: string,
): AsyncGenerator<readonly EscalationChange[] | undefined> {
  const { feed, heartbeatMs, signal } = context;
  const after = indexFromCursor(cursor);
  let isPendingShown = after !== undefined;
  await settleExpired(context);
  for await (const next of feed.changes.watch(feed.all, { after, heartbeatMs, signal })) {
    if (!("isBeat" in next)) yield [changeFrom(next)];
    else if (isPendingShown) yield undefined;
    else {
      // The first heartbeat tells where new changes begin.
      isPendingShown = true;
      for await (const rows of pendingBefore(context, next.seq + 1)) yield rows.map(changeFrom);
      // Shows at once that nothing else is pending.
      yield undefined;
    }
  }
}

function after(pending: Escalation, news: EscalationNews): Escalation {
  if (news.kind === "resolved") return asResolved(pending, news);
  return { ...pending, expiresAtMs: news.expiresAtMs, extendedUntilMs: news.expiresAtMs };
}

/**
 * Streams the escalation as it is now, heartbeats (`undefined`) while it is pending, the escalation whenever it is extended, and
 * the escalation as resolved.
 * Throws ESCALATION_NOT_FOUND, also for another agent's if `agentId` is given.
 */
export async function* waitEscalation(
  context: WatchContext,
  escalationId: string,
  agentId: string | null,
): AsyncGenerator<Escalation | undefined> {
  const { feed, heartbeatMs, signal } = context;
  const live = new EventBuffer<EscalationNews>();
  const stop = feed.waitFor(escalationId, (news) => live.push(news));
  try {
    let kept: Escalation | undefined = await getEscalation(context, escalationId, agentId);
    yield kept;
    if (kept.status !== "pending") return;
    // Its approvals change without news, and are read with the resolution.
    if (kept.receipt.canonicalBody.length > MAX_KEPT || kept.needs.length > 0) kept = undefined;
    for await (const news of live.read(heartbeatMs, signal)) {
      if (news === undefined) {
        yield undefined;
        continue;
      }
      const next: Escalation =
        kept === undefined ? await getEscalation(context, escalationId, agentId) : after(kept, news);
      yield next;
      // An escalation that is read again may be resolved before the news of that arrive.
      if (next.status !== "pending") return;
      if (kept !== undefined) kept = next;
    }
  } finally {
    stop();
  }
}
