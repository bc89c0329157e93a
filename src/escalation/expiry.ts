import type { Pool } from "pg";
import type { ChangeScope } from "../log/changes.ts";
import type { WorkspaceLogs } from "../log/workspace-logs.ts";
import type { WorkspaceLog } from "../log/writer.ts";
import type { StoreLog } from "../store/migrate.ts";
import { readNextExpiries } from "../store/sql/read-escalations.ts";

/** Maximum number of escalations that one change rejects: each is an entry of its own. */
const PAGE = 500;
/**
 * Milliseconds between scans for escalations that expire. Each process keeps the expiries of the escalations that it creates;
 * scans find those that an ended process left behind.
 */
const SCAN_MS = 60_000;
/** Milliseconds after a failure until the next try. */
const RETRY_MS = 1_000;

// PostgreSQL's array literals; ids need no quoting.
const REJECT = `update escalation e set status = 3, resolved_seq = x.seq, resolved_at_ms = ?, resolved_by = 'expiry'
  from unnest(?::text[], ?::bigint[]) as x (id, seq)
  where e.workspace_id = ? and e.escalation_id = x.id returning e.escalation_id as id, e.asked`;

/** Result of rejecting one page of expired escalations. */
interface RejectedPage {
  readonly isLast: boolean;
  /** Time at which the next escalation expires, epoch milliseconds; undefined if none is left. */
  readonly nextExpiryMs: number | undefined;
}

async function rejectPage({ transaction, state, nowMs, nextSeq, seal }: ChangeScope): Promise<RejectedPage> {
  const expired = state.escalations.expired(nowMs, PAGE);
  const page = { isLast: expired.length < PAGE, nextExpiryMs: state.escalations.nextExpiry(nowMs) };
  if (expired.length === 0) return page;
  const first = nextSeq();
  const ids = `{${expired.map(({ escalationId }) => escalationId).join(",")}}`;
  const seqs = `{${expired.map((_, index) => first + index).join(",")}}`;
  const rows: { id: string; asked: number }[] = await transaction.execute(REJECT, [
    nowMs,
    ids,
    seqs,
    state.workspaceId,
  ]);
  const asks = new Map(rows.map(({ id, asked }) => [id, asked]));
  for (const { escalationId, agentId } of expired) {
    const names = { escalation_id: escalationId, agent_id: agentId };
    const asked = asks.get(escalationId) ?? 0;
    seal({ type: "escalation_resolved", ...names, resolution: "rejected", note: null, asked, cause: "expiry" });
  }
  return page;
}

/**
 * Rejects every pending escalation of a workspace that has expired. Returns the time of the next expiry, in epoch milliseconds;
 * undefined if none is left. Each is sealed once, by the first replica: the others find it resolved when they hold the end of
 * the log.
 */
export async function rejectExpired(log: WorkspaceLog): Promise<number | undefined> {
  for (;;) {
    const { isLast, nextExpiryMs } = await log.change("system", rejectPage);
    if (isLast) return nextExpiryMs;
  }
}

/** Rejects the escalations of all workspaces at the time at which they expire. */
export class EscalationExpiry {
  readonly #pool: Pool;
  readonly #log: StoreLog;
  #logs: WorkspaceLogs | undefined;
  /** Workspaces with the earliest expiry that is known and near, epoch milliseconds. */
  readonly #due = new Map<string, number>();
  #timer: NodeJS.Timeout | undefined;
  #scanAtMs = 0;
  #running: Promise<void> | undefined;

  constructor(pool: Pool, log: StoreLog) {
    this.#pool = pool;
    this.#log = log;
  }

  /** Notes the escalations that this process created. */
  readonly onEscalated = (workspaceId: string, nextExpiryMs: number): void => {
    if (this.#note(workspaceId, nextExpiryMs)) this.#schedule();
  };

  /** Notes an expiry; false if an earlier one of the workspace is known, or the next scan finds it early enough. */
  #note(workspaceId: string, atMs: number): boolean {
    if (atMs > this.#scanAtMs + SCAN_MS) return false;
    if (atMs >= (this.#due.get(workspaceId) ?? Number.POSITIVE_INFINITY)) return false;
    this.#due.set(workspaceId, atMs);
    return true;
  }

  /** Starts, with the escalations that have already expired first. */
  start(logs: WorkspaceLogs): void {
    this.#logs = logs;
    this.#schedule();
  }

  /** Stops once the rejections in progress are done. */
  async close(): Promise<void> {
    this.#logs = undefined;
    clearTimeout(this.#timer);
    await this.#running;
  }

  #schedule(afterMs = 0): void {
    const nowMs = this.#logs?.clock.now();
    if (nowMs === undefined || this.#running !== undefined) return;
    let next = this.#scanAtMs;
    for (const atMs of this.#due.values()) next = Math.min(next, atMs);
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#start(), Math.max(afterMs, next - nowMs));
    this.#timer.unref();
  }

  #start(): void {
    const logs = this.#logs;
    if (logs === undefined || this.#running !== undefined) return;
    this.#running = this.#rejectDue(logs).then(
      () => this.#settle(0),
      (error: Error) => {
        this.#log.warn({ reason: error.message }, "cannot reject expired escalations");
        this.#settle(RETRY_MS);
      },
    );
  }

  #settle(afterMs: number): void {
    this.#running = undefined;
    this.#schedule(afterMs);
  }

  async #rejectDue(logs: WorkspaceLogs): Promise<void> {
    if (logs.clock.now() >= this.#scanAtMs) await this.#scan(logs.clock.now() + SCAN_MS);
    for (const [workspaceId, atMs] of this.#due) {
      if (atMs > logs.clock.now()) continue;
      this.#due.delete(workspaceId);
      const nextExpiryMs = await this.#rejectIn(logs, workspaceId);
      if (nextExpiryMs !== undefined) this.#note(workspaceId, nextExpiryMs);
    }
  }

  /**
   * Rejects the expired escalations of a workspace, and returns the time of the next look. A fault in one workspace delays no
   * other.
   */
  async #rejectIn(logs: WorkspaceLogs, workspaceId: string): Promise<number | undefined> {
    try {
      return await rejectExpired(await logs.of(workspaceId));
    } catch (error) {
      this.#log.warn({ workspaceId, reason: (error as Error).message }, "cannot reject expired escalations");
      return logs.clock.now() + RETRY_MS;
    }
  }

  /** Reads the escalations that expire until the next scan. */
  async #scan(untilMs: number): Promise<void> {
    type Row = { workspaceId: string; expiresAtMs: number };
    const { rows } = await this.#pool.query<Row>({ ...readNextExpiries, values: [untilMs] });
    this.#scanAtMs = untilMs;
    for (const { workspaceId, expiresAtMs } of rows) this.#note(workspaceId, expiresAtMs);
  }
}
