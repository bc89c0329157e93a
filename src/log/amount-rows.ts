import { heldAmount } from "../policy/outcome-status.ts";
import { AmountState } from "../state/counters/budget-history.ts";
import { isCounted } from "../state/fold.ts";
import { amountChangesOf } from "../state/outcomes.ts";
import type { AmountColumn } from "../store/sql/append-entries.ts";
import type { DecisionEntry } from "./entry.ts";
import type { FollowUpEntry } from "./follow-up.ts";
import type { ObservationEntry } from "./observation.ts";

/** Amount that an entry puts into a state in the pot of a budget, or takes out of it. */
export interface AmountRow {
  readonly pot: string;
  /** Time of the decision, epoch milliseconds. */
  readonly atMs: number;
  /** Index of the decision's entry. */
  readonly decisionSeq: number;
  /** Index of the entry. */
  readonly seq: number;
  /** As stored. */
  readonly state: number;
  readonly agentId: string;
  readonly principalId: string;
  /** Below 0 for an amount that is taken out. */
  readonly millionths: number;
}

/** The columns of an amount, each with its value. */
export const AMOUNT_COLUMNS: Readonly<Record<AmountColumn, (row: AmountRow) => string | number>> = {
  pot: ({ pot }) => pot,
  at_ms: ({ atMs }) => atMs,
  decision_seq: ({ decisionSeq }) => decisionSeq,
  seq: ({ seq }) => seq,
  state: ({ state }) => state,
  agent_id: ({ agentId }) => agentId,
  principal_id: ({ principalId }) => principalId,
  millionths: ({ millionths }) => millionths,
};

/** Lists the amounts that the entries of a batch reserve, capture and release. `first`: place of its first entry. */
export function amountRowsFrom(
  entries: readonly (DecisionEntry | FollowUpEntry | ObservationEntry)[],
  first: { readonly seq: number; readonly atMs: number },
): readonly AmountRow[] {
  return entries.flatMap((entry, index) => {
    if ("addition" in entry) return [];
    return "sealed" in entry ? changedBy(entry) : reservedBy(entry, { seq: first.seq + index, atMs: first.atMs });
  });
}

function reservedBy(
  { action, outcome }: DecisionEntry,
  { seq, atMs }: { readonly seq: number; readonly atMs: number },
): readonly AmountRow[] {
  if (outcome.reservations.length === 0 || !isCounted(action, outcome)) return [];
  const { agentId } = action;
  const { principalId = "" } = outcome;
  return outcome.reservations.map(({ pot, millionths, outcomes }) => ({
    pot,
    atMs,
    decisionSeq: seq,
    seq,
    state: AmountState.RESERVED,
    agentId,
    principalId,
    // Also of an amount that does not count yet: its outcome changes it at its time.
    millionths: heldAmount("pending", millionths, undefined, outcomes).reserved,
  }));
}

function changedBy({ sealed }: FollowUpEntry): readonly AmountRow[] {
  if (sealed.type === "claim") return [];
  const row = {
    atMs: Date.parse(sealed.decided_at),
    decisionSeq: sealed.decision_seq,
    seq: sealed.seq,
    agentId: sealed.agent_id,
    principalId: sealed.principal_id ?? "",
  };
  return amountChangesOf(sealed).flatMap(({ pot, reserved, captured }) => [
    ...(reserved === 0 ? [] : [{ ...row, pot, state: AmountState.RESERVED, millionths: reserved }]),
    ...(captured === 0 ? [] : [{ ...row, pot, state: AmountState.CAPTURED, millionths: captured }]),
  ]);
}
