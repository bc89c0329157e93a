import { compilePatterns } from "../../policy/action-pattern.ts";
import type { CompiledPatterns, CounterSpec, Decision } from "../../policy/types.ts";
import { type AgentNumbers, createGroupCounts } from "./group-counts.ts";
import type { History, HistoryCount, MissingHistory } from "./history.ts";
import type { Membership } from "./membership.ts";
import { createEntryRing } from "./ring-buffer.ts";

/**
 * The actions of one matcher (patterns and decisions) in a sliding window: how many are each agent's, each group's and the
 * workspace's, and in which order they leave.
 *
 * What leaves next is held entry by entry (`head`), and so is what came last (`tail`). Beyond a bound, what lies between
 * them is only a number (`gap`): its entries are read from the log, page by page, when their time to leave comes. So the
 * memory is bounded, an entry is read back at most once, and counting stays exact.
 */
export interface WindowCounts {
  readonly windowMs: number;
  readonly patterns: CompiledPatterns;
  /** Whether an action that was decided so counts. */
  countsDecision(decision: Decision): boolean;
  /** Counts an action of the window. */
  record(agentId: string, at: number): void;
  /** Takes the last recorded action back. MUST come before anything else is recorded or `settle` is called. */
  takeBack(): void;
  /**
   * Keeps the memory within its bound. `end` is the size of the log. MUST be called only while everything recorded is
   * durable.
   */
  settle(end: number, mostKept: number): void;
  /** Whether the history from before the first recorded action was loaded. */
  readonly isComplete: boolean;
  /** Lets go of what was recorded, so that the history up to `end`, the size of the log, is loaded with one read. */
  restart(end: number): void;
  /** What must be loaded before the window is read as of `now`; undefined when nothing is missing. */
  missing(now: number): MissingHistory | undefined;
  /** Whether nothing is missing as of `now` and `settle` would have nothing to do. */
  isReady(now: number, mostKept: number): boolean;
  /** Takes in a stretch of the log, if it is one that this window waits for. */
  load(missing: MissingHistory, history: History): void;
  /** Lets go of what is not in the window as of `now`. Throws when the window lacks history for that time. */
  advance(now: number): void;
  /** Counts as of the last `advance`. */
  readonly total: number;
  ofAgent(agentId: string): number;
  ofDepartments(departmentIds: readonly string[]): number;
  forgetDepartment(departmentId: string): void;
  /** Whether history that came from the mirror may still be in the window as of `now`. */
  isMirrored(now: number): boolean;
}

/** Entries that are counted and not held. */
interface Gap {
  /** Index to read on from. */
  from: number;
  /** Index before which all of them lie. */
  before: number;
  /** How many of them the window counts; never 0. */
  count: number;
}

/** Creates a window without history. `since` is the index of the first entry that will be recorded. */
export function createWindowCounts(
  spec: CounterSpec,
  since: number,
  agents: AgentNumbers,
  membership: Membership,
): WindowCounts {
  const { windowMs, countDecisions } = spec;
  const patterns = compilePatterns(spec.patterns);
  const counts = createGroupCounts(agents, membership);
  let head = createEntryRing();
  let tail = createEntryRing();
  let gap: Gap | undefined;
  /** Index before which all entries of `head` lie, and after which all of `tail`, while there is no gap. */
  let border = since;
  let isComplete = false;
  let mirroredUntil = Number.NEGATIVE_INFINITY;

  const countsDecision = (decision: Decision): boolean =>
    countDecisions.length === 0 || countDecisions.includes(decision);
  const matches = ({ actionType, decision }: { actionType: string; decision: Decision }): boolean =>
    patterns.matches(actionType) && countsDecision(decision);

  const dropUntil = (limit: number): void => {
    while (head.firstAt <= limit) counts.add(head.shift(), -1);
    if (head.length > 0 || gap !== undefined || !isComplete) return;
    while (tail.firstAt <= limit) counts.add(tail.shift(), -1);
  };

  const addCounts = (stretch: readonly HistoryCount[], sign: 1 | -1): number => {
    let sum = 0;
    for (const each of stretch) {
      if (!matches(each)) continue;
      counts.add(agents.of(each.agentId), sign * each.count);
      sum += each.count;
    }
    return sum;
  };

  /** Puts entries at the end of `head`; gives how many. */
  const pushEntries = ({ entries }: History, after: number, isCounted: boolean): number => {
    let sum = 0;
    for (const entry of entries) {
      if (entry.at <= after || !matches(entry)) continue;
      const agent = agents.of(entry.agentId);
      head.push(entry.at, agent);
      if (!isCounted) counts.add(agent, 1);
      sum += 1;
    }
    return sum;
  };

  const loadAll = (missing: MissingHistory, history: History): void => {
    const isWhole = history.rest.length === 0;
    // What a longer window only counted is too much for a shorter one.
    if (windowMs > missing.windowMs || (windowMs < missing.windowMs && !isWhole)) return;
    pushEntries(history, missing.after + missing.windowMs - windowMs, false);
    const count = addCounts(history.rest, 1);
    gap = count === 0 ? undefined : { from: history.nextIndex, before: missing.before, count };
    mirroredUntil = history.source === "mirror" ? missing.after + missing.windowMs : Number.NEGATIVE_INFINITY;
    isComplete = true;
  };

  const loadNext = (missing: MissingHistory, history: History, from: Gap): void => {
    dropUntil(missing.after);
    from.count -= addCounts(history.expired, -1);
    from.count -= pushEntries(history, Number.NEGATIVE_INFINITY, true);
    from.from = history.nextIndex;
    if (from.count < 0 || (from.count > 0 && from.from >= from.before)) {
      throw new Error(`the log holds ${from.count} actions more than the window of \`${spec.key}\` counted`);
    }
    if (from.count === 0) gap = undefined;
    if (gap === undefined) border = from.before;
  };

  const restart = (end: number): void => {
    head.clear();
    tail.clear();
    counts.clear();
    gap = undefined;
    border = end;
    isComplete = false;
  };

  const missing = (now: number): MissingHistory | undefined => {
    const after = now - windowMs;
    if (!isComplete) return { from: undefined, before: border, after, windowMs };
    dropUntil(after);
    if (gap === undefined || head.length > 0) return undefined;
    return { from: gap.from, before: gap.before, after, windowMs };
  };

  return {
    windowMs,
    patterns,
    countsDecision,
    record(agentId, at) {
      // Nobody may read the window again: without this it would grow for as long as the process lives.
      dropUntil(at - windowMs);
      const agent = agents.of(agentId);
      tail.push(at, agent);
      counts.add(agent, 1);
    },
    takeBack: () => counts.add(tail.pop(), -1),
    settle(end, mostKept) {
      if (tail.length < mostKept) return;
      if (!isComplete) return restart(end);
      if (gap === undefined && head.length === 0) {
        [head, tail] = [tail, head];
        border = end;
        return;
      }
      gap ??= { from: border, before: end, count: 0 };
      gap.before = end;
      gap.count += tail.length;
      tail.clear();
    },
    get isComplete() {
      return isComplete;
    },
    restart,
    missing,
    isReady: (now, mostKept) => tail.length < mostKept && missing(now) === undefined,
    load(stretch, history) {
      if (stretch.from === undefined) {
        if (!isComplete && stretch.before === border) loadAll(stretch, history);
      } else if (gap?.from === stretch.from && gap.before === stretch.before && windowMs === stretch.windowMs) {
        loadNext(stretch, history, gap);
      }
    },
    advance(now) {
      dropUntil(now - windowMs);
      if (!isComplete || (gap !== undefined && head.length === 0)) {
        throw new Error(`the window of \`${spec.key}\` has no history for this time yet`);
      }
    },
    get total() {
      return counts.total;
    },
    ofAgent: counts.ofAgent,
    ofDepartments: counts.ofDepartments,
    forgetDepartment: counts.forgetDepartment,
    isMirrored: (now) => now - windowMs < mirroredUntil,
  };
}
