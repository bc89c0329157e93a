import type { Work } from "../async/work.ts";
import { decide } from "../decision/decide.ts";
import { refsOf } from "../log/batch.ts";
import { foldDecision, isCounted } from "../state/fold.ts";
import type { Action, Outcome } from "../state/types.ts";
import type { StateJournal, WorkspaceState } from "../state/workspace.ts";

/**
 * Decides actions one after the other as of one time, each on the state that the ones before it would leave. Leaves the state as
 * it was, also when it is ended early.
 */
export function* decideInTurn(
  live: WorkspaceState,
  actions: readonly Action[],
  nowMs: number,
): Work<readonly Outcome[]> {
  // The journal does not cover the lists for the next snapshot.
  const state: WorkspaceState = { ...live, trustChangedAt: new Map(), usesChangedAt: new Map() };
  const journal: StateJournal = { undo: [] };
  const outcomes: Outcome[] = [];
  try {
    for (const action of actions) {
      const outcome = decide(state, action, nowMs, journal);
      const place = { seq: live.seq + outcomes.length, atMs: nowMs };
      if (isCounted(action, outcome)) fold(state, action, outcome, place, journal);
      outcomes.push(outcome);
      yield;
    }
  } finally {
    undo(journal);
  }
  return outcomes;
}

/** Decides one action. Leaves the state as it was. */
export function decideAlone(state: WorkspaceState, action: Action, nowMs: number): Outcome {
  const journal: StateJournal = { undo: [] };
  try {
    return decide(state, action, nowMs, journal);
  } finally {
    undo(journal);
  }
}

function fold(
  state: WorkspaceState,
  { agentId, normalisedType: actionType, decisionId }: Action,
  outcome: Outcome,
  place: { readonly seq: number; readonly atMs: number },
  journal: StateJournal,
): void {
  const { principalId, decision } = outcome;
  const folded = { ...place, agentId, principalId, actionType, decisionId, decision, refs: refsOf(outcome) };
  foldDecision(state, folded, journal);
}

function undo(journal: StateJournal): void {
  for (const step of journal.undo.toReversed()) step();
}
