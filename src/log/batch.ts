import { distinctKeys } from "../policy/approvers.ts";
import { type Ask, type DecisionRefs, foldDecision, foldFollowUp, isCounted, usedStep } from "../state/fold.ts";
import type { Action, Outcome, SealedDecision } from "../state/types.ts";
import type { StateJournal, WorkspaceState } from "../state/workspace.ts";
import { appendEntries, columnTexts, type EntryColumn } from "../store/sql/append-entries.ts";
import type { Reader } from "../store/transaction.ts";
import type { TracePlace } from "../tracing/trace-context.ts";
import { inSpan, type Tracing } from "../tracing/tracing.ts";
import { appendLeaves, bytesFromFrontier, type Frontier, leafHash, rootText } from "../tree/merkle.ts";
import { AMOUNT_COLUMNS, amountRowsFrom } from "./amount-rows.ts";
import { type DecisionEntry, type DecisionPlace, decisionBody, ENTRY_COLUMNS } from "./entry.ts";
import { CHANGED_COLUMNS, CREATED_COLUMNS, escalationRowsFrom } from "./escalation-rows.ts";
import { type LedgerEvent, wakeUpPayload } from "./events.ts";
import { FOLLOW_UP_COLUMNS, type FollowUpDraft, type FollowUpEntry, followUpEntry, withFollowUp } from "./follow-up.ts";
import {
  OBSERVATION_COLUMNS,
  OBSERVATION_ENTRY_COLUMNS,
  type ObservationEntry,
  observationRowsFrom,
  observe,
  type PendingObservation,
} from "./observation.ts";
import { OUTCOME_COLUMNS, type OutcomeRow, outcomeRowsFrom } from "./outcome-rows.ts";
import {
  isFollowUp,
  isObservation,
  type PendingDecision,
  type PendingFollowUp,
  type PendingItem,
  type Steps,
} from "./queue.ts";

type LogEnd = Pick<WorkspaceState, "seq" | "lastAtMs" | "frontier">;

/** Milliseconds after which an append without an answer is given up, and its connection closed. */
const MAX_APPEND_MS = 15_000;

/** Milliseconds of deciding after which a batch takes no further action, so that requests of other workspaces get their turn. */
const MAX_DECIDE_MS = 10;

const NO_IDS: readonly string[] = [];
const NO_PLACES: readonly TracePlace[] = [];
const NO_REFS: DecisionRefs = { usedIds: NO_IDS, ask: undefined };

/** Returns the approval and the authority that an allowed action uses up, with what it reserves, or the escalation that an action asks for. */
export function refsOf(outcome: Outcome): DecisionRefs {
  const { decision, usedEscalationId, reservations } = outcome;
  if (decision === "escalate") return { usedIds: NO_IDS, ask: askOf(outcome) };
  if (decision !== "allow") return NO_REFS;
  const authority = usedAuthority(outcome);
  if (usedEscalationId === undefined && authority.length === 0 && reservations.length === 0) return NO_REFS;
  const usedIds = usedEscalationId === undefined ? authority : [usedEscalationId, ...authority];
  return {
    usedIds,
    ask: undefined,
    ...(reservations.length > 0 && { reservations }),
    ...(exceedsBudget(outcome) && { isOverdrawn: true }),
  };
}

/** Returns references to the authority of an action, an intent contract's with the step of its plan. */
function usedAuthority({ authority, contracts }: Outcome): readonly string[] {
  if (contracts.every(({ step }) => step === undefined)) return authority;
  const steps = new Map(contracts.map(({ contractId, step }) => [contractId, step]));
  return authority.map((id) => {
    const step = steps.get(id);
    return step === undefined ? id : usedStep(id, step);
  });
}

/** Tests whether an approval let an action exceed a budget of a mandate that is enforced. */
function exceedsBudget({ path, policy }: Outcome): boolean {
  if (path !== "approved" || policy === undefined) return false;
  const { collectiveLimits, fired } = policy;
  return collectiveLimits.some(
    ({ budget, mandateId }) =>
      budget !== undefined && budget.total > budget.limit && fired.some(({ mandate }) => mandate.id === mandateId),
  );
}

function askOf({
  escalationId,
  escalationExpiresAtMs: expiresAtMs,
  actionDigest = "",
  demands,
}: Outcome): Ask | undefined {
  if (escalationId === undefined) return undefined;
  const keys = distinctKeys(demands.map(({ groups, at_least: atLeast }) => ({ groups, atLeast })));
  const ask = keys.length === 0 ? { escalationId } : { escalationId, demands: keys };
  return expiresAtMs === undefined ? ask : { ...ask, created: { actionDigest, expiresAtMs } };
}

type Entry = DecisionEntry | FollowUpEntry | ObservationEntry;

const isDecisionEntry = (entry: Entry): entry is DecisionEntry => "action" in entry;
const isObservationEntry = (entry: Entry): entry is ObservationEntry => "addition" in entry;

function columnOf(column: EntryColumn, entry: Entry): string | number {
  if (isDecisionEntry(entry)) return ENTRY_COLUMNS[column](entry);
  return isObservationEntry(entry) ? OBSERVATION_ENTRY_COLUMNS[column](entry) : FOLLOW_UP_COLUMNS[column](entry);
}

/** The columns of an entry, each with its value. */
const COLUMNS = Object.fromEntries(
  (Object.keys(ENTRY_COLUMNS) as EntryColumn[]).map((column) => [column, (entry: Entry) => columnOf(column, entry)]),
) as Readonly<Record<EntryColumn, (entry: Entry) => string | number>>;

/** An action that cannot be decided on the state at its turn, with its caller's error. */
export interface Undecided {
  readonly item: PendingDecision;
  readonly error: unknown;
}

/**
 * Actions that are decided in order on one state and appended by one statement, with claims and reports among them. `decide` folds them into the state at once,
 * so that the next batch builds on them while they are in flight; `undo` rolls the state back when they were not appended.
 */
export class Batch {
  #items: readonly PendingItem[];
  readonly #maxDecideMs: number;
  #left: readonly PendingItem[] = [];
  readonly #undecided: Undecided[] = [];
  /** Entries of the items, in their order. A claim or a report that the log answers already has none. */
  readonly #entries: Entry[] = [];
  /** Answers the caller of each item, in the order of the items. */
  readonly #settlements: (() => void)[] = [];
  readonly #journal: StateJournal = { undo: [] };
  readonly #state: WorkspaceState;
  /** The end of the log that the batch builds on. */
  readonly #before: LogEnd;
  readonly #previousRoot: string;
  /** Time of the entries, epoch milliseconds. */
  readonly atMs: number;
  /** Outcomes that the batch tracks or settles. */
  #outcomeRows: readonly OutcomeRow[] = [];
  #leaves: readonly Buffer[] = [];
  #frontier: Frontier;
  readonly #subtrees: Uint8Array[] = [];

  /** Prepares a batch that builds on the state as it is. Its entries get the time `nowMs`, or the last entry's if later. */
  constructor(
    state: WorkspaceState,
    items: readonly PendingItem[],
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

  /** Items of the batch. Once `decide` has returned, actions that could not be decided are no longer among them. */
  get items(): readonly PendingItem[] {
    return this.#items;
  }

  /** Items left to the next batch, because deciding those before them took too long. */
  get left(): readonly PendingItem[] {
    return this.#left;
  }

  /** Actions that could not be decided. Their callers are not answered yet. */
  get undecided(): readonly Undecided[] {
    return this.#undecided;
  }

  /** Size of the log with the batch. */
  get endSeq(): number {
    return this.#before.seq + this.#entries.length;
  }

  /** True once `decide` has returned, if the log answers all items already: there is nothing to append. */
  get isEmpty(): boolean {
    return this.#entries.length === 0;
  }

  /**
   * Decides the actions in order, each against the state that the one before it left. An action that cannot be decided leaves
   * the batch for `undecided`. Stops once deciding has taken its time; `left` has the rest. If writing the entries throws, the
   * state holds half a step.
   */
  decide(): void {
    const startedAt = performance.now();
    const decided: PendingItem[] = [];
    for (const [index, item] of this.items.entries()) {
      if (this.#tryToDecide(item)) decided.push(item);
      if (performance.now() - startedAt < this.#maxDecideMs) continue;
      this.#left = this.items.slice(index + 1);
      break;
    }
    if (decided.length < this.items.length) this.#items = decided;
    this.#outcomeRows = outcomeRowsFrom(this.#entries, this.#before.seq);
    this.#leaves = this.#entries.map(({ body }) => leafHash(body));
    this.#frontier = appendLeaves(this.#before.frontier, this.#leaves, this.#subtrees);
    this.#setEnd({ seq: this.endSeq, lastAtMs: this.atMs, frontier: this.#frontier });
  }

  /** Decides an item and folds it into the state. Returns false for an action that cannot be decided. */
  #tryToDecide(item: PendingItem): boolean {
    if (isFollowUp(item)) {
      this.#follow(item);
      return true;
    }
    if (isObservation(item)) {
      this.#observe(item);
      return true;
    }
    const { undo } = this.#journal;
    const noted = undo.length;
    const count = this.#entries.length;
    const settled = this.#settlements.length;
    try {
      this.#decideNext(item);
      return true;
    } catch (error) {
      for (const step of undo.splice(noted).reverse()) step();
      this.#entries.length = count;
      this.#settlements.length = settled;
      this.#undecided.push({ item, error });
      return false;
    }
  }

  /** Place of the next entry. */
  get #place(): DecisionPlace {
    return {
      workspaceId: this.#state.workspaceId,
      seq: this.endSeq,
      atMs: this.atMs,
      previousRoot: this.#previousRoot,
      previousSize: this.#before.seq,
    };
  }

  #decideNext(item: PendingDecision): void {
    const { action, steps } = item;
    const state = this.#state;
    const outcome = steps.decide(state, this.atMs, this.#journal);
    const place = this.#place;
    const { seq } = place;
    const refs = { ...refsOf(outcome), ...(action.keepsTrust === true ? { keepsTrust: true } : {}) };
    const entry = { action, outcome, refs, body: decisionBody(action, outcome, place) };
    this.#entries.push(entry);
    this.#settlements.push(() => item.resolve(this.#sealed(entry, seq)));
    if (!isCounted(action, outcome)) return;
    const { agentId, normalisedType: actionType, decisionId } = action;
    const { principalId, decision } = outcome;
    const folded = { seq, atMs: this.atMs, agentId, principalId, actionType, decisionId, decision, refs };
    foldDecision(state, folded, this.#journal);
  }

  /**
   * Takes the step of a claim or a report. The answer waits for the batch even if it needs no entry: it may rest on one that is in
   * flight.
   */
  #follow(item: PendingFollowUp): void {
    const { decisionId, read } = item;
    if (read === undefined) throw new Error(`decision \`${decisionId}\` was not read`);
    const followed = { ...read.followed, ...this.#state.outcomes.foldedOf(decisionId) };
    let draft: FollowUpDraft | undefined;
    try {
      draft = item.followUp(followed, this.#state, this.atMs);
    } catch (error) {
      this.#settlements.push(() => item.reject(error));
      return;
    }
    if (draft === undefined) {
      this.#settlements.push(() => item.resolve(followed));
      return;
    }
    const entry = followUpEntry(draft, followed.receipt, this.#place);
    this.#entries.push(entry);
    foldFollowUp(this.#state, entry.sealed, this.#journal);
    this.#settlements.push(() => item.resolve(withFollowUp(followed, entry)));
  }

  /** Takes what a session observed. As for a claim, the answer waits for the batch. */
  #observe(item: PendingObservation): void {
    const { observation } = item;
    const { sessionId } = observation;
    try {
      const observed = observe(this.#state, observation, this.#place);
      if (observed.kind === "new") {
        const { entry, before, after } = observed;
        this.#entries.push(entry);
        this.#state.sessions.put(sessionId, after);
        this.#journal.undo.push(() => this.#state.sessions.put(sessionId, before));
      }
      this.#settlements.push(() => item.resolve(observed.sealed));
    } catch (error) {
      this.#settlements.push(() => item.reject(error));
    }
  }

  /**
   * Compare-and-append: writes the entries if the log still ends where the batch was decided. Resolves with the database's
   * clock in epoch milliseconds, or undefined when another writer was first and nothing was written. Rejects with SQLSTATE
   * 23505 when one of the entries exists already. The append is a span in the trace of its first traced action.
   */
  async send(client: Reader, tracing?: Tracing): Promise<number | undefined> {
    const [first, ...others] = tracing === undefined ? NO_PLACES : this.#tracedPlaces();
    if (tracing === undefined || first === undefined) return this.#append(client);
    const attributes = { "db.system.name": "postgresql", "agentcontrol.batch_size": this.#entries.length };
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
    return this.#entries.flatMap((entry) =>
      isDecisionEntry(entry) && entry.action.trace?.isSampled === true ? [entry.action.trace] : [],
    );
  }

  #statementValues(): unknown[] {
    const { workspaceId } = this.#state;
    const { created, changed } = escalationRowsFrom(this.#entries);
    return appendEntries.values({
      workspaceId,
      expectedSize: this.#before.seq,
      count: this.#entries.length,
      expectedFrontier: bytesFromFrontier(this.#before.frontier),
      frontier: bytesFromFrontier(this.#frontier),
      atMs: this.atMs,
      leafHashes: Buffer.concat(this.#leaves),
      subtreeRoots: Buffer.concat(this.#subtrees),
      wakeUp: this.isAwaited ? wakeUpPayload({ workspaceId, seq: this.endSeq, isChange: false }) : null,
      entries: columnTexts(this.#entries, COLUMNS),
      created: columnTexts(created, CREATED_COLUMNS),
      changed: columnTexts(changed, CHANGED_COLUMNS),
      outcomes: columnTexts(this.#outcomeRows, OUTCOME_COLUMNS),
      observations: columnTexts(observationRowsFrom(this.#entries.filter(isObservationEntry)), OBSERVATION_COLUMNS),
      amounts: columnTexts(amountRowsFrom(this.#entries, { seq: this.#before.seq, atMs: this.atMs }), AMOUNT_COLUMNS),
    });
  }

  /** Earliest expiry of the escalations that the batch creates, epoch milliseconds; undefined if it creates none. */
  get nextExpiryMs(): number | undefined {
    return earliest(this.outcomes.flatMap(({ escalationExpiresAtMs: at }) => at ?? []));
  }

  /** Earliest reminder of the escalations that the batch asks for, epoch milliseconds; undefined if there is none. */
  get nextReminderMs(): number | undefined {
    const demands = this.outcomes.flatMap((outcome) => outcome.demands);
    return earliest(demands.flatMap(({ remind_at }) => (remind_at === undefined ? [] : Date.parse(remind_at))));
  }

  /** Earliest time at which an outcome that the batch tracks becomes unknown, epoch milliseconds; undefined if it tracks none. */
  get nextOutcomeDueMs(): number | undefined {
    return earliest(this.#outcomeRows.flatMap(({ dueAtMs }) => (dueAtMs === "" ? [] : dueAtMs)));
  }

  /** True if callers on other replicas may wait for one of the decisions. */
  get isAwaited(): boolean {
    return this.outcomes.some(
      ({ escalationId, usedEscalationId }) => escalationId !== undefined || usedEscalationId !== undefined,
    );
  }

  /** Returns the outcomes of the actions, in their order, once `decide` has returned. */
  get outcomes(): readonly Outcome[] {
    return this.#entries.flatMap((entry) => (isDecisionEntry(entry) ? entry.outcome : []));
  }

  /** Answers the callers. MUST NOT be called before the batch is durable. */
  settle(): void {
    for (const settle of this.#settlements) settle();
  }

  /** The events that listeners hear of once the batch is durable. */
  events(): LedgerEvent[] {
    return this.#entries.map((entry, index) => {
      const seq = this.#before.seq + index;
      if (isObservationEntry(entry)) {
        const { change, by } = entry;
        return { kind: "change", seq, atMs: this.atMs, by, change };
      }
      if (!isDecisionEntry(entry)) return { kind: "follow_up", seq, atMs: this.atMs, sealed: entry.sealed };
      const { action, outcome, refs } = entry;
      const { decisionId, agentId } = action;
      const { decision } = outcome;
      const { ask, isOverdrawn = false } = refs;
      return { kind: "decision", seq, atMs: this.atMs, decisionId, agentId, decision, ask, isOverdrawn };
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

  #sealed({ action, outcome }: DecisionEntry, seq: number): SealedDecision {
    return {
      decisionId: action.decisionId,
      seq,
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
      isClaimed: action.claimId === undefined || outcome.decision !== "allow" ? undefined : true,
      isTracked: outcome.outcomeDueAtMs !== undefined,
    };
  }
}

const earliest = (times: readonly number[]): number | undefined =>
  times.length === 0 ? undefined : Math.min(...times);

/** Decides one action as a batch of its own, without a waiting caller. Throws what deciding throws. */
export function decidedAlone(state: WorkspaceState, action: Action, steps: Steps, nowMs: number): Batch {
  const item = { action, steps, isAbandoned: () => false, resolve: () => undefined, reject: () => undefined };
  const batch = new Batch(state, [item], nowMs);
  batch.decide();
  const [undecided] = batch.undecided;
  if (undecided !== undefined) throw undecided.error;
  return batch;
}
