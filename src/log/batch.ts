import { type Ask, type DecisionRefs, foldDecision, isCounted } from "../state/fold.ts";
import type { Action, Outcome, SealedDecision } from "../state/types.ts";
import type { StateJournal, WorkspaceState } from "../state/workspace.ts";
import { appendEntries, columnTexts } from "../store/sql/append-entries.ts";
import type { Reader } from "../store/transaction.ts";
import type { TracePlace } from "../tracing/trace-context.ts";
import { inSpan, type Tracing } from "../tracing/tracing.ts";
import { appendLeaves, bytesFromFrontier, type Frontier, leafHash, rootText } from "../tree/merkle.ts";
import { type DecisionEntry, decisionBody, ENTRY_COLUMNS } from "./entry.ts";
import { CHANGED_COLUMNS, CREATED_COLUMNS, escalationRowsFrom } from "./escalation-rows.ts";
import { type LedgerEvent, wakeUpPayload } from "./events.ts";
import type { PendingDecision, Steps } from "./queue.ts";

type LogEnd = Pick<WorkspaceState, "seq" | "lastAtMs" | "frontier">;

/** Milliseconds after which an append without an answer is given up, and its connection closed. */
const MAX_APPEND_MS = 15_000;

/** Milliseconds of deciding after which a batch takes no further action, so that requests of other workspaces get their turn. */
const MAX_DECIDE_MS = 10;

const NO_IDS: readonly string[] = [];
const NO_PLACES: readonly TracePlace[] = [];
const NO_REFS: DecisionRefs = { usedIds: NO_IDS, ask: undefined };

/** Returns the approval and the authority that an allowed action uses up, or the escalation that an action asks for. */
export function refsOf(outcome: Outcome): DecisionRefs {
  const { decision, usedEscalationId, authority } = outcome;
  if (decision === "escalate") return { usedIds: NO_IDS, ask: askOf(outcome) };
  if (decision !== "allow" || (usedEscalationId === undefined && authority.length === 0)) return NO_REFS;
  return { usedIds: usedEscalationId === undefined ? authority : [usedEscalationId, ...authority], ask: undefined };
}

function askOf({ escalationId, escalationExpiresAtMs: expiresAtMs, actionDigest = "" }: Outcome): Ask | undefined {
  if (escalationId === undefined) return undefined;
  return expiresAtMs === undefined ? { escalationId } : { escalationId, created: { actionDigest, expiresAtMs } };
}

/** An action that cannot be decided on the state at its turn, with its caller's error. */
export interface Undecided {
  readonly item: PendingDecision;
  readonly error: unknown;
}

/**
 * Actions that are decided in order on one state and appended by one statement. `decide` folds them into the state at once,
 * so that the next batch builds on them while they are in flight; `undo` rolls the state back when they were not appended.
 */
export class Batch {
  #items: readonly PendingDecision[];
  readonly #maxDecideMs: number;
  #left: readonly PendingDecision[] = [];
  readonly #undecided: Undecided[] = [];
  /** Entries of the decided items, in the order of the items. */
  readonly #entries: DecisionEntry[] = [];
  readonly #journal: StateJournal = { undo: [] };
  readonly #state: WorkspaceState;
  /** The end of the log that the batch builds on. */
  readonly #before: LogEnd;
  readonly #previousRoot: string;
  /** Time of the entries, epoch milliseconds. */
  readonly atMs: number;
  #leaves: readonly Buffer[] = [];
  #frontier: Frontier;
  readonly #subtrees: Uint8Array[] = [];

  /** Prepares a batch that builds on the state as it is. Its entries get the time `nowMs`, or the last entry's if later. */
  constructor(
    state: WorkspaceState,
    items: readonly PendingDecision[],
    nowMs: number,
    maxDecideMs: number = MAX_DECIDE_MS,
  ) {
    this.#maxDecideMs = maxDecideMs;
    this.#items = items;
    this.#state = state;
    this.#before = { seq: state.seq, lastAtMs: state.lastAtMs, frontier: state.frontier };
    this.#previousRoot = rootText(state.frontier);
    this.#frontier = state.frontier;
    this.atMs = Math.max(nowMs, state.lastAtMs);
  }

  /** Actions of the batch. Once `decide` has returned, those that could not be decided are no longer among them. */
  get items(): readonly PendingDecision[] {
    return this.#items;
  }

  /** Actions left to the next batch, because deciding those before them took too long. */
  get left(): readonly PendingDecision[] {
    return this.#left;
  }

  /** Actions that could not be decided. Their callers are not answered yet. */
  get undecided(): readonly Undecided[] {
    return this.#undecided;
  }

  /** Size of the log with the batch. */
  get endSeq(): number {
    return this.#before.seq + this.items.length;
  }

  /**
   * Decides the actions in order, each against the state that the one before it left. An action that cannot be decided leaves
   * the batch for `undecided`. Stops once deciding has taken its time; `left` has the rest. If writing the entries throws, the
   * state holds half a step.
   */
  decide(): void {
    const startedAt = performance.now();
    const decided: PendingDecision[] = [];
    for (const [index, item] of this.items.entries()) {
      if (this.#tryToDecide(item)) decided.push(item);
      if (performance.now() - startedAt < this.#maxDecideMs) continue;
      this.#left = this.items.slice(index + 1);
      break;
    }
    if (decided.length < this.items.length) this.#items = decided;
    this.#leaves = this.#entries.map(({ body }) => leafHash(body));
    this.#frontier = appendLeaves(this.#before.frontier, this.#leaves, this.#subtrees);
    this.#setEnd({ seq: this.endSeq, lastAtMs: this.atMs, frontier: this.#frontier });
  }

  /** Decides an action and folds it into the state. Returns false if it cannot be decided. */
  #tryToDecide(item: PendingDecision): boolean {
    const { undo } = this.#journal;
    const noted = undo.length;
    const count = this.#entries.length;
    try {
      this.#decideNext(item);
      return true;
    } catch (error) {
      for (const step of undo.splice(noted).reverse()) step();
      this.#entries.length = count;
      this.#undecided.push({ item, error });
      return false;
    }
  }

  #decideNext({ action, steps }: PendingDecision): void {
    const state = this.#state;
    const outcome = steps.decide(state, this.atMs, this.#journal);
    const seq = this.#before.seq + this.#entries.length;
    const place = {
      workspaceId: state.workspaceId,
      seq,
      atMs: this.atMs,
      previousRoot: this.#previousRoot,
      previousSize: this.#before.seq,
    };
    const refs = { ...refsOf(outcome), ...(action.keepsTrust === true ? { keepsTrust: true } : {}) };
    this.#entries.push({ action, outcome, refs, body: decisionBody(action, outcome, place) });
    if (!isCounted(action, outcome)) return;
    const { agentId, normalisedType: actionType, decisionId } = action;
    const { principalId, decision } = outcome;
    const folded = { seq, atMs: this.atMs, agentId, principalId, actionType, decisionId, decision, refs };
    foldDecision(state, folded, this.#journal);
  }

  /**
   * Compare-and-append: writes the entries if the log still ends where the batch was decided. Resolves with the database's
   * clock in epoch milliseconds, or undefined when another writer was first and nothing was written. Rejects with SQLSTATE
   * 23505 when one of the decisions exists already. The append is a span in the trace of its first traced action.
   */
  async send(client: Reader, tracing?: Tracing): Promise<number | undefined> {
    const [first, ...others] = tracing === undefined ? NO_PLACES : this.#tracedPlaces();
    if (tracing === undefined || first === undefined) return this.#append(client);
    const attributes = { "db.system.name": "postgresql", "agentcontrol.batch_size": this.items.length };
    const options = { kind: "client", parent: first, links: others, attributes } as const;
    return inSpan(
      tracing,
      "agentcontrol.append",
      () => options,
      () => this.#append(client),
    );
  }

  async #append(client: Reader): Promise<number | undefined> {
    const { name, text } = appendEntries;
    const statement = { name, text, values: this.#statementValues(), query_timeout: MAX_APPEND_MS };
    const { rows } = await client.query<{ now: number }>(statement);
    return rows[0]?.now;
  }

  #tracedPlaces(): readonly TracePlace[] {
    return this.items.flatMap(({ action: { trace } }) => (trace?.isSampled === true ? [trace] : []));
  }

  #statementValues(): unknown[] {
    const { workspaceId } = this.#state;
    const { created, changed } = escalationRowsFrom(this.#entries);
    return appendEntries.values({
      workspaceId,
      expectedSize: this.#before.seq,
      count: this.items.length,
      expectedFrontier: bytesFromFrontier(this.#before.frontier),
      frontier: bytesFromFrontier(this.#frontier),
      atMs: this.atMs,
      leafHashes: Buffer.concat(this.#leaves),
      subtreeRoots: Buffer.concat(this.#subtrees),
      wakeUp: this.isAwaited ? wakeUpPayload({ workspaceId, seq: this.endSeq, isChange: false }) : null,
      entries: columnTexts(this.#entries, ENTRY_COLUMNS),
      created: columnTexts(created, CREATED_COLUMNS),
      changed: columnTexts(changed, CHANGED_COLUMNS),
    });
  }

  /** Earliest expiry of the escalations that the batch creates, epoch milliseconds; undefined if it creates none. */
  get nextExpiryMs(): number | undefined {
    const expiries = this.#entries.flatMap(({ outcome }) => outcome.escalationExpiresAtMs ?? []);
    return expiries.length === 0 ? undefined : Math.min(...expiries);
  }

  /** True if callers on other replicas may wait for one of the decisions. */
  get isAwaited(): boolean {
    return this.#entries.some(
      ({ outcome: { escalationId, usedEscalationId } }) => escalationId !== undefined || usedEscalationId !== undefined,
    );
  }

  /** Returns the outcomes, in the order of the actions, once `decide` has returned. */
  get outcomes(): readonly Outcome[] {
    return this.#entries.map(({ outcome }) => outcome);
  }

  /** Answers the callers. MUST NOT be called before the batch is durable. */
  settle(): void {
    this.items.forEach((item, index) => {
      item.resolve(this.#sealed(index));
    });
  }

  /** The events that listeners hear of once the batch is durable. */
  events(): LedgerEvent[] {
    return this.#entries.map(({ action: { decisionId, agentId }, outcome: { decision }, refs }, index) => {
      const seq = this.#before.seq + index;
      return { kind: "decision", seq, atMs: this.atMs, decisionId, agentId, decision, ask: refs.ask };
    });
  }

  /** Rolls the state back to before the batch. Batches MUST be undone in reverse order. */
  undo(): void {
    for (const step of this.#journal.undo.reverse()) step();
    this.#setEnd(this.#before);
  }

  #setEnd(end: LogEnd): void {
    Object.assign(this.#state, end);
  }

  #sealed(index: number): SealedDecision {
    const { action, outcome } = this.#entries[index] as DecisionEntry;
    return {
      decisionId: action.decisionId,
      seq: this.#before.seq + index,
      atMs: this.atMs,
      agentId: action.agentId,
      actionType: action.actionType,
      registeredTool: outcome.tool?.name,
      decision: outcome.decision,
      path: outcome.path,
      trustTenths: outcome.cappedTrustTenths ?? outcome.trustBeforeTenths,
      escalationId: outcome.escalationId,
      policyName: outcome.policyName,
      reasons: outcome.reasons,
      isReplayed: false,
      isKeyEnded: outcome.isKeyEnded,
    };
  }
}

/** Decides one action as a batch of its own, without a waiting caller. Throws what deciding throws. */
export function decidedAlone(state: WorkspaceState, action: Action, steps: Steps, nowMs: number): Batch {
  const item = { action, steps, isAbandoned: () => false, resolve: () => undefined, reject: () => undefined };
  const batch = new Batch(state, [item], nowMs);
  batch.decide();
  const [undecided] = batch.undecided;
  if (undecided !== undefined) throw undecided.error;
  return batch;
}
