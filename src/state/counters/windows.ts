import { LRUCache } from "lru-cache";
import type { CounterReading, CounterSpec, Decision } from "../../policy/types.ts";
import { AgentNumbers, type GroupCounts, type Membership } from "./group-counts.ts";
import type { History, MissingHistory } from "./log-history.ts";
import { WindowCounts } from "./window-counts.ts";

/** Size of the cache from action types to windows, in characters of the types and 8 for each window. */
const CACHED_CHARACTERS = 4_194_304;
/**
 * Default for the actions that all windows of a workspace together keep at each of their ends. At 12 bytes each, and with
 * rings half empty, 25 MB at most for up to 128 windows, and 200 kB for each further one.
 */
const DEFAULT_KEPT = 524_288;
/** Default for the actions that a window may keep at each end however many windows there are. */
const DEFAULT_MIN_KEPT = 4_096;

const idOf = ({ key, windowMs }: CounterSpec): string => `${windowMs} ${key}`;

/**
 * The sliding windows of a workspace, exact to the millisecond: an action counts while its time is later than now minus the
 * window. A decision costs amortised O(1), whatever the size of the group and the number of actions in the window.
 */
export class VelocityWindows {
  readonly #membership: Membership;
  readonly #workspaceId: string;
  readonly #kept: number;
  readonly #minKept: number;
  readonly #agents = new AgentNumbers();
  /** Longest first: the history that the longest loads is often enough for the others. */
  #windows = new Map<string, WindowCounts>();
  #maxKept: number;
  readonly #windowsByType: LRUCache<string, readonly WindowCounts[]>;

  /**
   * Creates the windows of a workspace, none at first. `kept` bounds the actions that all windows together keep in memory at
   * each of their ends, and `minKept` is every window's share at least.
   */
  constructor(membership: Membership, workspaceId: string, { kept = DEFAULT_KEPT, minKept = DEFAULT_MIN_KEPT } = {}) {
    this.#membership = membership;
    this.#workspaceId = workspaceId;
    this.#kept = kept;
    this.#minKept = minKept;
    this.#maxKept = kept;
    this.#windowsByType = new LRUCache<string, readonly WindowCounts[]>({
      maxSize: CACHED_CHARACTERS,
      sizeCalculation: (windows, type) => type.length + 8 * windows.length + 64,
      memoMethod: (type: string) => [...this.#windows.values()].filter(({ patterns }) => patterns.matches(type)),
    });
  }

  /** Length in milliseconds of the longest window in force; 0 when there is none. */
  get longestMs(): number {
    return this.#windows.values().next().value?.windowMs ?? 0;
  }

  /** Sets the counters in force. `nextIndex` is the log index of the next recorded action. */
  require(specs: readonly CounterSpec[], nextIndex: number): void {
    const before = this.#windows;
    this.#windows = new Map();
    this.#windowsByType.clear();
    for (const spec of specs.toSorted((a, b) => b.windowMs - a.windowMs)) {
      const id = idOf(spec);
      if (this.#windows.has(id)) continue;
      const window = before.get(id) ?? new WindowCounts(spec, nextIndex, this.#agents, this.#membership);
      this.#windows.set(id, window);
    }
    this.#maxKept = Math.max(this.#minKept, Math.floor(this.#kept / Math.max(1, this.#windows.size)));
  }

  /**
   * Returns the history that must be loaded before a counter is read as of `now`; undefined when nothing is missing. MUST be
   * called only while every recorded action is durable, with the size of the log as `end`.
   */
  missing(now: number, end: number): MissingHistory | undefined {
    this.settle(end);
    for (const window of this.#windows.values()) {
      if (!window.isComplete) this.#restartIncomplete(end);
      const missing = window.missing(now);
      if (missing !== undefined) return missing;
    }
    return undefined;
  }

  /** Tests that nothing is missing as of `now` and the memory is within its bound, so that deciding may run ahead of commits. */
  isReady(now: number): boolean {
    for (const window of this.#windows.values()) if (!window.isReady(now, this.#maxKept)) return false;
    return true;
  }

  /** Adds the history that `missing` named. */
  load(missing: MissingHistory, history: History): void {
    for (const window of this.#windows.values()) window.load(missing, history);
  }

  /** Bounds the memory, as `missing` does too. To be called after many actions were recorded, under the same conditions. */
  settle(end: number): void {
    for (const window of this.#windows.values()) window.settle(end, this.#maxKept);
  }

  /** Counts an action that was decided. For a batch that may be rolled back, adds to `undo` what removes the action again. */
  record(agentId: string, actionType: string, at: number, decision: Decision, undo?: (() => void)[]): void {
    for (const window of this.#windowsByType.memo(actionType)) {
      if (!window.countsDecision(decision)) continue;
      window.record(agentId, at);
      undo?.push(window.rollback);
    }
  }

  /** Reads the counter of a rule, including the action at hand. `now` MUST NOT go back. */
  read(spec: CounterSpec, agentId: string, now: number): CounterReading {
    const window = this.#windowOf(spec, now);
    const { past, ...group } = this.#readGroup(spec, window, agentId);
    return { ...group, count: past + 1, source: window.isMirrored(now) ? "mirror" : "decision_log" };
  }

  /** Returns the past actions of a rule's counter, by agent and group. `now` MUST NOT go back. */
  countsOf(spec: CounterSpec, now: number): Pick<GroupCounts, "total" | "countFor" | "peekDepartments" | "forEach"> {
    return this.#windowOf(spec, now).counts;
  }

  /** Drops the counts of a department whose members change; the next read counts them anew. */
  forgetDepartment(departmentId: string): void {
    for (const window of this.#windows.values()) window.counts.forgetDepartment(departmentId);
  }

  #windowOf(spec: CounterSpec, now: number): WindowCounts {
    const window = this.#windows.get(idOf(spec));
    if (window === undefined) throw new Error(`no window of \`${spec.key}\` is in force`);
    window.advance(now);
    return window;
  }

  /** Makes all incomplete windows wait for the same stretch of the log, so that one read serves those of one length. */
  #restartIncomplete(end: number): void {
    for (const window of this.#windows.values()) if (!window.isComplete) window.restart(end);
  }

  /** Returns the group that a rule counts for an action of the agent, its number of members and of past actions. */
  #readGroup({ scope, departmentId }: CounterSpec, { counts }: WindowCounts, agentId: string) {
    const membership = this.#membership;
    if (scope === "workspace") {
      return { group: this.#workspaceId, members: membership.agentCount(), past: counts.total };
    }
    const own = scope === "department" ? membership.departmentsOf(agentId) : [];
    const departmentIds = departmentId === undefined ? own : [departmentId];
    if (departmentIds.length === 0) return { group: agentId, members: 1, past: counts.countFor(agentId) };
    const members = membership.membersOfAny(departmentIds).size;
    return { group: departmentIds.join("+"), members, past: counts.countForDepartments(departmentIds) };
  }
}
