import { OUTCOME_STATUS_NUMBERS } from "../state/types.ts";
import type { OutcomeColumn } from "../store/sql/append-entries.ts";
import type { DecisionEntry } from "./entry.ts";
import type { FollowUpEntry } from "./follow-up.ts";
import type { ObservationEntry } from "./observation.ts";

/** State of an action's outcome after a batch. */
export interface OutcomeRow {
  readonly decisionId: string;
  /** Index of the decision's entry. */
  readonly decisionSeq: number;
  readonly agentId: string;
  /** As stored. */
  readonly status: number;
  /** Time from which it becomes unknown, epoch milliseconds; empty unless it is pending. */
  readonly dueAtMs: number | "";
}

/** Status of an action that is claimed and whose outcome is not tracked. Lists find the claim by its row. */
const UNTRACKED = 0;

/** The columns of an action's outcome, each with its value. */
export const OUTCOME_COLUMNS: Readonly<Record<OutcomeColumn, (row: OutcomeRow) => string | number>> = {
  decision_id: ({ decisionId }) => decisionId,
  decision_seq: ({ decisionSeq }) => decisionSeq,
  agent_id: ({ agentId }) => agentId,
  status: ({ status }) => status,
  due_at_ms: ({ dueAtMs }) => dueAtMs,
};

/** Collects the outcomes that the entries of a batch track or settle, one for each decision: a statement can write a row only once. */
export function outcomeRowsFrom(
  entries: readonly (DecisionEntry | FollowUpEntry | ObservationEntry)[],
  firstSeq: number,
): readonly OutcomeRow[] {
  const rows = new Map<string, OutcomeRow>();
  for (const [index, entry] of entries.entries()) {
    if ("addition" in entry) continue;
    const row = "sealed" in entry ? rowFromFollowUp(entry) : rowFromDecision(entry, firstSeq + index);
    if (row !== undefined) rows.set(row.decisionId, row);
  }
  return [...rows.values()];
}

function rowFromDecision({ action, outcome }: DecisionEntry, seq: number): OutcomeRow | undefined {
  const { outcomeDueAtMs: dueAtMs } = outcome;
  if (dueAtMs === undefined) return undefined;
  const { decisionId, agentId } = action;
  return { decisionId, decisionSeq: seq, agentId, status: OUTCOME_STATUS_NUMBERS.pending, dueAtMs };
}

function rowFromFollowUp({ sealed }: FollowUpEntry): OutcomeRow {
  const { decision_id: decisionId, decision_seq: decisionSeq, agent_id: agentId } = sealed;
  const decision = { decisionId, decisionSeq, agentId };
  if (sealed.type === "outcome") return { ...decision, status: OUTCOME_STATUS_NUMBERS[sealed.status], dueAtMs: "" };
  if (sealed.outcome_due_at === undefined) return { ...decision, status: UNTRACKED, dueAtMs: "" };
  return { ...decision, status: OUTCOME_STATUS_NUMBERS.pending, dueAtMs: Date.parse(sealed.outcome_due_at) };
}
