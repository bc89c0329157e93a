import type { CounterReading, CounterSpec, Decision } from "../../policy/types.ts";
import { createAgentNumbers } from "./group-counts.ts";
import type { History, MissingHistory } from "./history.ts";
import type { Membership } from "./membership.ts";
import { createWindowCounts, type WindowCounts } from "./window-counts.ts";

/** What one batch recorded, so that it can be taken back when the batch was not appended. */
export interface VelocityJournal {
  readonly recorded: WindowCounts[];
}

/**
 * The sliding windows of a workspace, exact to the millisecond: an entry counts while its time is later than now minus the
 * window. A decision costs amortised O(1), whatever the group's size and the number of actions in the window.
 */
export interface VelocityWindows {
  /** Sets what is counted. `nextIndex` is the index that the next recorded entry will have. */
  require(specs: readonly CounterSpec[], nextIndex: number): void;
  /** Length in milliseconds of the longest window in force; 0 when there is none. */
  readonly longestMs: number;
  /**
   * What must be loaded before anything is read as of `now`; undefined when nothing is missing. MUST be called only while
   * everything recorded is durable, with the size of the log as `end`.
   */
  missing(now: number, end: number): MissingHistory | undefined;
  /**
   * Whether nothing is missing as of `now` and the memory is within its bound, so that a decision may be taken although
   * not everything recorded is durable.
   */
  isReady(now: number): boolean;
  /** Takes in what `missing` named. */
  load(missing: MissingHistory, history: History): void;
  /**
   * Keeps the memory within its bound after many entries were recorded that nothing was decided on. To be called under the
   * same conditions as `missing`, which does it as well.
   */
  settle(end: number): void;
  /** Counts an action that was decided. A batch that may be taken back passes a journal. */
  record(agentId: string, actionType: string, at: number, decision: Decision, journal?: VelocityJournal): void;
  /** The counter of a rule with the action at hand included. `now` MUST NOT go back. */
  read(spec: CounterSpec, agentId: string, now: number): CounterReading;
  /** Forgets what was counted for a department whose members changed; it is counted anew when asked for. */
  forgetDepartment(departmentId: string): void;
  /** Takes back everything that was recorded with the journal. MUST come before anything else is recorded. */
  undo(journal: VelocityJournal): void;
}

/** Action types whose windows are remembered; more than a workspace has, so that the memory stays bounded. */
const REMEMBERED_ACTION_TYPES = 10_000;
/**
 * Entries that the windows of a workspace keep at each end, all together: at 12 bytes an entry, and with rings half
 * empty, 25 MB at most for up to 128 windows, and 200 kB for each further one.
 */
const DEFAULT_KEPT = 524_288;
/** Entries that a window keeps at each end at least, however many windows there are: fewer would be read back at once. */
const LEAST_KEPT = 4_096;

/** An empty journal. */
export function createVelocityJournal(): VelocityJournal {
  return { recorded: [] };
}

const idOf = ({ key, windowMs }: CounterSpec): string => `${windowMs} ${key}`;

/** Creates the windows of a workspace. `kept` bounds the entries that all of them keep in memory at each of their ends. */
export function createVelocityWindows(
  membership: Membership,
  workspaceId: string,
  { kept = DEFAULT_KEPT, leastKept = LEAST_KEPT } = {},
): VelocityWindows {
  const agents = createAgentNumbers();
  // The longest first: what it loads often is enough for the shorter ones.
  let windows = new Map<string, WindowCounts>();
  let mostKept = kept;
  const windowsByType = new Map<string, readonly WindowCounts[]>();

  const windowsOf = (actionType: string): readonly WindowCounts[] => {
    const known = windowsByType.get(actionType);
    if (known !== undefined) return known;
    const found = [...windows.values()].filter(({ patterns }) => patterns.matches(actionType));
    if (windowsByType.size >= REMEMBERED_ACTION_TYPES) windowsByType.clear();
    windowsByType.set(actionType, found);
    return found;
  };

  const settle = (end: number): void => {
    for (const window of windows.values()) window.settle(end, mostKept);
  };

  /** Has all that came since the last read wait for the same stretch of the log: one read serves those of a length. */
  const restartIncomplete = (end: number): void => {
    for (const window of windows.values()) if (!window.isComplete) window.restart(end);
  };

  /** The group that a rule counts for an action of the agent, its members and their actions in the window. */
  const groupOf = (spec: CounterSpec, window: WindowCounts, agentId: string): [string, number, number] => {
    if (spec.scope === "workspace") return [workspaceId, membership.agentCount(), window.total];
    const own = spec.scope === "department" ? membership.departmentsOf(agentId) : [];
    const departmentIds = spec.departmentId === undefined ? own : [spec.departmentId];
    if (departmentIds.length === 0) return [agentId, 1, window.ofAgent(agentId)];
    const members = membership.membersOfAny(departmentIds).size;
    return [departmentIds.join("+"), members, window.ofDepartments(departmentIds)];
  };

  return {
    require(specs, nextIndex) {
      const before = windows;
      windows = new Map();
      windowsByType.clear();
      for (const spec of specs.toSorted((a, b) => b.windowMs - a.windowMs)) {
        const id = idOf(spec);
        if (windows.has(id)) continue;
        windows.set(id, before.get(id) ?? createWindowCounts(spec, nextIndex, agents, membership));
      }
      mostKept = Math.max(leastKept, Math.floor(kept / Math.max(1, windows.size)));
    },
    get longestMs() {
      return windows.values().next().value?.windowMs ?? 0;
    },
    missing(now, end) {
      settle(end);
      for (const window of windows.values()) {
        if (!window.isComplete) restartIncomplete(end);
        const missing = window.missing(now);
        if (missing !== undefined) return missing;
      }
      return undefined;
    },
    isReady(now) {
      for (const window of windows.values()) if (!window.isReady(now, mostKept)) return false;
      return true;
    },
    load(missing, history) {
      for (const window of windows.values()) window.load(missing, history);
    },
    settle,
    record(agentId, actionType, at, decision, journal) {
      for (const window of windowsOf(actionType)) {
        if (!window.countsDecision(decision)) continue;
        window.record(agentId, at);
        journal?.recorded.push(window);
      }
    },
    read(spec, agentId, now) {
      const window = windows.get(idOf(spec));
      if (window === undefined) throw new Error(`no window of \`${spec.key}\` is in force`);
      window.advance(now);
      const [group, members, past] = groupOf(spec, window, agentId);
      return { group, members, count: past + 1, source: window.isMirrored(now) ? "mirror" : "decision_log" };
    },
    forgetDepartment(departmentId) {
      for (const window of windows.values()) window.forgetDepartment(departmentId);
    },
    undo(journal) {
      for (const window of journal.recorded.reverse()) window.takeBack();
    },
  };
}
