import type { Pool } from "pg";
import { escalationIdOf } from "../log/batch.ts";
import type { LedgerEvent } from "../log/events.ts";
import type { WorkspaceLog } from "../log/workspace-log.ts";
import { type Escalation, type EscalationResolution, findEscalations } from "./escalation.ts";

/** One change of an escalation, as a watcher hears of it. */
export interface EscalationChange {
  /** Index of the entry that made the change; resumes a watch after it. */
  readonly seq: number;
  readonly atMs: number;
  readonly kind: "created" | "resolved";
  /** The escalation as the change left it. */
  readonly escalation: Escalation;
}

/** Hears of changes in the order of the log. MUST NOT throw. */
export type EscalationListener = (change: EscalationChange) => void;

/** Hears how an escalation was resolved. MUST NOT throw. */
export type ResolutionListener = (resolution: EscalationResolution) => void;

/** The changes of a workspace's escalations, read once for all who listen on this replica. */
export interface EscalationFeed {
  /** Hears every change. `onLost` is called, once, when changes could not be read: the listener has to start again. */
  watch(listener: EscalationListener, onLost: (error: unknown) => void): () => void;
  /** Hears the resolution of one escalation as soon as its entry is known, with nothing read first. */
  waitFor(escalationId: string, listener: ResolutionListener): () => void;
}

interface Mark {
  readonly kind: EscalationChange["kind"];
  readonly escalationId: string;
  readonly seq: number;
  readonly atMs: number;
}

interface Subscription {
  readonly listener: EscalationListener;
  readonly onLost: (error: unknown) => void;
}

function markFrom(event: LedgerEvent): Mark | undefined {
  const { seq, atMs } = event;
  if (event.kind === "decision") {
    if (event.decision !== "escalate") return undefined;
    return { kind: "created", escalationId: escalationIdOf(event.decisionId), seq, atMs };
  }
  if (event.change.type !== "escalation_resolved") return undefined;
  return { kind: "resolved", escalationId: event.change.escalation_id, seq, atMs };
}

/** The escalation as it was right after its creation, whatever happened since. */
export function asCreated(escalation: Escalation): Escalation {
  const unresolved = { resolvedSeq: null, resolvedAtMs: null, resolvedBy: null, note: null, usedBy: null };
  return { ...escalation, ...unresolved, status: "pending" };
}

/** Creates the feed of a workspace. It listens to the log only while somebody listens to it. */
export function createEscalationFeed(log: WorkspaceLog, pool: Pool): EscalationFeed {
  const watchers = new Set<Subscription>();
  const waiters = new Map<string, Set<ResolutionListener>>();
  let unsubscribe: (() => void) | undefined;
  let reading: Promise<void> = Promise.resolve();

  const wake = (event: LedgerEvent): void => {
    if (event.kind !== "change" || event.change.type !== "escalation_resolved") return;
    const { escalation_id: escalationId, resolution: status, note } = event.change;
    const { seq, atMs, by } = event;
    for (const listener of waiters.get(escalationId) ?? []) listener({ status, seq, atMs, by, note });
  };

  const deliver = async (marks: readonly Mark[]): Promise<void> => {
    const ids = [...new Set(marks.map(({ escalationId }) => escalationId))];
    const found = await findEscalations(pool, log.workspaceId, ids);
    for (const mark of marks) {
      const read = found.get(mark.escalationId);
      if (read === undefined) continue;
      const escalation = mark.kind === "created" ? asCreated(read) : read;
      for (const { listener } of watchers) listener({ ...mark, escalation });
    }
  };

  const lose = (error: unknown): void => {
    for (const { onLost } of watchers) onLost(error);
  };

  const onEvents = (events: readonly LedgerEvent[]): void => {
    if (waiters.size > 0) for (const event of events) wake(event);
    if (watchers.size === 0) return;
    const marks = events.map(markFrom).filter((mark) => mark !== undefined);
    if (marks.length === 0) return;
    // One after the other, so that changes arrive in the order of the log.
    reading = reading.then(() => deliver(marks)).catch(lose);
  };

  const start = (): void => {
    unsubscribe ??= log.subscribe(onEvents);
  };

  const stopIfUnused = (): void => {
    if (watchers.size > 0 || waiters.size > 0) return;
    unsubscribe?.();
    unsubscribe = undefined;
  };

  return {
    watch(listener, onLost) {
      const subscription = { listener, onLost };
      watchers.add(subscription);
      start();
      return () => {
        watchers.delete(subscription);
        stopIfUnused();
      };
    },
    waitFor(escalationId, listener) {
      const known = waiters.get(escalationId);
      if (known === undefined) waiters.set(escalationId, new Set([listener]));
      else known.add(listener);
      start();
      return () => {
        const left = waiters.get(escalationId);
        left?.delete(listener);
        if (left?.size === 0) waiters.delete(escalationId);
        stopIfUnused();
      };
    },
  };
}
