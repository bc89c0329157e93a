import { compilePatterns } from "../../policy/action-pattern.ts";
import type { CompiledPatterns, CounterSpec, Decision } from "../../policy/types.ts";
import { type AgentNumbers, GroupCounts, type Membership } from "./group-counts.ts";
import type { History, HistoryCount, MissingHistory } from "./log-history.ts";
import { RingBuffer } from "./ring-buffer.ts";

/** A stretch of the log whose actions are counted but not in memory. */
interface UnloadedSpan {
  /** Index at which the stretch begins. */
  from: number;
  /** Index at which it ends. */
  before: number;
  /** Number of its actions that the window counts; at least 1. */
  count: number;
}

/**
 * One sliding window: the actions that match a rule's patterns and decisions, counted by agent, group and workspace.
 *
 * The window holds its oldest actions (`head`) and its newest (`tail`) one by one. Past a bound, the actions between them
 * are only a number (`unloaded`). When the head is empty, its next page is read from the log. So memory is bounded, every
 * action is read back at most once, and counts stay exact.
 */
export class WindowCounts {
  readonly windowMs: number;
  readonly patterns: CompiledPatterns;
  /** The counts as of the last `advance`. */
  readonly counts: GroupCounts;
  readonly #spec: CounterSpec;
  readonly #agents: AgentNumbers;
  #head = new RingBuffer();
  #tail = new RingBuffer();
  #unloaded: UnloadedSpan | undefined;
  /** Index in the log between `head` and `tail`, while nothing between them is unloaded. */
  #boundary: number;
  #isComplete = false;
  #mirroredUntil = Number.NEGATIVE_INFINITY;

  /** Creates a window without history. `since` is the index of the first action that will be recorded. */
  constructor(spec: CounterSpec, since: number, agents: AgentNumbers, membership: Membership) {
    this.windowMs = spec.windowMs;
    this.patterns = compilePatterns(spec.patterns);
    this.counts = new GroupCounts(agents, membership);
    this.#spec = spec;
    this.#agents = agents;
    this.#boundary = since;
  }

  /** True once the history before the first recorded action is loaded. */
  get isComplete(): boolean {
    return this.#isComplete;
  }

  /** Tests that the window counts actions with this decision. */
  countsDecision(decision: Decision): boolean {
    const { countDecisions } = this.#spec;
    return countDecisions.length === 0 || countDecisions.includes(decision);
  }

  /** Counts an action that matches the window. */
  record(agentId: string, at: number): void {
    // A window that no rule reads any more would otherwise grow forever.
    this.#dropUntil(at - this.windowMs);
    const agent = this.#agents.numberOf(agentId);
    this.#tail.push(at, agent);
    this.counts.add(agent, 1);
  }

  /** Removes the last recorded action. MUST be called before anything else is recorded and before `settle`. */
  readonly rollback = (): void => this.counts.add(this.#tail.pop(), -1);

  /**
   * Bounds the memory to `maxKept` actions at each end. `end` is the size of the log. MUST be called only while every
   * recorded action is durable.
   */
  settle(end: number, maxKept: number): void {
    if (this.#tail.length < maxKept) return;
    if (!this.#isComplete) this.restart(end);
    else if (this.#unloaded === undefined && this.#head.length === 0) {
      [this.#head, this.#tail] = [this.#tail, this.#head];
      this.#boundary = end;
    } else {
      this.#unloaded ??= { from: this.#boundary, before: end, count: 0 };
      this.#unloaded.before = end;
      this.#unloaded.count += this.#tail.length;
      this.#tail.clear();
    }
  }

  /** Forgets everything recorded, so that one read loads the whole history up to `end`, the size of the log. */
  restart(end: number): void {
    this.#head.clear();
    this.#tail.clear();
    this.counts.clear();
    this.#unloaded = undefined;
    this.#boundary = end;
    this.#isComplete = false;
  }

  /** Returns the stretch that must be loaded before the window is read as of `now`; undefined when nothing is missing. */
  missing(now: number): MissingHistory | undefined {
    const { windowMs } = this;
    const after = now - windowMs;
    if (!this.#isComplete) return { from: undefined, before: this.#boundary, after, windowMs };
    this.#dropUntil(after);
    if (this.#unloaded === undefined || this.#head.length > 0) return undefined;
    const { from, before } = this.#unloaded;
    return { from, before, after, windowMs };
  }

  /** Tests that nothing is missing as of `now` and `settle` would do nothing. */
  isReady(now: number, maxKept: number): boolean {
    return this.#tail.length < maxKept && this.missing(now) === undefined;
  }

  /** Adds a stretch of the log, if this window waits for it. */
  load(missing: MissingHistory, history: History): void {
    const unloaded = this.#unloaded;
    if (missing.from === undefined) {
      if (!this.#isComplete && missing.before === this.#boundary) this.#loadAll(missing, history);
    } else if (
      unloaded?.from === missing.from &&
      unloaded.before === missing.before &&
      this.windowMs === missing.windowMs
    ) {
      this.#loadNextPage(missing, history, unloaded);
    }
  }

  /** Drops the actions that have left the window as of `now`. Throws when history for that time is missing. */
  advance(now: number): void {
    this.#dropUntil(now - this.windowMs);
    if (!this.#isComplete || (this.#unloaded !== undefined && this.#head.length === 0)) {
      throw new Error(`the window of \`${this.#spec.key}\` has no history for this time yet`);
    }
  }

  /** Tests that history from the mirror may still be in the window as of `now`. */
  isMirrored(now: number): boolean {
    return now - this.windowMs < this.#mirroredUntil;
  }

  #loadAll(missing: MissingHistory, history: History): void {
    const { windowMs } = this;
    const isWhole = history.rest.length === 0;
    // The stretch of a longer window fits a shorter one only if all its actions came one by one.
    if (windowMs > missing.windowMs || (windowMs < missing.windowMs && !isWhole)) return;
    for (const agent of this.#pushEntries(history, missing.after + missing.windowMs - windowMs)) {
      this.counts.add(agent, 1);
    }
    const count = this.#addCounts(history.rest, 1);
    this.#unloaded = count === 0 ? undefined : { from: history.nextIndex, before: missing.before, count };
    this.#mirroredUntil = history.source === "mirror" ? missing.after + missing.windowMs : Number.NEGATIVE_INFINITY;
    this.#isComplete = true;
  }

  /** Moves a page of the unloaded stretch, whose actions are counted already, into the head. */
  #loadNextPage(missing: MissingHistory, history: History, unloaded: UnloadedSpan): void {
    this.#dropUntil(missing.after);
    unloaded.count -= this.#addCounts(history.expired, -1);
    unloaded.count -= this.#pushEntries(history, Number.NEGATIVE_INFINITY).length;
    unloaded.from = history.nextIndex;
    if (unloaded.count < 0 || (unloaded.count > 0 && unloaded.from >= unloaded.before)) {
      throw new Error(`the log holds ${unloaded.count} actions more than the window of \`${this.#spec.key}\` counted`);
    }
    if (unloaded.count > 0) return;
    this.#unloaded = undefined;
    this.#boundary = unloaded.before;
  }

  /** Appends the matching entries later than a time to the head. Returns their agents. */
  #pushEntries({ entries }: History, after: number): number[] {
    const pushed: number[] = [];
    for (const entry of entries) {
      if (entry.at <= after || !this.#matches(entry)) continue;
      const agent = this.#agents.numberOf(entry.agentId);
      this.#head.push(entry.at, agent);
      pushed.push(agent);
    }
    return pushed;
  }

  /** Adds or subtracts the matching counts. Returns their sum. */
  #addCounts(counts: readonly HistoryCount[], sign: 1 | -1): number {
    let sum = 0;
    for (const each of counts) {
      if (!this.#matches(each)) continue;
      this.counts.add(this.#agents.numberOf(each.agentId), sign * each.count);
      sum += each.count;
    }
    return sum;
  }

  #matches({ actionType, decision }: Pick<HistoryCount, "actionType" | "decision">): boolean {
    return this.patterns.matches(actionType) && this.countsDecision(decision);
  }

  #dropUntil(limit: number): void {
    while (this.#head.firstAt <= limit) this.counts.add(this.#head.shift(), -1);
    if (this.#head.length > 0 || this.#unloaded !== undefined || !this.#isComplete) return;
    while (this.#tail.firstAt <= limit) this.counts.add(this.#tail.shift(), -1);
  }
}
