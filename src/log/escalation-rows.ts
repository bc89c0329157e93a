import type { Action, Outcome } from "../state/types.ts";

/** The part of a batch that concerns one escalation. */
interface EscalationRow {
  readonly id: string;
  readonly agentId: string;
  /** Set if the batch creates the escalation. */
  readonly actionDigest: string;
  readonly expiresAtMs: number;
  /** Position in the batch of the decision that creates it. */
  readonly index: number;
  /** Asks in the batch. */
  asked: number;
  /** The keys that asked. */
  readonly keys: Set<string>;
  /** Position in the batch of the last ask that joined it; empty for none. */
  lastAsk: number | "";
  /** The decision that used the approval up; empty for none. */
  usedBy: string;
  /** The escalation that a later asker got; empty for none. */
  replacedBy: string;
}

/** Collects what a batch does to escalations, one row for each, in the order of the decisions. */
export class EscalationRows {
  readonly #created = new Map<string, EscalationRow>();
  readonly #changed = new Map<string, EscalationRow>();

  /** The escalations that the batch creates. */
  get created(): readonly EscalationRow[] {
    return [...this.#created.values()];
  }

  /** The earlier escalations that the batch joins, uses up or replaces. */
  get changed(): readonly EscalationRow[] {
    return [...this.#changed.values()];
  }

  /** Adds a decision that asks for an approval or uses one up. */
  add(action: Action, outcome: Outcome, index: number): void {
    const { escalationId, usedEscalationId, replacedEscalationId } = outcome;
    if (usedEscalationId !== undefined) this.#change(usedEscalationId, action, index).usedBy = action.decisionId;
    if (escalationId === undefined) return;
    if (outcome.escalationExpiresAtMs !== undefined) this.#created.set(escalationId, rowFrom(action, outcome, index));
    const row = this.#created.get(escalationId) ?? this.#change(escalationId, action, index);
    if (outcome.escalationExpiresAtMs === undefined) row.lastAsk = index;
    row.asked += 1;
    row.keys.add(action.keyId);
    if (replacedEscalationId !== undefined) this.#change(replacedEscalationId, action, index).replacedBy = escalationId;
  }

  #change(id: string, action: Action, index: number): EscalationRow {
    const row = this.#changed.get(id) ?? rowFrom(action, { escalationId: id }, index);
    this.#changed.set(id, row);
    return row;
  }
}

function rowFrom({ agentId }: Action, outcome: Partial<Outcome>, index: number): EscalationRow {
  const { escalationId: id = "", actionDigest = "", escalationExpiresAtMs: expiresAtMs = 0 } = outcome;
  return {
    ...{ id, agentId, actionDigest, expiresAtMs, index },
    ...{ asked: 0, keys: new Set(), lastAsk: "", usedBy: "", replacedBy: "" },
  };
}
