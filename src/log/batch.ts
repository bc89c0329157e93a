import { LRUCache } from "lru-cache";
import { ControlPlaneError, ErrorReason } from "../errors.ts";
import type { GuardFinding, LimitState, ObservedMandate } from "../policy/types.ts";
import { type Ask, type DecisionRefs, foldDecision, isCounted, refTextFrom } from "../state/fold.ts";
import {
  type Action,
  DECISION_NUMBERS,
  DEFAULT_REASON_CODE,
  type DecisionReason,
  EntryKind,
  type Outcome,
  type SealedDecision,
} from "../state/types.ts";
import type { StateJournal, WorkspaceState } from "../state/workspace.ts";
import { storeFault } from "../store/database.ts";
import { appendEntries } from "../store/sql/append-entries.ts";
import type { Reader } from "../store/transaction.ts";
import { appendLeaves, bytesFromFrontier, type Frontier, leafHash, rootText } from "../tree/merkle.ts";
import { type LedgerEvent, wakeUpPayload } from "./events.ts";

/**
 * Decides one action against a state at a time (epoch milliseconds). MUST be synchronous and change nothing but what it
 * notes in the journal.
 */
export type Decide = (state: WorkspaceState, nowMs: number, journal: StateJournal) => Outcome;

/** The steps that decide one action. */
export interface Steps {
  readonly decide: Decide;
  /**
   * Checks a repeat of the action, which names its first decision, against a state at a time. Returns the refusal to seal;
   * undefined if the first decision still answers it. Synchronous, and changes nothing.
   */
  readonly refuseReplay: (state: WorkspaceState, replay: Action, nowMs: number) => Outcome | undefined;
}

/** An action that waits to be decided, and its caller. */
export interface PendingDecision {
  readonly action: Action;
  readonly steps: Steps;
  /** True once the caller has left: the action is then not decided at all. */
  readonly isAbandoned: () => boolean;
  resolve(sealed: SealedDecision): void;
  reject(error: unknown): void;
}

/** A step of the log that runs alone, with nothing in flight. */
export interface Task {
  readonly run: () => Promise<void>;
  reject(error: unknown): void;
}

/** An action that waits to be decided, or a task that waits for its turn. */
export type Waiting = PendingDecision | Task;

export const isTask = (entry: Waiting): entry is Task => "run" in entry;

/** Largest batch: past this an insert no longer gains from size, and its first action waits for its last. */
const MAX_BATCH = 256;
/** Characters of content and metadata past which a batch takes nothing more: deciding and sending it holds the event loop. */
const MAX_BATCH_TEXT = 262_144;
/** Actions of one workspace that may wait; past it OVERLOADED tells callers to back off. */
const MAX_WAITING = 50_000;
/** Characters of content and metadata that the waiting actions of one workspace may hold; past it OVERLOADED. */
const MAX_WAITING_TEXT = 67_108_864;
/** Retryable decisions of this replica that are remembered, so that a repeat does not disturb a batch. */
const REMEMBERED_REQUESTS = 20_000;

/** Returns the characters of content and metadata of an action. */
export const textLengthOf = ({ actionContent, metadataText }: Action): number =>
  actionContent.length + metadataText.length;

const cancelled = (): ControlPlaneError =>
  new ControlPlaneError(ErrorReason.CANCELLED, "the caller went away before the action was decided");

/** Gives callers an error; a database that does not answer is STORE_UNAVAILABLE. */
export function rejectAll(items: readonly Pick<PendingDecision, "reject">[], error: unknown): void {
  const fault = storeFault(error);
  for (const item of items) item.reject(fault);
}

/** Runs a step of a batch. What it throws, the callers get as well: nobody else knows of them while it runs. */
export function orRejectAll(items: readonly PendingDecision[], step: () => void): void {
  try {
    step();
  } catch (error) {
    rejectAll(items, error);
    throw error;
  }
}

/** The actions and tasks that wait in the log of a workspace, in the order in which they came, and the rule of what may batch. */
export class Queue {
  #entries: Waiting[] = [];
  /** Characters of content and metadata of the actions. */
  #text = 0;
  // `maxSize`, as with every cache of a workspace: for `max` the cache takes all of its memory at once.
  readonly #recentIds = new LRUCache<string, true>({ maxSize: REMEMBERED_REQUESTS, sizeCalculation: () => 1 });

  get length(): number {
    return this.#entries.length;
  }

  get first(): Waiting | undefined {
    return this.#entries[0];
  }

  /** Throws OVERLOADED if too much waits. */
  assertRoom(): void {
    if (this.length < MAX_WAITING && this.#text < MAX_WAITING_TEXT) return;
    const message = `${this.length} actions of the workspace are waiting to be decided; retry with back-off`;
    throw new ControlPlaneError(ErrorReason.OVERLOADED, message, { waiting: String(this.length) });
  }

  push(entry: Waiting): void {
    this.#entries.push(entry);
    if (!isTask(entry)) this.#text += textLengthOf(entry.action);
  }

  /** Takes the first entry, a task. */
  shiftTask(): void {
    this.#entries.shift();
  }

  takeAll(): readonly Waiting[] {
    this.#text = 0;
    const all = this.#entries;
    this.#entries = [];
    return all;
  }

  /** Returns the actions that the next batch may take. */
  upcoming(): readonly PendingDecision[] {
    return this.#entries.slice(0, MAX_BATCH).filter((entry): entry is PendingDecision => !isTask(entry));
  }

  /**
   * Takes the actions of a batch, at most `limit`: up to a task, a repeat, or a second action with the same id. Rejects those whose
   * callers have left with CANCELLED.
   */
  takeBatch(limit: number): readonly PendingDecision[] {
    const ids = new Set<string>();
    const items = this.#take(Math.min(MAX_BATCH, limit), (item) => {
      const { decisionId } = item.action;
      if (this.isRepeat(item) || ids.has(decisionId)) return false;
      ids.add(decisionId);
      return true;
    });
    return items.filter((item) => {
      if (!item.isAbandoned()) return true;
      item.reject(cancelled());
      return false;
    });
  }

  /** Takes the repeats at the front. */
  takeRepeats(): readonly PendingDecision[] {
    return this.#take(MAX_BATCH, (item) => this.isRepeat(item));
  }

  /** Puts actions that a batch did not decide before all others. */
  putBack(items: readonly PendingDecision[]): void {
    if (items.length === 0) return;
    this.#entries = [...items, ...this.#entries];
    for (const { action } of items) this.#text += textLengthOf(action);
  }

  /** Tests for the repeat of a decision that this replica made not long ago. */
  isRepeat({ action }: PendingDecision): boolean {
    return action.isRetryable && this.#recentIds.has(action.decisionId);
  }

  /** Remembers decided actions, whose repeats are not part of a batch. */
  remember(items: readonly PendingDecision[]): void {
    for (const { action } of items) if (action.isRetryable) this.#recentIds.set(action.decisionId, true);
  }

  #take(limit: number, accepts: (item: PendingDecision) => boolean): PendingDecision[] {
    let text = 0;
    const items: PendingDecision[] = [];
    for (const entry of this.#entries) {
      if (items.length === limit || text >= MAX_BATCH_TEXT || isTask(entry) || !accepts(entry)) break;
      text += textLengthOf(entry.action);
      items.push(entry);
    }
    this.#entries = this.#entries.slice(items.length);
    this.#text -= text;
    return items;
  }
}

type LogEnd = Pick<WorkspaceState, "seq" | "lastAtMs" | "frontier">;

/** Milliseconds after which an append without an answer is given up, and its connection closed. */
const MAX_APPEND_MS = 15_000;

/** Milliseconds of deciding after which a batch takes no further action, so that requests of other workspaces get their turn. */
const MAX_DECIDE_MS = 10;

const NO_IDS: readonly string[] = [];

/** Form of a session's id. A caller may name any text as its session, which is sealed and refused. */
const SESSION_ID = /^ses_[a-z2-7]{26}$/;

const NO_REFS: DecisionRefs = { usedIds: NO_IDS, ask: undefined };

const entryKindOf = (action: Action, outcome: Outcome): number =>
  isCounted(action, outcome) ? EntryKind.DECISION : EntryKind.UNCOUNTED_DECISION;

/** The approval and the authority that an allowed action uses up, or the escalation that one asks for. */
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

/**
 * Actions that are decided in order on one state and appended by one statement. `decide` folds them into the state at once,
 * so that the next batch builds on them while they are in flight; `undo` rolls the state back when they were not appended.
 */
export class Batch {
  #items: readonly PendingDecision[];
  readonly #maxDecideMs: number;
  #left: readonly PendingDecision[] = [];
  readonly #outcomes: Outcome[] = [];
  readonly #refs: DecisionRefs[] = [];
  readonly #bodies: string[] = [];
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

  /** The actions of the batch; without those that could not be decided, once `decide` has returned. */
  get items(): readonly PendingDecision[] {
    return this.#items;
  }

  /** Actions that were not decided, because those before them took long: for the next batch. */
  get left(): readonly PendingDecision[] {
    return this.#left;
  }

  /** Size of the log with the batch. */
  get endSeq(): number {
    return this.#before.seq + this.items.length;
  }

  /**
   * Decides every action against the state that the ones before it left. An action that cannot be decided leaves the batch: its
   * caller alone gets the error. Leaves the state unchanged when it throws.
   */
  decide(): void {
    const startedAt = performance.now();
    const decided: PendingDecision[] = [];
    for (const [index, item] of this.items.entries()) {
      if (this.#isDecided(item)) decided.push(item);
      if (performance.now() - startedAt < this.#maxDecideMs) continue;
      this.#left = this.items.slice(index + 1);
      break;
    }
    if (decided.length < this.items.length) this.#items = decided;
    this.#leaves = this.#bodies.map(leafHash);
    this.#frontier = appendLeaves(this.#before.frontier, this.#leaves, this.#subtrees);
    this.#setEnd({ seq: this.endSeq, lastAtMs: this.atMs, frontier: this.#frontier });
  }

  #isDecided(item: PendingDecision): boolean {
    const { undo } = this.#journal;
    const noted = undo.length;
    const count = this.#outcomes.length;
    try {
      this.#decideNext(item);
      return true;
    } catch (error) {
      for (const step of undo.splice(noted).reverse()) step();
      this.#outcomes.length = count;
      this.#bodies.length = count;
      this.#refs.length = count;
      item.reject(error);
      return false;
    }
  }

  #decideNext({ action, steps }: PendingDecision): void {
    const state = this.#state;
    const seq = this.#before.seq + this.#outcomes.length;
    const outcome = steps.decide(state, this.atMs, this.#journal);
    this.#outcomes.push(outcome);
    this.#bodies.push(
      decisionBody(action, outcome, {
        workspaceId: state.workspaceId,
        seq,
        atMs: this.atMs,
        previousRoot: this.#previousRoot,
        previousSize: this.#before.seq,
      }),
    );
    const refs = refsOf(outcome);
    this.#refs.push(refs);
    if (!isCounted(action, outcome)) return;
    const { agentId, normalisedType: actionType, decisionId } = action;
    const folded = { seq, atMs: this.atMs, agentId, actionType, decisionId, decision: outcome.decision, refs };
    foldDecision(state, folded, this.#journal);
  }

  /**
   * Compare-and-append: writes the entries if the log still ends where the batch was decided. Resolves with the database's
   * clock in epoch milliseconds, or undefined when another writer was first and nothing was written. Rejects with SQLSTATE
   * 23505 when one of the decisions exists already.
   */
  async send(client: Reader): Promise<number | undefined> {
    const statement = { ...appendEntries, values: this.#statementValues(), query_timeout: MAX_APPEND_MS };
    const { rows } = await client.query<{ now: number }>(statement);
    return rows[0]?.now;
  }

  #statementValues(): unknown[] {
    const { workspaceId } = this.#state;
    const { seq, frontier } = this.#before;
    const { created, changed } = this.#escalationRows();
    return [
      workspaceId,
      seq,
      this.items.length,
      bytesFromFrontier(frontier),
      bytesFromFrontier(this.#frontier),
      this.atMs,
      lines(this.items.map(({ action }) => action.decisionId)),
      lines(this.items.map(({ action }) => action.agentId)),
      lines(this.items.map(({ action }) => action.normalisedType)),
      lines(this.#outcomes.map(({ decision }) => DECISION_NUMBERS[decision])),
      lines(this.#refs.map(refTextFrom)),
      Buffer.concat(this.#leaves),
      lines(this.#bodies),
      Buffer.concat(this.#subtrees),
      lines(created.map(({ id }) => id)),
      lines(created.map(({ agentId }) => agentId)),
      lines(created.map(({ actionDigest }) => actionDigest)),
      lines(created.map(({ index }) => index)),
      lines(created.map(({ expiresAtMs }) => expiresAtMs)),
      lines(created.map(({ asked }) => asked)),
      lines(created.map(({ keys }) => [...keys].join(","))),
      lines(created.map(({ lastAsk }) => lastAsk)),
      lines(changed.map(({ id }) => id)),
      lines(changed.map(({ usedBy }) => usedBy)),
      lines(changed.map(({ replacedBy }) => replacedBy)),
      lines(changed.map(({ asked }) => asked)),
      lines(changed.map(({ keys }) => [...keys].join(","))),
      lines(changed.map(({ lastAsk }) => lastAsk)),
      this.isAwaited ? wakeUpPayload({ workspaceId, seq: this.endSeq, isChange: false }) : null,
      lines(this.#outcomes.map((outcome, index) => entryKindOf(this.#action(index), outcome))),
      this.#sessionLines(),
    ];
  }

  /** The sessions that the actions name, as far as they have the form of an id; null without one. */
  #sessionLines(): string | null {
    const sessions = this.items.map(({ action: { sessionId = "" } }) => (SESSION_ID.test(sessionId) ? sessionId : ""));
    return sessions.some((id) => id !== "") ? lines(sessions) : null;
  }

  /** Collects, by row, what the batch does to escalations: a statement can write each row only once. */
  #escalationRows(): EscalationRows {
    const rows = new EscalationRows();
    for (const [index, outcome] of this.#outcomes.entries()) {
      if (outcome.escalationId === undefined && outcome.usedEscalationId === undefined) continue;
      rows.add(this.#action(index), outcome, index);
    }
    return rows;
  }

  /** Earliest expiry of the escalations that the batch creates; undefined if it creates none. */
  get nextExpiryMs(): number | undefined {
    let next: number | undefined;
    for (const { escalationExpiresAtMs: at } of this.#outcomes)
      if (at !== undefined && at < (next ?? at + 1)) next = at;
    return next;
  }

  /** True if callers on other replicas may wait for one of the decisions. */
  get isAwaited(): boolean {
    return this.#outcomes.some(
      ({ escalationId, usedEscalationId }) => escalationId !== undefined || usedEscalationId !== undefined,
    );
  }

  /** Returns the outcomes, in the order of the actions, once `decide` has returned. */
  get outcomes(): readonly Outcome[] {
    return this.#outcomes;
  }

  /** Answers the callers. MUST NOT be called before the batch is durable. */
  settle(): void {
    this.items.forEach((item, index) => {
      item.resolve(this.#sealed(index));
    });
  }

  /** The events that listeners hear of once the batch is durable. */
  events(): LedgerEvent[] {
    return this.items.map(({ action: { decisionId, agentId } }, index) => {
      const { decision } = this.#outcomes[index] as Outcome;
      const seq = this.#before.seq + index;
      return { kind: "decision", seq, atMs: this.atMs, decisionId, agentId, decision, ask: this.#refs[index]?.ask };
    });
  }

  /** Rolls the state back to before the batch. MUST be the last batch that was decided and not undone. */
  undo(): void {
    this.#rollBackJournal();
    this.#setEnd(this.#before);
  }

  #rollBackJournal(): void {
    for (const undo of this.#journal.undo.reverse()) undo();
  }

  #setEnd(end: LogEnd): void {
    Object.assign(this.#state, end);
  }

  #action(index: number): Action {
    return (this.items[index] as PendingDecision).action;
  }

  #sealed(index: number): SealedDecision {
    const { decisionId, agentId, actionType } = this.#action(index);
    const outcome = this.#outcomes[index] as Outcome;
    const { decision, path, trustBeforeTenths, cappedTrustTenths, escalationId, policyName, reasons, isKeyEnded } =
      outcome;
    const seq = this.#before.seq + index;
    const { atMs } = this;
    return {
      ...{ decisionId, seq, atMs, agentId, actionType, decision, path },
      ...{ trustTenths: cappedTrustTenths ?? trustBeforeTenths, escalationId, policyName, reasons },
      ...{ isReplayed: false, isKeyEnded },
    };
  }
}

/** Joins the values of a column. No id, action type or canonical JSON holds a line feed. */
const lines = (values: readonly (string | number)[]): string | null => (values.length === 0 ? null : values.join("\n"));

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

/** Decides one action as a batch of its own, which nobody waits for. Throws what deciding throws. */
export function decidedAlone(state: WorkspaceState, action: Action, steps: Steps, nowMs: number): Batch {
  const faults: unknown[] = [];
  const reject = (fault: unknown): void => void faults.push(fault);
  const batch = new Batch(
    state,
    [{ action, steps, isAbandoned: () => false, resolve: () => undefined, reject }],
    nowMs,
  );
  batch.decide();
  if (faults.length > 0) throw faults[0];
  return batch;
}

// The text of an entry: what is hashed, stored and shown as a receipt.

/** The place in the log at which a decision is sealed. */
export interface DecisionPlace {
  readonly workspaceId: string;
  readonly seq: number;
  /** Epoch milliseconds. */
  readonly atMs: number;
  /** Root (base64) and size of the tree before the batch that the decision came with. */
  readonly previousRoot: string;
  readonly previousSize: number;
}

// INVARIANT: members stand in the order of RFC 8785 (UTF-16 code units), so that JSON.stringify writes the canonical form.
// A test compares every kind of entry with canonicalJson.

const unlessEmpty = <T>(items: readonly T[]): readonly T[] | undefined => (items.length === 0 ? undefined : items);

const sealedReason = ({ argument, code, mandateId, mandateName, message, rule, wouldPass }: DecisionReason) => ({
  argument,
  code,
  mandate_id: mandateId,
  mandate_name: mandateName,
  message,
  rule,
  would_pass: wouldPass,
});

const sealedLimit = ({ count, group, limit, mandateId, members, rule, scope, source, window }: LimitState) => ({
  count,
  group,
  limit,
  mandate_id: mandateId,
  members,
  rule,
  scope,
  source: source === "decision_log" ? undefined : source,
  window,
});

const sealedObservation = ({ mandate, decision, reasons }: ObservedMandate) => ({
  mandate_id: mandate.id,
  reasons: reasons.map(sealedReason),
  version: mandate.version,
  would_decide: decision,
});

function sealedGuard({ answer, mandateId, rule, version }: GuardFinding) {
  const verdict = answer.kind === "verdict" ? answer : undefined;
  return {
    confidence: verdict?.confidence,
    latency_ms: answer.latencyMs,
    mandate_id: mandateId,
    // A model may answer with half of a surrogate pair, which I-JSON (RFC 7493) cannot hold.
    model: verdict?.model.toWellFormed(),
    reason: verdict?.reason.toWellFormed(),
    rule,
    unavailable: answer.kind === "verdict" ? undefined : answer.cause,
    version,
    violates: verdict?.violates,
  };
}

const isoTime = (ms: number | undefined): string | undefined =>
  ms === undefined ? undefined : new Date(ms).toISOString();

const isDefaultReason = (reasons: readonly DecisionReason[]): boolean =>
  reasons.length === 1 && reasons[0]?.code === DEFAULT_REASON_CODE;

/** Writes the action with the caller's metadata in the canonical form that was made of them once. */
function actionText(action: Action, { agentName, tool, toolName }: Outcome): string {
  const head = {
    action_content: action.actionContent,
    action_type: action.actionType,
    agent_id: action.agentId,
    agent_name: agentName,
  };
  // Tells a retry that names the tool elsewhere from the first request.
  const tool_requested = (action.isRetryable && action.tool !== undefined) || undefined;
  const tail = JSON.stringify({ tool: toolName, tool_requested, tool_version: tool?.version });
  const metadata = action.metadataText === "" ? "" : `,"metadata":${action.metadataText}`;
  return `${JSON.stringify(head).slice(0, -1)}${metadata}${tail === "{}" ? "}" : `,${tail.slice(1)}`}`;
}

/**
 * Writes the entry of a decision in its RFC 8785 form: the text that is hashed, stored and shown as its receipt. It names
 * the mandates that fired or would have, the state of every counter that was evaluated, the tool with its version, and the
 * digest of the policy set in force. Lists that are empty, the source of counters that come from the log, and the reason
 * that no mandate matched are left out; `receipts.ts` puts them back.
 */
export function decisionBody(action: Action, outcome: Outcome, place: DecisionPlace): string {
  const { policy } = outcome;
  const rest = {
    action_digest: outcome.actionDigest,
    at: new Date(place.atMs).toISOString(),
    authorisation: {
      collective_limits: unlessEmpty(policy?.collectiveLimits.map(sealedLimit) ?? []),
      permissions: outcome.permissions,
    },
    authority: unlessEmpty(outcome.authority),
    decision: outcome.decision,
    decision_id: action.decisionId,
    decision_path: outcome.path,
    digest_ignores: unlessEmpty(outcome.digestIgnores),
    edit_of: action.editOf,
    escalation_expires_at: isoTime(outcome.escalationExpiresAtMs),
    escalation_id: outcome.escalationId,
    grant_id: action.grantId,
    guards: unlessEmpty(policy?.guards.map(sealedGuard) ?? []),
    intent_contract_id: action.intentContractId,
    key_ended: outcome.isKeyEnded || undefined,
    key_id: action.keyId,
    mandates: unlessEmpty(
      policy?.fired.map(({ mandate: { digest, id, version }, decision }) => ({
        decision,
        digest,
        mandate_id: id,
        version,
      })) ?? [],
    ),
    observed: unlessEmpty(policy?.observed.map(sealedObservation) ?? []),
    on_behalf_of: action.onBehalfOf,
    policy_digest: outcome.policyDigest,
    policy_name: outcome.policyName,
    presented_escalation_id: action.escalationId,
    previous_root: place.previousRoot,
    previous_size: place.previousSize,
    principal_id: outcome.principalId,
    reasons: isDefaultReason(outcome.reasons) ? undefined : outcome.reasons.map(sealedReason),
    replay_of: action.replayOf,
    seq: place.seq,
    session_id: action.sessionId,
    trust: {
      after: outcome.trustAfterTenths / 10,
      before: outcome.trustBeforeTenths / 10,
      capped: outcome.cappedTrustTenths === undefined ? undefined : outcome.cappedTrustTenths / 10,
    },
    type: "decision",
    used_escalation_id: outcome.usedEscalationId,
    workspace_id: place.workspaceId,
  };
  return `{"action":${actionText(action, outcome)},${JSON.stringify(rest).slice(1)}`;
}
