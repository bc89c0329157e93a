import type { Pool } from "pg";
import type { LedgerEvent } from "../log/events.ts";
import type { WorkspaceLog } from "../log/writer.ts";
import { escalationIdOf } from "../state/escalations.ts";
import { asCreated, type Escalation, type EscalationResolution, findEscalations } from "./escalation.ts";

/** The creation or resolution of an escalation. */
export interface EscalationChange {
  /** Log index of the entry that made the change; a watch resumes after it. */
  readonly seq: number;
  readonly atMs: number;
  readonly kind: "created" | "resolved";
  /** The escalation right after the change. */
  readonly escalation: Escalation;
}

/** Receives changes in the order of the log. MUST NOT throw. */
type EscalationListener = (change: EscalationChange) => void;

/** Receives the resolution of an escalation. MUST NOT throw. */
type ResolutionListener = (resolution: EscalationResolution) => void;

interface Subscription {
  readonly listener: EscalationListener;
  readonly onLost: (error: unknown) => void;
}

/** A change whose escalation is not read yet. */
type UnreadChange = Omit<EscalationChange, "escalation"> & { readonly escalationId: string };

function unreadChangeFrom(event: LedgerEvent): UnreadChange | undefined {
  const { seq, atMs } = event;
  if (event.kind === "decision") {
    if (event.decision !== "escalate") return undefined;
    return { kind: "created", escalationId: escalationIdOf(event.decisionId), seq, atMs };
  }
  if (event.change.type !== "escalation_resolved") return undefined;
  return { kind: "resolved", escalationId: event.change.escalation_id, seq, atMs };
}

/**
 * The changes of a workspace's escalations, read once for all listeners on this replica. It subscribes to the log only
 * while it has listeners.
 */
export class EscalationFeed {
  readonly #log: WorkspaceLog;
  readonly #pool: Pool;
  readonly #watchers = new Set<Subscription>();
  readonly #waiters = new Map<string, Set<ResolutionListener>>();
  #unsubscribe: (() => void) | undefined;
  #reading: Promise<void> = Promise.resolve();

  constructor(log: WorkspaceLog, pool: Pool) {
    this.#log = log;
    this.#pool = pool;
  }

  /**
   * Subscribes to every change. `onLost` is called once if changes cannot be read: the listener then has to start again.
   * Returns the function that ends the subscription.
   */
  watch(listener: EscalationListener, onLost: (error: unknown) => void): () => void {
    const subscription = { listener, onLost };
    this.#watchers.add(subscription);
    this.#subscribe();
    return () => {
      this.#watchers.delete(subscription);
      this.#unsubscribeIfUnused();
    };
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
    this.#unsubscribe ??= this.#log.subscribe((events) => this.#onEvents(events));
  }

  #unsubscribeIfUnused(): void {
    if (this.#watchers.size > 0 || this.#waiters.size > 0) return;
    this.#unsubscribe?.();
    this.#unsubscribe = undefined;
  }

  #onEvents(events: readonly LedgerEvent[]): void {
    if (this.#waiters.size > 0) for (const event of events) this.#wakeWaiters(event);
    if (this.#watchers.size === 0) return;
    const changes = events.map(unreadChangeFrom).filter((change) => change !== undefined);
    if (changes.length === 0) return;
    // One read after the other, so that changes arrive in the order of the log.
    this.#reading = this.#reading
      .then(() => this.#deliver(changes))
      .catch((error) => {
        for (const { onLost } of this.#watchers) onLost(error);
      });
  }

  #wakeWaiters(event: LedgerEvent): void {
    if (event.kind !== "change" || event.change.type !== "escalation_resolved") return;
    const { escalation_id: escalationId, resolution: status, note } = event.change;
    const { seq, atMs, by } = event;
    for (const listener of this.#waiters.get(escalationId) ?? []) listener({ status, seq, atMs, by, note });
  }

  async #deliver(changes: readonly UnreadChange[]): Promise<void> {
    const ids = [...new Set(changes.map(({ escalationId }) => escalationId))];
    const found = await findEscalations(this.#pool, this.#log.workspaceId, ids);
    for (const { escalationId, ...change } of changes) {
      const read = found.get(escalationId);
      if (read === undefined) continue;
      const escalation = change.kind === "created" ? asCreated(read) : read;
      for (const { listener } of this.#watchers) listener({ ...change, escalation });
    }
  }
}
