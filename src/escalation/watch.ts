import type { Pool } from "pg";
import { invalidField } from "../errors.ts";
import { EventBuffer } from "../log/event-buffer.ts";
import type { WorkspaceLog } from "../log/writer.ts";
import { readEscalationChanges, readPendingEscalations } from "../store/sql/read-escalations.ts";
import { stored } from "../store/store-fault.ts";
import {
  asCreated,
  asResolved,
  type Escalation,
  type EscalationResolution,
  type EscalationRow,
  escalationFromRow,
  getEscalation,
} from "./escalation.ts";
import type { EscalationChange, EscalationFeed } from "./feed.ts";

/** Page size of the backlog. */
const PAGE = 500;

/** Dependencies and options of a stream of escalations. */
export interface WatchContext {
  readonly log: WorkspaceLog;
  readonly feed: EscalationFeed;
  readonly pool: Pool;
  readonly heartbeatMs: number;
  readonly signal: AbortSignal;
}

type ChangeRow = EscalationRow & { readonly seq: number; readonly isResolution: boolean };

function changeFrom({ seq, isResolution, ...row }: ChangeRow): EscalationChange {
  const escalation = escalationFromRow(row);
  if (!isResolution) return createdChange(escalation);
  return { seq, atMs: escalation.resolvedAtMs ?? 0, kind: "resolved", escalation };
}

function createdChange(escalation: Escalation): EscalationChange {
  const { createdSeq: seq, receipt } = escalation;
  return { seq, atMs: Date.parse(receipt.body.at), kind: "created", escalation: asCreated(escalation) };
}

/** Returns the log index that a cursor resumes after; null for an empty cursor. Throws INVALID_FIELD. */
function indexFromCursor(cursor: string): number | null {
  if (cursor === "") return null;
  if (!/^\d{1,15}$/.test(cursor)) throw invalidField("cursor", "was not given by this stream; leave it empty to begin");
  return Number(cursor);
}

async function* backlogAfter(
  { pool, log }: WatchContext,
  after: number | null,
  before: number,
): AsyncGenerator<EscalationChange> {
  const statement = after === null ? readPendingEscalations : readEscalationChanges;
  let from = after === null ? 0 : after + 1;
  for (;;) {
    const values = [log.workspaceId, from, before, PAGE];
    const { rows } = await stored(pool.query<ChangeRow>({ ...statement, values }));
    for (const row of rows) yield after === null ? createdChange(escalationFromRow(row)) : changeFrom(row);
    const last = rows.at(-1);
    if (rows.length < PAGE || last === undefined) return;
    from = (after === null ? last.createdSeq : last.seq) + 1;
  }
}

/**
 * Streams every change of every escalation once, in the order of the log: first the backlog after the cursor (for an
 * empty cursor, the pending escalations), then new changes. `undefined` is a heartbeat.
 */
export async function* watchEscalations(
  context: WatchContext,
  cursor: string,
): AsyncGenerator<EscalationChange | undefined> {
  const after = indexFromCursor(cursor);
  const live = new EventBuffer<EscalationChange>();
  const stop = context.feed.watch(
    (change) => live.push(change),
    (error) => live.end(error),
  );
  try {
    // The subscription is older than the backlog's end: together they miss nothing, and the index avoids duplicates.
    const { seq: end } = await context.log.caughtUp();
    yield* backlogAfter(context, after, end);
    for await (const change of live.read(context.heartbeatMs, context.signal)) {
      if (change === undefined || (change.seq >= end && change.seq > (after ?? -1))) yield change;
    }
  } finally {
    stop();
  }
}

/**
 * Streams the escalation as it is now, heartbeats (`undefined`) while it is pending, and the escalation as resolved.
 * Throws ESCALATION_NOT_FOUND, also for another agent's if `agentId` is given.
 */
export async function* waitEscalation(
  context: WatchContext,
  escalationId: string,
  agentId: string | null,
): AsyncGenerator<Escalation | undefined> {
  const { feed, pool, log, heartbeatMs, signal } = context;
  const live = new EventBuffer<EscalationResolution>();
  const stop = feed.waitFor(escalationId, (resolution) => live.push(resolution));
  try {
    const now = await getEscalation(pool, log.workspaceId, escalationId, agentId);
    yield now;
    if (now.status !== "pending") return;
    for await (const resolution of live.read(heartbeatMs, signal)) {
      yield resolution && asResolved(now, resolution);
      if (resolution !== undefined) return;
    }
  } finally {
    stop();
  }
}
