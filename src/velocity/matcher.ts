import { type CompiledPatterns, type CounterSpec, compilePatterns, type Decision } from "../policy/index.ts";
import type { Membership } from "./membership.ts";
import { createTimeRing, mergeTimes, type TimeRing } from "./time-ring.ts";

/** The counter of a group of more than one agent. */
interface GroupWindow {
  readonly ring: TimeRing;
  /** Null for the workspace. */
  readonly departmentIds: readonly string[] | null;
  readonly windowMs: number;
}

/** What one batch changed, so that it can be taken back when the batch was not appended. */
export interface VelocityJournal {
  readonly pushed: TimeRing[];
  readonly built: (() => void)[];
}

/** The times of the actions that one matcher (patterns and decisions) counts: by agent, and by group where one is asked for. */
export interface MatcherCounts {
  readonly patterns: CompiledPatterns;
  /** Whether an action that was decided so counts. */
  countsDecision(decision: Decision): boolean;
  /** Index of the first entry that was recorded live; history before it is loaded once. */
  readonly since: number;
  /** True once the history is in. Nothing may be read before. */
  isComplete: boolean;
  /** The longest window in force over this matcher, in milliseconds. */
  windowMs: number;
  record(agentId: string, departmentIds: readonly string[], at: number, journal: VelocityJournal | undefined): void;
  countAgent(agentId: string, after: number): number;
  countDepartments(
    departmentIds: readonly string[],
    windowMs: number,
    now: number,
    journal: VelocityJournal | undefined,
  ): number;
  countWorkspace(windowMs: number, now: number, journal: VelocityJournal | undefined): number;
  /** Puts earlier times in front of what was recorded live. */
  prepend(agentId: string, times: Float64Array): void;
  forgetDepartment(departmentId: string): void;
}

const NO_DEPARTMENTS: readonly string[] = [];

/** Creates the counts of a matcher. `membership` MUST show the state that the next entry is decided against. */
export function createMatcherCounts(spec: CounterSpec, since: number, membership: Membership): MatcherCounts {
  const agents = new Map<string, TimeRing>();
  const groups = new Map<string, GroupWindow>();
  const groupsByDepartment = new Map<string, Set<GroupWindow>>();
  const workspaceGroups: GroupWindow[] = [];

  const ringOf = (agentId: string): TimeRing => {
    const known = agents.get(agentId);
    if (known !== undefined) return known;
    const ring = createTimeRing();
    agents.set(agentId, ring);
    return ring;
  };

  const remove = (key: string, group: GroupWindow): void => {
    groups.delete(key);
    for (const departmentId of group.departmentIds ?? NO_DEPARTMENTS)
      groupsByDepartment.get(departmentId)?.delete(group);
    if (group.departmentIds === null) workspaceGroups.splice(workspaceGroups.indexOf(group), 1);
  };

  const timesOf = (agentIds: Iterable<string>, after: number): Float64Array => {
    const series: Float64Array[] = [];
    for (const agentId of agentIds) {
      const ring = agents.get(agentId);
      if (ring !== undefined) series.push(ring.timesAfter(after));
    }
    return mergeTimes(series);
  };

  const build = (key: string, departmentIds: readonly string[] | null, windowMs: number, now: number): GroupWindow => {
    const members = departmentIds === null ? agents.keys() : membership.membersOfAny(departmentIds);
    const group = { ring: createTimeRing(timesOf(members, now - windowMs)), departmentIds, windowMs };
    groups.set(key, group);
    if (departmentIds === null) workspaceGroups.push(group);
    for (const departmentId of departmentIds ?? NO_DEPARTMENTS) {
      const known = groupsByDepartment.get(departmentId);
      if (known === undefined) groupsByDepartment.set(departmentId, new Set([group]));
      else known.add(group);
    }
    return group;
  };

  const countGroup = (
    departmentIds: readonly string[] | null,
    windowMs: number,
    now: number,
    journal: VelocityJournal | undefined,
  ): number => {
    const key = departmentIds === null ? `${windowMs}` : `${windowMs} ${departmentIds.join("+")}`;
    let group = groups.get(key);
    if (group === undefined) {
      const built = build(key, departmentIds, windowMs, now);
      journal?.built.push(() => remove(key, built));
      group = built;
    }
    group.ring.dropUntil(now - windowMs);
    return group.ring.length;
  };

  const pushTo = (ring: TimeRing, at: number, journal: VelocityJournal | undefined): void => {
    ring.push(at);
    journal?.pushed.push(ring);
  };

  // Nobody may read a group again: without this it would grow for as long as the process lives.
  const pushToGroup = ({ ring, windowMs }: GroupWindow, at: number, journal: VelocityJournal | undefined): void => {
    ring.dropUntil(at - windowMs);
    pushTo(ring, at, journal);
  };

  const recordDepartments = (
    departmentIds: readonly string[],
    at: number,
    journal: VelocityJournal | undefined,
  ): void => {
    // One group may hold several of the agent's departments, and counts the action once.
    const seen = departmentIds.length > 1 ? new Set<GroupWindow>() : undefined;
    for (const departmentId of departmentIds) {
      for (const group of groupsByDepartment.get(departmentId) ?? []) {
        if (seen?.has(group)) continue;
        seen?.add(group);
        pushToGroup(group, at, journal);
      }
    }
  };

  return {
    patterns: compilePatterns(spec.patterns),
    countsDecision: (decision) => spec.countDecisions.length === 0 || spec.countDecisions.includes(decision),
    since,
    isComplete: false,
    windowMs: spec.windowMs,
    record(agentId, departmentIds, at, journal) {
      const ring = ringOf(agentId);
      ring.dropUntil(at - this.windowMs);
      pushTo(ring, at, journal);
      for (const group of workspaceGroups) pushToGroup(group, at, journal);
      recordDepartments(departmentIds, at, journal);
    },
    countAgent: (agentId, after) => agents.get(agentId)?.countAfter(after) ?? 0,
    countDepartments: countGroup,
    countWorkspace: (windowMs, now, journal) => countGroup(null, windowMs, now, journal),
    prepend(agentId, times) {
      const live = agents.get(agentId)?.timesAfter(Number.NEGATIVE_INFINITY) ?? new Float64Array();
      agents.set(agentId, createTimeRing(mergeTimes([times, live])));
    },
    forgetDepartment(departmentId) {
      for (const [key, group] of groups) {
        if (group.departmentIds?.includes(departmentId)) remove(key, group);
      }
    },
  };
}
