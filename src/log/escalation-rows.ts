import type { SealedDemand } from "../state/control-changes.ts";
import type { Action, Outcome } from "../state/types.ts";
import type { ChangedEscalationColumn, CreatedEscalationColumn } from "../store/sql/append-entries.ts";
import type { DecisionEntry } from "./entry.ts";
import type { FollowUpEntry } from "./follow-up.ts";
import type { ObservationEntry } from "./observation.ts";

/** Changes of a batch to one escalation. */
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
  /** Ids of the keys that asked. */
  readonly keys: Set<string>;
  /** Position in the batch of the last ask that joined the escalation; empty if none did. */
  lastAsk: number | "";
  /** The decision that used the approval up; empty while it is unused. */
  usedBy: string;
  /** The escalation that a later ask created or joined in its place; empty otherwise. */
  replacedBy: string;
  /** Demands of the batch's decisions on it. */
  readonly needs: SealedDemand[];
}

type Column = (row: EscalationRow) => string | number;

const needsText: Column = ({ needs }) => (needs.length === 0 ? "" : JSON.stringify(needs));

/** Returns the earliest time at which people are reminded, epoch milliseconds; empty for no reminder. */
const remindAt: Column = ({ needs }) => {
  const times = needs.flatMap(({ remind_at }) => (remind_at === undefined ? [] : [Date.parse(remind_at)]));
  return times.length === 0 ? "" : Math.min(...times);
};

/** The columns of an escalation that a batch creates, each with its value. */
export const CREATED_COLUMNS: Readonly<Record<CreatedEscalationColumn, Column>> = {
  escalation_id: ({ id }) => id,
  agent_id: ({ agentId }) => agentId,
  action_digest: ({ actionDigest }) => actionDigest,
  created_seq: ({ index }) => index,
  expires_at_ms: ({ expiresAtMs }) => expiresAtMs,
  asked: ({ asked }) => asked,
  asked_by: ({ keys }) => JSON.stringify([...keys]),
  updated_seq: ({ lastAsk }) => lastAsk,
  needs: needsText,
  remind_at_ms: remindAt,
};

/** The columns of an earlier escalation that a batch changes, each with its value. */
export const CHANGED_COLUMNS: Readonly<Record<ChangedEscalationColumn, Column>> = {
  escalation_id: ({ id }) => id,
  used_by: ({ usedBy }) => usedBy,
  replaced_by: ({ replacedBy }) => replacedBy,
  asked: ({ asked }) => asked,
  asked_by: ({ keys }) => JSON.stringify([...keys]),
  updated_seq: ({ lastAsk }) => lastAsk,
  needs: needsText,
  remind_at_ms: remindAt,
};

/**
 * Escalation rows of a batch, one for each escalation: a statement can write a row only once. Both lists follow the order of
 * the decisions.
 */
export interface EscalationRows {
  /** The escalations that the batch creates. */
  readonly created: readonly EscalationRow[];
  /** The earlier escalations that the batch joins, uses up or replaces. */
  readonly changed: readonly EscalationRow[];
}

/** Collects the effects of a batch's decisions on escalations, by row. */
export function escalationRowsFrom(
  entries: readonly (DecisionEntry | FollowUpEntry | ObservationEntry)[],
): EscalationRows {
  const created = new Map<string, EscalationRow>();
  const changed = new Map<string, EscalationRow>();
  const change = (id: string, action: Action, index: number): EscalationRow => {
    const row = changed.get(id) ?? rowFrom(action, { escalationId: id }, index);
    changed.set(id, row);
    return row;
  };
  for (const [index, entry] of entries.entries()) {
    if ("sealed" in entry || "addition" in entry) continue;
    const { action, outcome } = entry;
    const { escalationId, escalationExpiresAtMs, usedEscalationId, replacedEscalationId } = outcome;
    if (usedEscalationId !== undefined) change(usedEscalationId, action, index).usedBy = action.decisionId;
    if (escalationId === undefined) continue;
    if (escalationExpiresAtMs !== undefined) created.set(escalationId, rowFrom(action, outcome, index));
    const row = created.get(escalationId) ?? change(escalationId, action, index);
    if (escalationExpiresAtMs === undefined) row.lastAsk = index;
    row.needs.push(...outcome.demands);
    row.asked += 1;
    row.keys.add(action.keyId);
    if (replacedEscalationId !== undefined) change(replacedEscalationId, action, index).replacedBy = escalationId;
  }
  return { created: [...created.values()], changed: [...changed.values()] };
}

function rowFrom({ agentId }: Action, outcome: Partial<Outcome>, index: number): EscalationRow {
  return {
    id: outcome.escalationId ?? "",
    agentId,
    actionDigest: outcome.actionDigest ?? "",
    expiresAtMs: outcome.escalationExpiresAtMs ?? 0,
    index,
    asked: 0,
    keys: new Set(),
    lastAsk: "",
    usedBy: "",
    replacedBy: "",
    needs: [],
  };
}
