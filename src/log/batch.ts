import type { Pool, PoolClient, QueryConfig } from "pg";
import { createVelocityJournal } from "../state/counters/windows.ts";
import { numberFromDecision } from "../state/stored-enums.ts";
import type { Action, Outcome, SealedDecision } from "../state/types.ts";
import { foldDecision, type StateJournal, type WorkspaceState } from "../state/workspace.ts";
import { idWithPrefix } from "../store/ids.ts";
import { appendEntries, appendEntry, appendEscalations } from "../store/sql/append-entries.ts";
import { appendLeaves, bytesFromFrontier, type Frontier, leafHashAt } from "../tree/merkle.ts";
import { type Bodies, encodedBodies, storedBodies } from "./body-packs.ts";
import { decisionBody } from "./entry.ts";
import type { LedgerEvent, WakeUp } from "./events.ts";

/** Decides one action against a state. Pure and synchronous; counts come from the state's windows. */
export type Decide = (state: WorkspaceState, action: Action, nowMs: number, journal: StateJournal) => Outcome;

/** Where a log ends. */
type LogEnd = Pick<WorkspaceState, "seq" | "lastAtMs" | "frontier">;

/** A batch that was decided against the state at `before` and is folded into it, but not durable yet. */
export interface DecidedBatch {
  readonly actions: readonly Action[];
  readonly outcomes: readonly Outcome[];
  readonly columns: DecisionColumns;
  readonly bodies: Bodies;
  readonly leaves: readonly Buffer[];
  /** The roots of the perfect subtrees that the leaves complete, in the order of completion. */
  readonly subtrees: readonly Uint8Array[];
  readonly frontier: Frontier;
  /** The end of the log that the batch is appended to. */
  readonly before: LogEnd;
  readonly atMs: number;
  readonly journal: StateJournal;
}

const LINE = "\n";

const leavesOf = ({ bytes, starts, lengths }: Bodies): Buffer[] =>
  starts.map((start, index) => leafHashAt(bytes, start, start + (lengths[index] as number)));

function undoJournal(state: WorkspaceState, journal: StateJournal): void {
  for (const undo of journal.undo.reverse()) undo();
  state.windows.undo(journal.velocity);
}

/**
 * Decides a batch in order, each action against what the ones before it did to the state, and makes it part of the state
 * until it is undone. Leaves the state as it was when an action cannot be decided.
 */
export function decideBatch(
  state: WorkspaceState,
  actions: readonly Action[],
  nowMs: number,
  decide: Decide,
): DecidedBatch {
  const atMs = Math.max(nowMs, state.lastAtMs);
  const at = new Date(atMs).toISOString();
  const previousRoot = state.rootText(state.frontier);
  const journal: StateJournal = { velocity: createVelocityJournal(), undo: [] };
  const outcomes: Outcome[] = [];
  const texts: string[] = [];
  const place = { workspaceId: state.workspaceId, at, previousRoot, previousSize: state.seq };
  const decideOne = (action: Action, index: number): void => {
    const outcome = decide(state, action, atMs, journal);
    const seq = state.seq + index;
    outcomes.push(outcome);
    texts.push(decisionBody(action, outcome, { ...place, seq }));
    foldDecision(state, foldedFrom(action, outcome, atMs), seq + 1, journal);
  };
  try {
    actions.forEach(decideOne);
  } catch (error) {
    undoJournal(state, journal);
    throw error;
  }
  // Encoded once, for hashing and for the statement.
  const bodies = encodedBodies(texts);
  const leaves = leavesOf(bodies);
  const subtrees: Uint8Array[] = [];
  const frontier = appendLeaves(state.frontier, leaves, subtrees);
  const before = { seq: state.seq, lastAtMs: state.lastAtMs, frontier: state.frontier };
  Object.assign(state, { seq: before.seq + actions.length, lastAtMs: atMs, frontier } satisfies LogEnd);
  const columns = columnsOf(actions, outcomes);
  return { actions, outcomes, columns, bodies, leaves, subtrees, frontier, before, atMs, journal };
}

const foldedFrom = (action: Action, outcome: Outcome, atMs: number) => ({
  agentId: action.agentId,
  actionType: action.normalisedType,
  decision: outcome.decision,
  atMs,
  decisionId: action.decisionId,
  usedIds: usedIdsOf(outcome),
});

const NOTHING: readonly string[] = [];

/** What a decision uses up: an approval, and authority only when the action is allowed under it. */
function usedIdsOf({ decision, usedEscalationId, authority }: Outcome): readonly string[] {
  if (usedEscalationId === undefined && authority.length === 0) return NOTHING;
  const approval = usedEscalationId === undefined ? NOTHING : [usedEscalationId];
  return decision === "allow" ? [...approval, ...authority] : approval;
}

/** Takes a batch that was not appended out of the state. MUST be the last that was decided and not undone. */
export function undoBatch(state: WorkspaceState, { before, journal }: DecidedBatch): void {
  undoJournal(state, journal);
  Object.assign(state, before);
}

/** What entries say of decisions beside their bodies: a value for each, joined by line feeds, which no value holds. */
export interface DecisionColumns {
  readonly ids: string;
  readonly agents: string;
  /** As patterns see them. */
  readonly types: string;
  /** In numbers, as the log stores them. */
  readonly decisions: string;
  /** What each used up: ids joined by spaces. */
  readonly used: string;
}

function columnsOf(actions: readonly Action[], outcomes: readonly Outcome[]): DecisionColumns {
  return {
    ids: actions.map(({ decisionId }) => decisionId).join(LINE),
    agents: actions.map(({ agentId }) => agentId).join(LINE),
    types: actions.map(({ normalisedType }) => normalisedType).join(LINE),
    decisions: outcomes.map(({ decision }) => numberFromDecision(decision)).join(LINE),
    used: outcomes.map((outcome) => usedIdsOf(outcome).join(" ")).join(LINE),
  };
}

/**
 * Bytes that node-postgres lets go of when it has written the statement. By itself a query holds its values to its end and
 * beyond: the bodies of every batch stayed until a full collection, and brought it on.
 */
function sentOnce(bytes: Buffer): { toPostgres(): Buffer } {
  let unsent: Buffer | undefined = bytes;
  return {
    toPostgres() {
      if (unsent === undefined) throw new Error("the bodies of a batch were sent before");
      const sent = unsent;
      unsent = undefined;
      return sent;
    },
  };
}

function entryValues(state: WorkspaceState, batch: DecidedBatch, inRows: Buffer): unknown[] {
  const { actions, before, columns } = batch;
  return [
    state.workspaceId,
    before.seq,
    actions.length,
    bytesFromFrontier(batch.frontier),
    batch.atMs,
    columns.ids,
    columns.agents,
    columns.types,
    columns.decisions,
    columns.used,
    Buffer.concat(batch.leaves),
    sentOnce(inRows),
    Buffer.concat(batch.subtrees),
    bytesFromFrontier(before.frontier),
  ];
}

interface EscalationColumns {
  readonly ids: string[];
  readonly agents: string[];
  readonly digests: string[];
  readonly positions: number[];
  readonly used: string[];
  readonly users: string[];
}

function escalationColumns({ actions, outcomes }: DecidedBatch): EscalationColumns {
  const columns: EscalationColumns = { ids: [], agents: [], digests: [], positions: [], used: [], users: [] };
  outcomes.forEach((outcome, position) => {
    const action = actions[position] as Action;
    if (outcome.escalationId !== undefined) {
      columns.ids.push(outcome.escalationId);
      columns.agents.push(action.agentId);
      columns.digests.push(outcome.actionDigest ?? "");
      columns.positions.push(position);
    }
    if (outcome.usedEscalationId === undefined) return;
    columns.used.push(outcome.usedEscalationId);
    columns.users.push(action.decisionId);
  });
  return columns;
}

const joined = (values: readonly (string | number)[]): string | null =>
  values.length === 0 ? null : values.join(LINE);

/** The size of the log with a batch. */
export const sizeAfter = ({ before, actions }: DecidedBatch): number => before.seq + actions.length;

/** The payload that tells other replicas how far a workspace's log reaches. */
export const wakeUpPayload = ({ workspaceId, seq, isChange }: WakeUp): string =>
  `${workspaceId} ${seq} ${isChange ? "change" : "decisions"}`;

function statementOf(state: WorkspaceState, batch: DecidedBatch): QueryConfig {
  // What is not allowed is shown to people and told to webhooks, one by one.
  const isReadAlone = (index: number): boolean => batch.outcomes[index]?.decision !== "allow";
  const { inRows, packs } = storedBodies(batch.bodies, isReadAlone);
  const entry = entryValues(state, batch, inRows.bytes);
  const { ids, agents, digests, positions, used, users } = escalationColumns(batch);
  const packPlaces = [packs.firsts, packs.starts, packs.lengths].map(joined);
  const values = [...entry, inRows.starts.join(LINE), inRows.lengths.join(LINE), packs.bytes, ...packPlaces];
  if (ids.length === 0 && used.length === 0) {
    if (batch.actions.length === 1) return { ...appendEntry, values: entry };
    return { ...appendEntries, values };
  }
  const wakeUp = wakeUpPayload({ workspaceId: state.workspaceId, seq: sizeAfter(batch), isChange: false });
  const columns = [ids, agents, digests, positions, used, users].map(joined);
  return { ...appendEscalations, values: [...values, ...columns, wakeUp] };
}

/**
 * Appends a decided batch in one round trip. Gives the database's clock in epoch milliseconds, or undefined when another
 * writer was first and nothing was written. Rejects with SQLSTATE 23505 when a decision of the batch exists already.
 */
export async function appendBatch(
  client: Pool | PoolClient,
  state: WorkspaceState,
  batch: DecidedBatch,
): Promise<number | undefined> {
  const { rows } = await client.query<{ now: number }>(statementOf(state, batch));
  return rows[0]?.now;
}

/** What the caller of one action of a durable batch hears. */
export function sealedDecisionFrom(batch: DecidedBatch, index: number): SealedDecision {
  const action = batch.actions[index] as Action;
  const outcome = batch.outcomes[index] as Outcome;
  return {
    decisionId: action.decisionId,
    seq: batch.before.seq + index,
    atMs: batch.atMs,
    agentId: action.agentId,
    actionType: action.actionType,
    decision: outcome.decision,
    path: outcome.path,
    trustBeforeTenths: outcome.trustBeforeTenths,
    trustAfterTenths: outcome.trustAfterTenths,
    escalationId: outcome.escalationId,
    policyName: outcome.policyName,
    reasons: outcome.reasons,
  };
}

/** What listeners hear of a durable batch. */
export function eventsFrom({ actions, outcomes, before: { seq }, atMs }: DecidedBatch): LedgerEvent[] {
  return actions.map(({ decisionId, agentId }, index) => {
    const { decision } = outcomes[index] as Outcome;
    return { kind: "decision", seq: seq + index, atMs, decisionId, agentId, decision };
  });
}

/** The escalation that a decision creates shares the decision's UUID. */
export const escalationIdOf = (decisionId: string): string => idWithPrefix("esc", decisionId);
