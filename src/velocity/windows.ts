import type { CounterReading, CounterSpec, Decision } from "../policy/index.ts";
import { createMatcherCounts, type MatcherCounts, type VelocityJournal } from "./matcher.ts";
import type { Membership } from "./membership.ts";

/** The times of past actions of one agent, action type and decision, oldest first. */
export interface HistoryRow {
  readonly agentId: string;
  /** Trimmed and lower-cased. */
  readonly actionType: string;
  readonly decision: Decision;
  readonly times: Float64Array;
}

/** The part of the log that windows wait for. */
export interface MissingHistory {
  /** Only entries before this index. */
  readonly before: number;
  /** Only entries in this many milliseconds before the end of the log. */
  readonly windowMs: number;
}

/**
 * The sliding windows of a workspace, exact to the millisecond: an entry counts while its time is later than now minus the
 * window. A decision costs amortised O(1) for shared windows and O(log n) for an agent's own, whatever the group's size.
 */
export interface VelocityWindows {
  /** Sets what is counted. `nextIndex` is the index that the next recorded entry will have. */
  require(specs: readonly CounterSpec[], nextIndex: number): void;
  /** What must be loaded before anything is read; undefined when nothing is missing. */
  missing(): MissingHistory | undefined;
  /** Takes in the history that `missing` named. */
  load(missing: MissingHistory, rows: readonly HistoryRow[]): void;
  /** Counts an action that was decided. A batch that may be taken back passes a journal. */
  record(agentId: string, actionType: string, at: number, decision: Decision, journal?: VelocityJournal): void;
  /** The counter of a rule with the action at hand included. */
  read(spec: CounterSpec, agentId: string, now: number, journal?: VelocityJournal): CounterReading;
  /** Forgets what was counted for a department whose members changed; it is counted anew when asked for. */
  forgetDepartment(departmentId: string): void;
  /** Takes back everything that was recorded with the journal. */
  undo(journal: VelocityJournal): void;
}

/** Action types whose matchers are remembered; more than a workspace has, so that the memory stays bounded. */
const REMEMBERED_ACTION_TYPES = 10_000;
const SOURCE = "decision_log";

/** An empty journal. */
export function createVelocityJournal(): VelocityJournal {
  return { pushed: [], built: [] };
}

/** Creates the windows of a workspace. */
export function createVelocityWindows(membership: Membership, workspaceId: string): VelocityWindows {
  let matchers = new Map<string, MatcherCounts>();
  const matchersByType = new Map<string, readonly MatcherCounts[]>();

  const matchersOf = (actionType: string): readonly MatcherCounts[] => {
    const known = matchersByType.get(actionType);
    if (known !== undefined) return known;
    const found = [...matchers.values()].filter(({ patterns }) => patterns.matches(actionType));
    if (matchersByType.size >= REMEMBERED_ACTION_TYPES) matchersByType.clear();
    matchersByType.set(actionType, found);
    return found;
  };

  const reading = (group: string, members: number, past: number): CounterReading => ({
    group,
    members,
    count: past + 1,
    source: SOURCE,
  });

  const readAgent = (counts: MatcherCounts, spec: CounterSpec, agentId: string, now: number): CounterReading =>
    reading(agentId, 1, counts.countAgent(agentId, now - spec.windowMs));

  return {
    require(specs, nextIndex) {
      const before = matchers;
      matchers = new Map();
      matchersByType.clear();
      for (const spec of specs) {
        const known = matchers.get(spec.key) ?? before.get(spec.key);
        // A longer window than was kept so far needs the history that was dropped.
        const counts =
          known !== undefined && known.windowMs >= spec.windowMs
            ? known
            : createMatcherCounts(spec, nextIndex, membership);
        matchers.set(spec.key, counts);
      }
    },
    missing() {
      const incomplete = [...matchers.values()].filter(({ isComplete }) => !isComplete);
      if (incomplete.length === 0) return undefined;
      const before = Math.max(...incomplete.map(({ since }) => since));
      const windows = incomplete.filter(({ since }) => since === before).map(({ windowMs }) => windowMs);
      return { before, windowMs: Math.max(...windows) };
    },
    load({ before }, rows) {
      for (const counts of matchers.values()) {
        if (counts.isComplete || counts.since !== before) continue;
        for (const row of rows) {
          if (!counts.patterns.matches(row.actionType) || !counts.countsDecision(row.decision)) continue;
          counts.prepend(row.agentId, row.times);
        }
        counts.isComplete = true;
      }
    },
    record(agentId, actionType, at, decision, journal) {
      for (const counts of matchersOf(actionType)) {
        if (!counts.countsDecision(decision)) continue;
        counts.record(agentId, membership.departmentsOf(agentId), at, journal);
      }
    },
    read(spec, agentId, now, journal) {
      const counts = matchers.get(spec.key);
      if (!counts?.isComplete) throw new Error(`the window of \`${spec.key}\` has no history yet`);
      if (spec.scope === "workspace") {
        return reading(workspaceId, membership.agentCount(), counts.countWorkspace(spec.windowMs, now, journal));
      }
      if (spec.scope !== "department") return readAgent(counts, spec, agentId, now);
      const departmentIds = spec.departmentId === undefined ? membership.departmentsOf(agentId) : [spec.departmentId];
      if (departmentIds.length === 0) return readAgent(counts, spec, agentId, now);
      const past = counts.countDepartments(departmentIds, spec.windowMs, now, journal);
      return reading(departmentIds.join("+"), membership.membersOfAny(departmentIds).size, past);
    },
    forgetDepartment(departmentId) {
      for (const counts of matchers.values()) counts.forgetDepartment(departmentId);
    },
    undo(journal) {
      for (const ring of journal.pushed.reverse()) ring.pop();
      for (const remove of journal.built) remove();
    },
  };
}
