import type { Pool } from "pg";
import type { ChangeEvent, LedgerEvent } from "../log/events.ts";
import { LogFeed, MAX_FEED_BYTES, MAX_FEED_PAGE, type Selection } from "../log/log-feed.ts";
import type { WorkspaceLog } from "../log/writer.ts";
import type { ControlChange } from "../state/control-changes.ts";
import { stored } from "../store/database.ts";
import { readEscalationChanges } from "../store/sql/read-escalations.ts";
import { canonicalJson } from "../tree/canonical.ts";
import type { EscalationResolution, EscalationRow } from "./escalation.ts";

/** News of one escalation: people gave it more time, or it was resolved. */
export type EscalationNews =
  | { readonly kind: "extended"; readonly expiresAtMs: number }
  | ({ readonly kind: "resolved" } & EscalationResolution);

/** Receives the news of an escalation. MUST NOT throw. */
type NewsListener = (news: EscalationNews) => void;

/** A change of an escalation, not yet parsed. */
export type EscalationChangeRow = EscalationRow & {
  readonly seq: number;
  readonly atMs: number;
  /** Its creation; a further ask, a withdrawal, an extension, one of several approvals or a reminder; or its resolution. */
  readonly kind: "created" | "updated" | "resolved";
};

const CHANGES: ReadonlySet<ControlChange["type"]> = new Set([
  "escalation_resolved",
  "escalation_withdrawn",
  "escalation_extended",
  "escalation_approval_given",
  "escalation_approval_withdrawn",
  "escalation_reminded",
]);

function isChange(event: LedgerEvent): boolean {
  if (event.kind === "decision") return event.ask !== undefined;
  return event.kind === "change" && CHANGES.has(event.change.type);
}

/** The changes of a workspace's escalations on this replica. It subscribes to the log only while somebody listens. */
export class EscalationFeed {
  /** The changes, for watches. */
  readonly changes: LogFeed<EscalationChangeRow>;
  /** All changes; several further asks, withdrawals and extensions in a row MAY come as one. */
  readonly all: Selection<EscalationChangeRow>;
  readonly #log: WorkspaceLog;
  readonly #waiters = new Map<string, Set<NewsListener>>();
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

  /** Subscribes to the news of one escalation, which are taken from its log entries without a query. */
  waitFor(escalationId: string, listener: NewsListener): () => void {
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
    if (event.kind !== "change" || !("escalation_id" in event.change)) return;
    const listeners = this.#waiters.get(event.change.escalation_id);
    const news = listeners === undefined ? undefined : newsOf(event);
    if (news === undefined) return;
    for (const listener of listeners ?? []) listener(news);
  }
}

function newsOf({ change, seq, atMs, by }: ChangeEvent): EscalationNews | undefined {
  if (change.type === "escalation_extended") return { kind: "extended", expiresAtMs: Date.parse(change.expires_at) };
  if (change.type !== "escalation_resolved") return undefined;
  const { resolution: status, note, asked, cause, expires_at, edit, edited_from: editedFrom = null } = change;
  return {
    kind: "resolved",
    status,
    seq,
    atMs,
    by: cause ?? by,
    note,
    asked,
    editedFrom,
    expiresAtMs: expires_at === undefined ? null : Date.parse(expires_at),
    replacedBy: edit?.replaced_by ?? null,
    editedArguments: edit === undefined ? null : canonicalJson(edit.arguments),
  };
}
