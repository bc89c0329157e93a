import type { Pool } from "pg";
import type { LedgerEvent } from "../log/events.ts";
import { LogFeed, MAX_FEED_BYTES, MAX_FEED_PAGE, type Selection } from "../log/log-feed.ts";
import type { WorkspaceLog } from "../log/writer.ts";
import { readEscalationChanges } from "../store/sql/read-escalations.ts";
import { stored } from "../store/store-fault.ts";
import type { EscalationResolution, EscalationRow } from "./escalation.ts";

/** Receives the resolution of an escalation. MUST NOT throw. */
type ResolutionListener = (resolution: EscalationResolution) => void;

/** A change of an escalation, not yet parsed. */
export type EscalationChangeRow = EscalationRow & {
  readonly seq: number;
  readonly atMs: number;
  /** Its creation, a further ask or a withdrawal, or its resolution. */
  readonly kind: "created" | "updated" | "resolved";
};

function isChange(event: LedgerEvent): boolean {
  if (event.kind === "decision") return event.ask !== undefined;
  return event.change.type === "escalation_resolved" || event.change.type === "escalation_withdrawn";
}

/** The changes of a workspace's escalations on this replica. It subscribes to the log only while somebody listens. */
export class EscalationFeed {
  /** The changes, for watches. */
  readonly changes: LogFeed<EscalationChangeRow>;
  /** All changes; several further asks and withdrawals in a row MAY come as one. */
  readonly all: Selection<EscalationChangeRow>;
  readonly #log: WorkspaceLog;
  readonly #waiters = new Map<string, Set<ResolutionListener>>();
  #unsubscribe: (() => void) | undefined;

  constructor(log: WorkspaceLog, pool: Pool) {
    this.#log = log;
    this.changes = new LogFeed(log, { isNotified: true });
    const read = async (from: number, before: number) => {
      const values = [log.workspaceId, from, before, MAX_FEED_PAGE, MAX_FEED_BYTES];
      return (await stored(pool.query<EscalationChangeRow>({ ...readEscalationChanges, values }))).rows;
    };
    this.all = { key: "", shows: isChange, read };
  }

  /** Subscribes to the resolution of one escalation, which is taken from its log entry without a query. */
  waitFor(escalationId: string, listener: ResolutionListener): () => void {
    const listeners = this.#waiters.get(escalationId) ?? new Set();
    this.#waiters.set(escalationId, listeners.add(listener));
    this.#subscribe();
    return () => {
      listeners.delete(listener);
      if (listeners.size === 0 && this.#waiters.get(escalationId) === listeners) this.#waiters.delete(escalationId);
      this.#unsubscribeIfUnused();
    };
  }

  #subscribe(): void {
    this.#unsubscribe ??= this.#log.subscribe((events) => {
      for (const event of events) this.#wakeWaiters(event);
    });
  }

  #unsubscribeIfUnused(): void {
    if (this.#waiters.size > 0) return;
    this.#unsubscribe?.();
    this.#unsubscribe = undefined;
  }

  #wakeWaiters(event: LedgerEvent): void {
    if (event.kind !== "change" || event.change.type !== "escalation_resolved") return;
    const { escalation_id: escalationId, resolution: status, note, asked, cause, expires_at } = event.change;
    const { seq, atMs, by } = event;
    const expiresAtMs = expires_at === undefined ? null : Date.parse(expires_at);
    for (const listener of this.#waiters.get(escalationId) ?? [])
      listener({ status, seq, atMs, by: cause ?? by, note, asked, expiresAtMs });
  }
}
