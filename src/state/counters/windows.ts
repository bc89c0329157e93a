import { LRUCache } from "lru-cache";
import { compilePatterns } from "../../policy/action-patterns.ts";
import type { CompiledPatterns, CounterReading, CounterSpec, Decision } from "../../policy/types.ts";
import type { History, HistoryCount, HistoryEntry, MissingHistory } from "./log-history.ts";
import { NewestFinger, type PlacedActions } from "./newest-finger.ts";

/** Size of the cache from action types to windows, in characters of the types and 8 for each window. */
const CACHED_CHARACTERS = 4_194_304;
/**
 * Default number of actions that all windows of a workspace together keep at each of their ends. At 12 bytes each, and with
 * rings half empty, 25 MB at most for up to 128 windows, and 200 kB for each further one.
 */
const DEFAULT_KEPT = 524_288;
/** Default number of actions that a window may keep at each end however many windows there are. */
const DEFAULT_MIN_KEPT = 4_096;
/** Number of fingers that a window keeps for groups that reached a limit. */
const MAX_FINGERS = 1_024;

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
  readonly #parties = new Parties();
  /** Longest first: the history that the longest loads is often enough for the others. */
  #windows = new Map<string, WindowCounts>();
  #maxKept: number;
  readonly #windowsByType: LRUCache<string, readonly WindowCounts[]>;

  /**
   * Creates the windows of a workspace, empty at first. `kept` bounds the actions that all windows together keep in memory at
   * each of their ends; `minKept` is the minimum share of each window.
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
      const window = before.get(id) ?? new WindowCounts(spec, nextIndex, this.#parties, this.#membership);
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

  /** Bounds the memory, as `missing` does too. Called after many actions were recorded, under the same conditions. */
  settle(end: number): void {
    for (const window of this.#windows.values()) window.settle(end, this.#maxKept);
  }

  /**
   * Counts an action that was decided. For a batch that may be rolled back, adds a step to `undo` that removes the action
   * again.
   */
  record({ actionType, at, decision, ...party }: HistoryEntry, undo?: (() => void)[]): void {
    for (const window of this.#windowsByType.memo(actionType)) {
      if (!window.countsDecision(decision)) continue;
      window.record(party, at);
      undo?.push(window.rollback);
    }
  }

  /**
   * Reads the counter of a rule for the group of an agent, including the action at hand, which the agent does or is the principal
   * of. `now` MUST NOT go back.
   */
  read(spec: CounterSpec, agentId: string, now: number): CounterReading {
    const window = this.#windowOf(spec, now);
    const { past, ...group } = this.#readGroup(this.#groupOf(spec, agentId), window);
    return { ...group, count: past + 1, source: window.isMirrored(now) ? "mirror" : "decision_log" };
  }

  /**
   * Returns the time, in epoch milliseconds, from which one more action of an agent's group does not exceed `maxCount` if nothing else
   * happens; `now` if it would not now. `isCounted` tells whether the action at hand stays in the window. Undefined if every action
   * exceeds it, and if the actions that have to leave before are counted but not in memory. `now` MUST NOT go back.
   */
  resetsAt(
    spec: CounterSpec,
    agentId: string,
    now: number,
    { maxCount, isCounted }: { readonly maxCount: number; readonly isCounted: boolean },
  ): number | undefined {
    const window = this.#windowOf(spec, now);
    const group = this.#groupOf(spec, agentId);
    const { past } = this.#readGroup(group, window);
    // The action at hand is the newest: of a limit of 1 it is the one that has to leave.
    if (isCounted && maxCount === 1) return now + window.windowMs;
    return window.resetsAt(group, now, past, isCounted ? maxCount - 1 : maxCount);
  }

  /** Returns the same as `resetsAt` for a group itself, between two actions. */
  groupResetsAt(spec: CounterSpec, group: CountedGroup, now: number, maxCount: number): number | undefined {
    const window = this.#windowOf(spec, now);
    return window.resetsAt(group, now, window.counts.peek(group), maxCount);
  }

  /** Returns the past actions of a rule's counter, by agent and group. `now` MUST NOT go back. */
  countsOf(spec: CounterSpec, now: number): Pick<GroupCounts, "total" | "countFor" | "peekDepartments" | "forEach"> {
    return this.#windowOf(spec, now).counts;
  }

  /**
   * Counts the past actions of a rule's counter by equal parts of its window, the oldest first: those with a party for which `isIn`
   * holds. Undefined if the window holds more actions than are in memory. `now` MUST NOT go back.
   */
  historyOf(
    spec: CounterSpec,
    now: number,
    parts: number,
    isIn: (agentId: string) => boolean,
  ): readonly number[] | undefined {
    return this.#windowOf(spec, now).history(now, parts, isIn);
  }

  /** Drops the counts of a department whose members change; the next read counts them again. */
  forgetDepartment(departmentId: string): void {
    for (const window of this.#windows.values()) window.forgetDepartment(departmentId);
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

  #groupOf(spec: CounterSpec, agentId: string): CountedGroup {
    return groupFor(this.#membership, spec, agentId);
  }

  /** Returns the name of a group, its number of members and of past actions. */
  #readGroup(group: CountedGroup, { counts }: WindowCounts) {
    return { ...nameGroup(this.#membership, this.#workspaceId, group), past: counts.countForGroup(group) };
  }
}

/** Agents whose actions are counted together: one agent, the members of some departments, or without either the workspace. */
export interface CountedGroup {
  readonly agentId?: string;
  readonly departmentIds?: readonly string[];
}

/** Returns the group that a rule counts for an action of an agent. */
export function groupFor(
  membership: Membership,
  { scope, departmentId }: Pick<CounterSpec, "scope" | "departmentId">,
  agentId: string,
): CountedGroup {
  if (scope === "workspace") return {};
  const own = scope === "department" ? membership.departmentsOf(agentId) : [];
  const departmentIds = departmentId === undefined ? own : [departmentId];
  return departmentIds.length === 0 ? { agentId } : { departmentIds };
}

/** Returns the name of a group and its number of members. */
export function nameGroup(
  membership: Membership,
  workspaceId: string,
  { agentId, departmentIds }: CountedGroup,
): Pick<CounterReading, "group" | "members"> {
  if (agentId !== undefined) return { group: agentId, members: 1 };
  if (departmentIds === undefined) return { group: workspaceId, members: membership.agentCount() };
  return { group: departmentIds.join("+"), members: membership.membersOfAny(departmentIds).size };
}

/** Members of departments at a state of the log. */
export interface Membership {
  /** Returns the number of agents in the workspace, inactive ones included. */
  agentCount(): number;
  /** Returns the union of the members of some departments. */
  membersOfAny(departmentIds: readonly string[]): ReadonlySet<string>;
  /** Returns the departments of an agent, sorted; empty for an agent in no department. */
  departmentsOf(agentId: string): readonly string[];
}

/** The agents that an action counts for: the one that acts, and the principal that it acts for. */
export interface Party {
  readonly agentId: string;
  /** Undefined for an agent that acts for itself. */
  readonly principalId?: string | undefined;
}

/** Numbers for agents, from 0, so that a recorded action takes four bytes for its agent. */
export class AgentNumbers {
  readonly #numbers = new Map<string, number>();
  readonly #ids: string[] = [];

  /** Returns the number of an agent, and assigns the next one on first use. */
  numberOf(agentId: string): number {
    const known = this.#numbers.get(agentId);
    if (known !== undefined) return known;
    this.#numbers.set(agentId, this.#ids.length);
    return this.#ids.push(agentId) - 1;
  }

  /** Returns the number of an agent; undefined for one that has none yet. */
  find(agentId: string): number | undefined {
    return this.#numbers.get(agentId);
  }

  /** Returns the agent with a number. */
  idOf(agent: number): string {
    return this.#ids[agent] as string;
  }
}

/** An agent and the principal that it acted for, by their numbers. */
interface Pair {
  readonly actor: number;
  readonly principal: number;
}

/** Numbers for parties: an agent that acts for itself has its own number, and each pair of actor and principal another one. */
export class Parties {
  readonly #numbers = new AgentNumbers();
  readonly #pairs = new Map<number, Pair>();

  /** Returns the number of a party, and assigns the next one on first use. */
  numberOf({ agentId, principalId = agentId }: Party): number {
    if (principalId === agentId) return this.#numbers.numberOf(agentId);
    const party = this.#numbers.numberOf(`${agentId} ${principalId}`);
    if (!this.#pairs.has(party)) {
      const pair = { actor: this.#numbers.numberOf(agentId), principal: this.#numbers.numberOf(principalId) };
      this.#pairs.set(party, pair);
    }
    return party;
  }

  /** Returns the pair that a number stands for; undefined for an agent that acts for itself. */
  pairOf(party: number): Pair | undefined {
    return this.#pairs.get(party);
  }

  /** Returns the number of an agent; undefined for one that has none yet. */
  find(agentId: string): number | undefined {
    return this.#numbers.find(agentId);
  }

  /** Returns the agent with a number. */
  idOf(agent: number): string {
    return this.#numbers.idOf(agent);
  }

  /** Creates the test whether an agent is in a party. */
  testOfAgent(agentId: string): PartyTest {
    const agent = this.find(agentId);
    return (party) => {
      if (party === agent) return true;
      const pair = this.pairOf(party);
      return pair !== undefined && (pair.actor === agent || pair.principal === agent);
    };
  }

  /** Creates the test whether one of some agents is in a party. It keeps its results, a byte for each party. */
  testOfAgents(agentIds: ReadonlySet<string>): PartyTest {
    let known = new Uint8Array(INITIAL_CAPACITY);
    return (party) => {
      if (party >= known.length) {
        const larger = new Uint8Array(2 * party);
        larger.set(known);
        known = larger;
      }
      if (known[party] === 0) known[party] = this.agentsOf(party).some((agentId) => agentIds.has(agentId)) ? 1 : 2;
      return known[party] === 1;
    };
  }

  /** Returns the agents that a number stands for. */
  agentsOf(party: number): readonly string[] {
    const pair = this.pairOf(party);
    return (pair === undefined ? [party] : [pair.actor, pair.principal]).map((agent) => this.idOf(agent));
  }
}

/** Tests whether the actions of a party, by its number, belong to a group. */
type PartyTest = (party: number) => boolean;

interface Group {
  readonly departmentIds: readonly string[];
  count: number;
  isIn: PartyTest | undefined;
}

/**
 * Counts of the actions of one window, by agent and by group. An action counts for the agent that acts and for its principal; in a
 * group with both it counts once.
 * INVARIANT: a group's count is the number of actions with a party in it; a group is forgotten before its members change.
 */
export class GroupCounts {
  readonly #parties: Parties;
  readonly #membership: Membership;
  #counts: number[] = [];
  #total = 0;
  /** Counts of the actions on behalf of others, by acting agent and principal. */
  readonly #delegated = new Map<number, Map<number, number>>();
  readonly #groups = new Map<string, Group>();
  readonly #groupsByDepartment = new Map<string, Set<Group>>();

  /** Creates counts of zero. `membership` MUST reflect the state that the next action is decided against. */
  constructor(parties: Parties, membership: Membership) {
    this.#parties = parties;
    this.#membership = membership;
  }

  /** Count of all actions. */
  get total(): number {
    return this.#total;
  }

  /** Adds to the counts of a party; a negative number subtracts. O(groups that contain one of its agents). */
  add(party: number, count: number): void {
    this.#total += count;
    const pair = this.#parties.pairOf(party);
    if (pair !== undefined) this.#addToDelegated(pair, count);
    const agents = pair === undefined ? [party] : [pair.actor, pair.principal];
    for (const agent of agents) this.#addToAgent(agent, count);
    if (this.#groups.size > 0) this.#addToGroups(agents, count);
  }

  /** Returns the count of an agent. */
  countFor(agentId: string): number {
    return this.#counts[this.#parties.find(agentId) ?? -1] ?? 0;
  }

  /** Visits the agents with a count above 0, in no particular order. */
  forEach(visit: (agentId: string, count: number) => void): void {
    for (const [agent, count] of this.#counts.entries()) if (count > 0) visit(this.#parties.idOf(agent), count);
  }

  /** Returns the count of a group. The sum of departments is kept. */
  countForGroup({ agentId, departmentIds }: CountedGroup): number {
    if (agentId !== undefined) return this.countFor(agentId);
    return departmentIds === undefined ? this.#total : this.countForDepartments(departmentIds);
  }

  /** Returns the count of a group. Keeps nothing. */
  peek({ agentId, departmentIds }: CountedGroup): number {
    if (agentId !== undefined) return this.countFor(agentId);
    return departmentIds === undefined ? this.#total : this.peekDepartments(departmentIds);
  }

  /** Creates the test whether a party belongs to a group; undefined for the workspace, to which all belong. */
  testOf({ agentId, departmentIds }: CountedGroup): PartyTest | undefined {
    if (agentId !== undefined) return this.#parties.testOfAgent(agentId);
    if (departmentIds === undefined) return undefined;
    const group = this.#groups.get(departmentIds.join("+"));
    if (group?.isIn !== undefined) return group.isIn;
    const isIn = this.#parties.testOfAgents(this.#membership.membersOfAny(departmentIds));
    if (group !== undefined) group.isIn = isIn;
    return isIn;
  }

  /** Returns the same as `countForDepartments`, without keeping the group: each kept group adds to the cost of every action. */
  peekDepartments(departmentIds: readonly string[]): number {
    return this.#groups.get(departmentIds.join("+"))?.count ?? this.#countMembers(departmentIds);
  }

  /** Returns the count of the members of one or more departments, each action once. Summed on first use, then kept. */
  countForDepartments(departmentIds: readonly string[]): number {
    const key = departmentIds.join("+");
    let group = this.#groups.get(key);
    if (group === undefined) {
      group = this.#createGroup(departmentIds);
      this.#groups.set(key, group);
    }
    return group.count;
  }

  /** Drops the groups with a department whose members change. */
  forgetDepartment(departmentId: string): void {
    for (const [key, group] of this.#groups) {
      if (!group.departmentIds.includes(departmentId)) continue;
      this.#groups.delete(key);
      for (const id of group.departmentIds) this.#groupsByDepartment.get(id)?.delete(group);
    }
  }

  /** Sets all counts to zero. */
  clear(): void {
    this.#counts = [];
    this.#total = 0;
    this.#delegated.clear();
    this.#groups.clear();
    this.#groupsByDepartment.clear();
  }

  #addToAgent(agent: number, count: number): void {
    while (this.#counts.length <= agent) this.#counts.push(0);
    this.#counts[agent] = (this.#counts[agent] as number) + count;
  }

  #addToDelegated({ actor, principal }: Pair, count: number): void {
    const own = this.#delegated.get(actor) ?? new Map<number, number>();
    const sum = (own.get(principal) ?? 0) + count;
    if (sum === 0) own.delete(principal);
    else own.set(principal, sum);
    if (own.size === 0) this.#delegated.delete(actor);
    else this.#delegated.set(actor, own);
  }

  #addToGroups(agents: readonly number[], count: number): void {
    const departmentIds = agents.flatMap((agent) => this.#membership.departmentsOf(this.#parties.idOf(agent)));
    // A group may contain several of these departments, but counts the action once.
    const seen = departmentIds.length > 1 ? new Set<Group>() : undefined;
    for (const departmentId of departmentIds) {
      for (const group of this.#groupsByDepartment.get(departmentId) ?? []) {
        if (seen?.has(group)) continue;
        seen?.add(group);
        group.count += count;
      }
    }
  }

  #createGroup(departmentIds: readonly string[]): Group {
    const group: Group = { departmentIds, count: this.#countMembers(departmentIds), isIn: undefined };
    for (const departmentId of departmentIds) {
      const known = this.#groupsByDepartment.get(departmentId);
      if (known === undefined) this.#groupsByDepartment.set(departmentId, new Set([group]));
      else known.add(group);
    }
    return group;
  }

  /** Counts the actions of the members of some departments: the sum of their counts, without those that two of them share. */
  #countMembers(departmentIds: readonly string[]): number {
    const members = this.#membership.membersOfAny(departmentIds);
    let count = 0;
    for (const agentId of members) {
      count += this.countFor(agentId);
      const delegated = this.#delegated.get(this.#parties.find(agentId) ?? -1);
      for (const [principal, shared] of delegated ?? []) {
        if (members.has(this.#parties.idOf(principal))) count -= shared;
      }
    }
    return count;
  }
}

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
 * The window holds its oldest actions (`head`) and its newest (`tail`) one by one. Past a bound, the actions between them are
 * only counted (`unloaded`). When the head is empty, its next page is read from the log. So memory is bounded, every action is
 * read back at most once, and counts stay exact.
 */
export class WindowCounts implements PlacedActions {
  readonly windowMs: number;
  readonly patterns: CompiledPatterns;
  /** The counts as of the last `advance`. */
  readonly counts: GroupCounts;
  readonly #spec: CounterSpec;
  readonly #parties: Parties;
  #head = new RingBuffer();
  #tail = new RingBuffer();
  #unloaded: UnloadedSpan | undefined;
  /** Index in the log between `head` and `tail`, while nothing between them is unloaded. */
  #boundary: number;
  #isComplete = false;
  #mirroredUntil = Number.NEGATIVE_INFINITY;
  /** Number of actions that have left `head` and `tail` at their old end. */
  #left = 0;
  #layout = {};
  /** Fingers by number and group, the last used last. */
  readonly #fingers = new Map<string, NewestFinger>();

  /** Creates a window without history. `since` is the index of the first action that will be recorded. */
  constructor(spec: CounterSpec, since: number, parties: Parties, membership: Membership) {
    this.windowMs = spec.windowMs;
    this.patterns = compilePatterns(spec.patterns, spec.excluded);
    this.counts = new GroupCounts(parties, membership);
    this.#spec = spec;
    this.#parties = parties;
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
  record(party: Party, at: number): void {
    // A window that no rule reads any more would otherwise grow forever.
    this.#dropUntil(at - this.windowMs);
    const number = this.#parties.numberOf(party);
    this.#tail.push(at, number);
    this.counts.add(number, 1);
  }

  /**
   * Removes the last recorded action. MUST be called before anything else is recorded, before `settle`, and before the action can
   * have left the window (`log/in-flight.ts`).
   */
  readonly rollback = (): void => {
    this.counts.add(this.#tail.pop(), -1);
    this.#layout = {};
  };

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
      this.#layout = {};
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
    this.#layout = {};
  }

  /** Drops the counts of a department whose members change, and the fingers of its groups. */
  forgetDepartment(departmentId: string): void {
    this.counts.forgetDepartment(departmentId);
    this.#fingers.clear();
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

  /** Drops the actions that have left the window as of `now`. Tests that nothing is missing and `settle` would do nothing. */
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

  /**
   * Counts the actions of some agents by equal parts of the window, the oldest first. Undefined if some actions are counted but
   * not in memory. MUST be called after `advance`.
   */
  history(now: number, parts: number, isIn: (agentId: string) => boolean): readonly number[] | undefined {
    if (this.#unloaded !== undefined) return undefined;
    const counts = new Array<number>(parts).fill(0);
    const isPartyIn = new Map<number, boolean>();
    const add = (party: number, at: number): void => {
      let counted = isPartyIn.get(party);
      if (counted === undefined) {
        counted = this.#parties.agentsOf(party).some(isIn);
        isPartyIn.set(party, counted);
      }
      const part = Math.max(0, parts - 1 - Math.floor(((now - at) * parts) / this.windowMs));
      if (counted) counts[part] = (counts[part] as number) + 1;
    };
    this.#head.forEach(add);
    this.#tail.forEach(add);
    return counts;
  }

  /**
   * Returns the time from which a group with `past` actions has at most `kept - 1` of them in the window, so that it has `kept` with
   * one more; `now` if that is so already, undefined if it never is or if the action that has to leave is not in memory. MUST be called
   * after `advance`.
   */
  resetsAt(group: CountedGroup, now: number, past: number, kept: number): number | undefined {
    if (kept <= 0) return undefined;
    if (past < kept) return now;
    const at = this.#timeOfNewest(group, past, kept);
    return at === undefined ? undefined : at + this.windowMs;
  }

  /** Place of the oldest action from which on nothing is unloaded. */
  get first(): number {
    return this.#left + (this.#unloaded === undefined ? 0 : this.#head.length);
  }

  get end(): number {
    return this.#left + this.#head.length + this.#tail.length;
  }

  get layout(): object {
    return this.#layout;
  }

  partyAt(place: number): number {
    const index = place - this.#left;
    return index < this.#head.length ? this.#head.agentAt(index) : this.#tail.agentAt(index - this.#head.length);
  }

  #timeAt(place: number): number {
    const index = place - this.#left;
    return index < this.#head.length ? this.#head.timeAt(index) : this.#tail.timeAt(index - this.#head.length);
  }

  /** Returns the time of the nth newest of a group's actions; undefined if it is unloaded. */
  #timeOfNewest(group: CountedGroup, past: number, nth: number): number | undefined {
    const isIn = this.counts.testOf(group);
    const place = isIn === undefined ? this.end - nth : this.#fingerOf(group, nth).find(this, nth, isIn);
    if (place !== undefined && place >= this.first) return this.#timeAt(place);
    return this.#timeOfOldest(past - nth, isIn);
  }

  /** Returns the time of one of a group's actions, counted from the oldest, from 0; undefined if it is not in the head. */
  #timeOfOldest(index: number, isIn: PartyTest = () => true): number | undefined {
    let left = index;
    for (let place = 0; place < this.#head.length; place++) {
      if (isIn(this.#head.agentAt(place)) && left-- === 0) return this.#head.timeAt(place);
    }
    return undefined;
  }

  #fingerOf({ agentId, departmentIds = [] }: CountedGroup, nth: number): NewestFinger {
    const key = `${nth} ${agentId ?? departmentIds.join("+")}`;
    const finger = this.#fingers.get(key) ?? new NewestFinger();
    this.#fingers.delete(key);
    this.#fingers.set(key, finger);
    const [oldest] = this.#fingers.keys();
    if (this.#fingers.size > MAX_FINGERS && oldest !== undefined) this.#fingers.delete(oldest);
    return finger;
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
    for (const party of this.#pushEntries(history, missing.after + missing.windowMs - windowMs)) {
      this.counts.add(party, 1);
    }
    const count = this.#addCounts(history.rest, 1);
    this.#unloaded = count === 0 ? undefined : { from: history.nextIndex, before: missing.before, count };
    this.#mirroredUntil = history.source === "mirror" ? missing.after + missing.windowMs : Number.NEGATIVE_INFINITY;
    this.#isComplete = true;
    this.#layout = {};
  }

  /** Moves a page of the unloaded stretch, whose actions are counted already, into the head. */
  #loadNextPage(missing: MissingHistory, history: History, unloaded: UnloadedSpan): void {
    this.#dropUntil(missing.after);
    this.#layout = {};
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

  /** Appends the matching entries later than a time to the head. Returns their parties. */
  #pushEntries({ entries }: History, after: number): number[] {
    const pushed: number[] = [];
    for (const entry of entries) {
      if (entry.at <= after || !this.#matches(entry)) continue;
      const party = this.#parties.numberOf(entry);
      this.#head.push(entry.at, party);
      pushed.push(party);
    }
    return pushed;
  }

  /** Adds or subtracts the matching counts. Returns their sum. */
  #addCounts(counts: readonly HistoryCount[], sign: 1 | -1): number {
    let sum = 0;
    for (const each of counts) {
      if (!this.#matches(each)) continue;
      this.counts.add(this.#parties.numberOf(each), sign * each.count);
      sum += each.count;
    }
    return sum;
  }

  #matches({ actionType, decision }: Pick<HistoryCount, "actionType" | "decision">): boolean {
    return this.patterns.matches(actionType) && this.countsDecision(decision);
  }

  #dropUntil(limit: number): void {
    while (this.#head.firstAt <= limit) this.#drop(this.#head);
    if (this.#head.length > 0 || this.#unloaded !== undefined || !this.#isComplete) return;
    while (this.#tail.firstAt <= limit) this.#drop(this.#tail);
  }

  #drop(oldest: RingBuffer): void {
    this.counts.add(oldest.shift(), -1);
    this.#left += 1;
  }
}

const INITIAL_CAPACITY = 16;

/**
 * Actions in the order of the log, each with the number of its agent or party, in a ring buffer that doubles when it is full: 12
 * bytes each, 16 with tags. Adding and removing are amortised O(1).
 */
export class RingBuffer {
  #times = new Float64Array(INITIAL_CAPACITY);
  #agents = new Uint32Array(INITIAL_CAPACITY);
  #tags: Uint32Array | undefined;
  #start = 0;
  #length = 0;

  /** Creates an empty ring. `hasTags` (default false) keeps a number of the caller's with each action. */
  constructor({ hasTags = false } = {}) {
    if (hasTags) this.#tags = new Uint32Array(INITIAL_CAPACITY);
  }

  get length(): number {
    return this.#length;
  }

  /** Time of the oldest action; infinity for an empty ring. */
  get firstAt(): number {
    return this.#length === 0 ? Number.POSITIVE_INFINITY : (this.#times[this.#start] as number);
  }

  /** Adds an action. INVARIANT: it is not earlier than the last one. */
  push(at: number, agent: number, tag = 0): void {
    if (this.#length === this.#times.length) this.#grow();
    const slot = this.#slot(this.#length);
    this.#times[slot] = at;
    this.#agents[slot] = agent;
    if (this.#tags !== undefined) this.#tags[slot] = tag;
    this.#length += 1;
  }

  /** Returns the time of an action, by its number from the oldest, from 0. */
  timeAt(index: number): number {
    return this.#times[this.#slot(index)] as number;
  }

  /** Returns the agent of an action, by its number from the oldest, from 0. */
  agentAt(index: number): number {
    return this.#agents[this.#slot(index)] as number;
  }

  /** Removes the newest action and returns its agent. MUST NOT be called on an empty ring. */
  pop(): number {
    this.#length -= 1;
    return this.#agents[this.#slot(this.#length)] as number;
  }

  /** Removes the oldest action and returns its agent. MUST NOT be called on an empty ring. */
  shift(): number {
    const agent = this.#agents[this.#start] as number;
    this.#start = this.#slot(1);
    this.#length -= 1;
    return agent;
  }

  /** Removes all actions and keeps the memory for later ones. */
  clear(): void {
    this.#start = 0;
    this.#length = 0;
  }

  /** Visits all actions, oldest first. */
  forEach(visit: (agent: number, at: number, tag: number) => void): void {
    for (let index = 0; index < this.#length; index++) {
      const slot = this.#slot(index);
      visit(this.#agents[slot] as number, this.#times[slot] as number, this.#tags?.[slot] ?? 0);
    }
  }

  // Capacities are powers of two.
  #slot(index: number): number {
    return (this.#start + index) & (this.#times.length - 1);
  }

  #grow(): void {
    const capacity = this.#times.length * 2;
    this.#times = this.#unrolled(this.#times, new Float64Array(capacity));
    this.#agents = this.#unrolled(this.#agents, new Uint32Array(capacity));
    if (this.#tags !== undefined) this.#tags = this.#unrolled(this.#tags, new Uint32Array(capacity));
    this.#start = 0;
  }

  /** Copies a full ring into a larger array, the oldest action first. */
  #unrolled<T extends Float64Array | Uint32Array>(from: T, to: T): T {
    to.set(from.subarray(this.#start));
    to.set(from.subarray(0, this.#start), from.length - this.#start);
    return to;
  }
}
