import { LRUCache } from "lru-cache";
import { idWithPrefix } from "../store/ids.ts";

/** Status of an escalation; the words of the proto enum `EscalationStatus`. */
export type EscalationStatus = "pending" | "approved" | "rejected";

/** Facts of an escalation that decisions depend on. */
export interface EscalationState {
  readonly escalationId: string;
  readonly agentId: string;
  readonly actionDigest: string;
  status: EscalationStatus;
  /** Decision that used the approval up; null while it is unused. */
  usedBy: string | null;
  /** Approvals that it needs where rules name approvers, as `demandKey` gives them; an approval gave all of them. Default: none. */
  demands?: readonly string[];
  /** Epoch milliseconds. Pending: until then it can be approved. Approved: until then the approval can be used. */
  expiresAtMs: number;
}

/** Returns the id of the escalation that a decision creates. Both share one UUID. */
export const escalationIdOf = (decisionId: string): string => idWithPrefix("esc", decisionId);

/** An agent's pending escalations at some time. */
export interface PendingEscalations {
  /** Escalation of the given action; undefined if none is pending. */
  readonly same: EscalationState | undefined;
  readonly count: number;
}

/** Maximum numbers of cached resolved and unknown escalations. INVARIANT: greater than the number that one batch can present. */
const CACHED_RESOLVED = 1_000;
const CACHED_UNKNOWN = 1_000;

/**
 * The escalations of a workspace: all pending ones, and a cache of resolved ones that actions presented, since most are never
 * presented.
 */
export class Escalations {
  readonly #pending = new Map<string, EscalationState>();
  readonly #byAgent = new Map<string, Set<EscalationState>>();
  readonly #resolved = new LRUCache<string, EscalationState>({ maxSize: CACHED_RESOLVED, sizeCalculation: () => 1 });
  /** Looked up because an action presented them, and of no escalation. */
  readonly #unknown = new LRUCache<string, true>({ maxSize: CACHED_UNKNOWN, sizeCalculation: () => 1 });

  /** Returns an escalation if it is pending or in the cache. */
  get(escalationId: string): EscalationState | undefined {
    return this.#pending.get(escalationId) ?? this.#resolved.get(escalationId);
  }

  /** Tests whether it is known, without reading the database, which escalation has this id, or that no escalation has it. */
  knows(escalationId: string): boolean {
    return this.get(escalationId) !== undefined || this.#unknown.get(escalationId) === true;
  }

  /** Notes that no escalation has this id, until `put` adds one. */
  putUnknown(escalationId: string): void {
    this.#unknown.set(escalationId, true);
  }

  /** Adds an escalation: to the pending ones, or to the cache. */
  put(escalation: EscalationState): void {
    this.#unknown.delete(escalation.escalationId);
    if (escalation.status !== "pending") return void this.#resolved.set(escalation.escalationId, escalation);
    // A replica may have read it from its table before it folds the entry that created it.
    this.remove(escalation.escalationId);
    this.#pending.set(escalation.escalationId, escalation);
    const ofAgent = this.#byAgent.get(escalation.agentId);
    if (ofAgent === undefined) this.#byAgent.set(escalation.agentId, new Set([escalation]));
    else ofAgent.add(escalation);
  }

  /** Removes a pending escalation, and returns it; undefined if it is not pending. */
  remove(escalationId: string): EscalationState | undefined {
    const escalation = this.#pending.get(escalationId);
    if (escalation === undefined) return undefined;
    this.#pending.delete(escalationId);
    const ofAgent = this.#byAgent.get(escalation.agentId);
    ofAgent?.delete(escalation);
    if (ofAgent?.size === 0) this.#byAgent.delete(escalation.agentId);
    return escalation;
  }

  /** Resolves a pending escalation. `expiresAtMs` is the end of an approval. */
  resolve(escalationId: string, status: EscalationStatus, expiresAtMs: number | undefined): void {
    const escalation = this.remove(escalationId);
    if (escalation === undefined) return;
    escalation.status = status;
    escalation.expiresAtMs = expiresAtMs ?? escalation.expiresAtMs;
    this.put(escalation);
  }

  /** Adds what a later ask demands of a pending escalation. Returns how it was before; undefined if it is not pending. */
  addDemands(escalationId: string, added: readonly string[]): readonly string[] | undefined {
    const escalation = this.#pending.get(escalationId);
    if (escalation === undefined) return undefined;
    const before = escalation.demands ?? [];
    escalation.demands = [...before, ...added];
    return before;
  }

  /** Sets what a pending escalation demands. */
  setDemands(escalationId: string, demands: readonly string[]): void {
    const escalation = this.#pending.get(escalationId);
    if (escalation !== undefined) escalation.demands = demands;
  }

  /** Moves the expiry of a pending escalation. */
  extend(escalationId: string, expiresAtMs: number): void {
    const escalation = this.#pending.get(escalationId);
    if (escalation !== undefined) escalation.expiresAtMs = expiresAtMs;
  }

  /**
   * Finds the pending escalations of an agent at a time. Expired ones do not count, even if their expiry is not sealed yet, nor
   * does `exceptId`, which the agent's new escalation replaces.
   */
  pendingOf(agentId: string, actionDigest: string, nowMs: number, exceptId?: string): PendingEscalations {
    let same: EscalationState | undefined;
    let count = 0;
    for (const escalation of this.#byAgent.get(agentId) ?? []) {
      if (escalation.expiresAtMs <= nowMs || escalation.escalationId === exceptId) continue;
      count += 1;
      if (escalation.actionDigest === actionDigest) same = escalation;
    }
    return { same, count };
  }

  /** Returns the earliest expiry after a time; undefined if nothing pending expires after it. */
  nextExpiry(afterMs: number): number | undefined {
    let next: number | undefined;
    for (const { expiresAtMs } of this.#pending.values()) {
      if (expiresAtMs > afterMs && expiresAtMs < (next ?? Number.POSITIVE_INFINITY)) next = expiresAtMs;
    }
    return next;
  }

  /** Lists pending escalations that expired by a time, at most `limit`. */
  expired(nowMs: number, limit: number): readonly EscalationState[] {
    const found: EscalationState[] = [];
    for (const escalation of this.#pending.values()) {
      if (found.length === limit) break;
      if (escalation.expiresAtMs <= nowMs) found.push(escalation);
    }
    return found;
  }
}
