import { LRUCache } from "lru-cache";
import { compilePatterns } from "../../policy/action-patterns.ts";
import type { Decision, OrderedSpec } from "../../policy/types.ts";
import type { HistoryEntry } from "./log-history.ts";
import { AgentNumbers, type Membership, RingBuffer } from "./windows.ts";

// Ordered sequences.
//
// A rule such as "read, then anything, then send, within an hour" fires on an action that is the last step, if actions of
// the same group were the steps before it, in order. Other actions may come between. So deciding needs one fact: when did
// the latest run of a group through all steps but the last begin? If later than now minus the window, the rule fires.
//
// A chain answers this in memory that does not depend on the number of actions. For each step it holds the latest time at
// which a run began that has reached the step:
//
//     steps         read    write   (send)
//     read  at 10   10      -
//     write at 20   10      10              the run that began at 10 has reached `write`
//     read  at 30   30      10
//     write at 40   30      30              now a newer run has reached it; the older one can be forgotten
//
// Of two runs that reached the same step, the one that began later stays in the window longer, so only it matters. An action
// moves the value of the step before it one step on. When it matches several steps, the highest goes first, so that one
// action is never two steps of one run. This costs O(steps) per action, and no step ever needs to be removed: reading
// compares the beginning with the window.
//
// A track is one sequence in one scope. It holds a chain for each agent, or one for the whole workspace. For departments
// chains are not enough: when members change, a group's chain cannot be derived from the chains of its members, because
// their steps may interleave. So the track also keeps the matching actions in the window, 16 bytes each, and builds a
// department's chain from them on first use. Rules with the same steps, decisions and scope share a track, which keeps the
// longest window of any of them.
//
// INVARIANT: no step of a chain is later than the step before it.

/** Functions that undo a batch, to be called in reverse order; undefined for entries that are durable. */
type Undo = (() => void)[] | undefined;

/** For each step but the last, the latest time at which a run began that reached the step; minus infinity for none. */
type Chain = Float64Array;

/** A set of steps: bit `i` stands for step `i`. Sequences have at most 20 steps. */
type Steps = number;

function createChain(length: number): Chain {
  return new Float64Array(length).fill(Number.NEGATIVE_INFINITY);
}

function advance(chain: Chain, steps: Steps, at: number, undo: Undo): void {
  for (let step = chain.length - 1; step >= 0; step--) {
    if ((steps & (1 << step)) === 0) continue;
    const before = chain[step] as number;
    const began = step === 0 ? at : (chain[step - 1] as number);
    if (began <= before) continue;
    chain[step] = began;
    undo?.push(() => {
      chain[step] = before;
    });
  }
}

/** Returns when the latest run through all steps but the last began; minus infinity when there is none. */
function beginningOf(chain: Chain | undefined): number {
  return chain?.at(-1) ?? Number.NEGATIVE_INFINITY;
}

/** Counts the steps of a chain, from the first on, that were reached by a run that began later than a time. */
function stepsAfter(chain: Chain | undefined, after: number): number {
  let steps = 0;
  while (chain !== undefined && (chain[steps] ?? Number.NEGATIVE_INFINITY) > after) steps += 1;
  return steps;
}

/**
 * Progress of groups through a sequence: the number of steps that happened in order within its window, without the last step.
 */
export interface OrderedProgress {
  /** Steps that the whole workspace has reached. */
  readonly workspace: number;
  /** Returns the steps that an agent has reached. */
  ofAgent(agentId: string): number;
  /** Visits the agents that have reached at least one step, in no particular order. */
  forEach(visit: (agentId: string, steps: number) => void): void;
  /** Returns the steps that groups of one or more departments have reached. Keeps none of the groups. */
  ofDepartments(groups: readonly (readonly string[])[]): readonly number[];
}

interface DepartmentGroup {
  readonly departmentIds: readonly string[];
  readonly chain: Chain;
}

/** The chains of departments over one sequence, and the actions in the window from which they are built. */
class DepartmentChains {
  readonly #length: number;
  readonly #agents: AgentNumbers;
  readonly #membership: Membership;
  readonly #actions = new RingBuffer({ hasTags: true });
  readonly #groups = new Map<string, DepartmentGroup>();
  readonly #groupsByDepartment = new Map<string, Set<DepartmentGroup>>();

  constructor(length: number, agents: AgentNumbers, membership: Membership) {
    this.#length = length;
    this.#agents = agents;
    this.#membership = membership;
  }

  record(agentId: string, steps: Steps, at: number, windowMs: number, undo: Undo): void {
    while (this.#actions.firstAt <= at - windowMs) this.#actions.shift();
    this.#actions.push(at, this.#agents.numberOf(agentId), steps);
    undo?.push(() => this.#actions.pop());
    const departmentIds = this.#membership.departmentsOf(agentId);
    // A set, because a group may contain several of the agent's departments but advances once.
    const groups = new Set(departmentIds.flatMap((id) => [...(this.#groupsByDepartment.get(id) ?? [])]));
    for (const { chain } of groups) advance(chain, steps, at, undo);
  }

  /** Returns the chain of the members of one or more departments, built on first use. */
  chainOf(departmentIds: readonly string[], undo: Undo): Chain {
    const key = departmentIds.join("+");
    const known = this.#groups.get(key);
    if (known !== undefined) return known.chain;
    const group = { departmentIds, chain: this.#buildChain(departmentIds) };
    this.#groups.set(key, group);
    for (const id of departmentIds) {
      const others = this.#groupsByDepartment.get(id);
      if (others === undefined) this.#groupsByDepartment.set(id, new Set([group]));
      else others.add(group);
    }
    // The chain was built from actions that may be rolled back.
    undo?.push(() => this.#forget(key));
    return group.chain;
  }

  /** Returns the chains of groups of departments, built in one pass over the actions, without keeping them. */
  peek(groups: readonly (readonly string[])[]): readonly Chain[] {
    const built = new Map<number, Chain[]>();
    const chains = groups.map((departmentIds) => {
      const known = this.#groups.get(departmentIds.join("+"));
      if (known !== undefined) return known.chain;
      const chain = createChain(this.#length);
      for (const agentId of this.#membership.membersOfAny(departmentIds)) {
        const agent = this.#agents.find(agentId);
        if (agent !== undefined) built.set(agent, [...(built.get(agent) ?? []), chain]);
      }
      return chain;
    });
    if (built.size === 0) return chains;
    this.#actions.forEach((agent, at, steps) => {
      for (const chain of built.get(agent) ?? []) advance(chain, steps, at, undefined);
    });
    return chains;
  }

  forgetDepartment(departmentId: string): void {
    for (const { departmentIds } of this.#groupsByDepartment.get(departmentId) ?? [])
      this.#forget(departmentIds.join("+"));
  }

  #buildChain(departmentIds: readonly string[]): Chain {
    const members = [...this.#membership.membersOfAny(departmentIds)].map((id) => this.#agents.numberOf(id));
    const isMember = new Set(members);
    const chain = createChain(this.#length);
    this.#actions.forEach((agent, at, steps) => {
      if (isMember.has(agent)) advance(chain, steps, at, undefined);
    });
    return chain;
  }

  #forget(key: string): void {
    const group = this.#groups.get(key);
    if (group === undefined) return;
    this.#groups.delete(key);
    for (const id of group.departmentIds) this.#groupsByDepartment.get(id)?.delete(group);
  }
}

/**
 * Maximum number of action types whose steps a track caches. A type has at most 256 characters, and the tracks share its text.
 */
const CACHED_ACTION_TYPES = 1_000;

/** One sequence in one scope. */
class OrderedTrack {
  /** True once the history is loaded. Until then nothing is read, and recorded actions are left to the history. */
  isComplete = false;
  /** The longest window in force over this sequence, in milliseconds. */
  windowMs: number;
  readonly #spec: OrderedSpec;
  readonly #length: number;
  readonly #agents: AgentNumbers;
  readonly #membership: Membership;
  readonly #stepsByType: LRUCache<string, Steps>;
  readonly #chains = new Map<string, Chain>();
  #workspaceChain: Chain;
  #departments: DepartmentChains;

  constructor(spec: OrderedSpec, agents: AgentNumbers, membership: Membership) {
    this.windowMs = spec.windowMs;
    this.#spec = spec;
    this.#length = spec.steps.length - 1;
    this.#agents = agents;
    this.#membership = membership;
    const patterns = spec.steps.slice(0, this.#length).map((step) => compilePatterns([step], spec.excluded));
    this.#stepsByType = new LRUCache({
      maxSize: CACHED_ACTION_TYPES,
      sizeCalculation: () => 1,
      memoMethod: (type: string) =>
        patterns.reduce((steps, pattern, step) => (pattern.matches(type) ? steps | (1 << step) : steps), 0),
    });
    this.#workspaceChain = createChain(this.#length);
    this.#departments = new DepartmentChains(this.#length, agents, membership);
  }

  /** Forgets all actions, so that the history can be loaded from its beginning. */
  clear(): void {
    this.#chains.clear();
    this.#workspaceChain = createChain(this.#length);
    this.#departments = new DepartmentChains(this.#length, this.#agents, this.#membership);
  }

  record({ agentId, actionType, at, decision }: HistoryEntry, undo: Undo): void {
    const { scope, countDecisions } = this.#spec;
    const steps = this.#stepsByType.memo(actionType);
    if (steps === 0 || (countDecisions.length > 0 && !countDecisions.includes(decision))) return;
    if (scope === "workspace") {
      advance(this.#workspaceChain, steps, at, undo);
      return;
    }
    // Also with scope `department`: an agent in no department is a group of its own.
    advance(this.#chainFor(agentId), steps, at, undo);
    if (scope === "department") this.#departments.record(agentId, steps, at, this.windowMs, undo);
  }

  /** Returns when the latest run of the agent's group through all steps but the last began; minus infinity for none. */
  read({ departmentId }: OrderedSpec, agentId: string, undo: Undo): number {
    const { scope } = this.#spec;
    if (scope === "workspace") return beginningOf(this.#workspaceChain);
    const own = scope === "department" ? this.#membership.departmentsOf(agentId) : [];
    const departmentIds = departmentId === undefined ? own : [departmentId];
    if (departmentIds.length > 0) return beginningOf(this.#departments.chainOf(departmentIds, undo));
    return beginningOf(this.#chains.get(agentId));
  }

  /** Returns the progress of groups by actions later than a time. */
  progress(after: number): OrderedProgress {
    return {
      workspace: stepsAfter(this.#workspaceChain, after),
      ofAgent: (agentId) => stepsAfter(this.#chains.get(agentId), after),
      forEach: (visit) => {
        for (const [agentId, chain] of this.#chains) {
          const steps = stepsAfter(chain, after);
          if (steps > 0) visit(agentId, steps);
        }
      },
      ofDepartments: (groups) => this.#departments.peek(groups).map((chain) => stepsAfter(chain, after)),
    };
  }

  forgetDepartment(departmentId: string): void {
    this.#departments.forgetDepartment(departmentId);
  }

  #chainFor(agentId: string): Chain {
    const known = this.#chains.get(agentId);
    if (known !== undefined) return known;
    const chain = createChain(this.#length);
    this.#chains.set(agentId, chain);
    return chain;
  }
}

/** Loader of the history that sequences wait for. */
export interface OrderedReplay {
  /** Length in milliseconds of the longest window that waits: older entries need not be added. */
  readonly windowMs: number;
  /** Adds entries, oldest first. */
  add(entries: readonly HistoryEntry[]): void;
  /** Marks the history as complete. Everything recorded so far MUST have been added. */
  finish(): void;
}

/**
 * The ordered sequences of a workspace, exact to the entry of the log and the millisecond of the window. A decision costs
 * O(steps) per sequence, whatever the size of the group and the number of actions in the window.
 */
export class OrderedSequences {
  readonly #membership: Membership;
  readonly #agents = new AgentNumbers();
  #tracks = new Map<string, OrderedTrack>();

  /** Creates the sequences of a workspace, empty at first. `membership` MUST reflect the state of the next decision. */
  constructor(membership: Membership) {
    this.#membership = membership;
  }

  /** True when no sequence waits for history. */
  get isComplete(): boolean {
    return this.#tracks.size === 0 || this.#incomplete().length === 0;
  }

  /** Sets the sequences in force. */
  require(specs: readonly OrderedSpec[]): void {
    const before = this.#tracks;
    this.#tracks = new Map();
    for (const spec of specs) {
      const track =
        this.#tracks.get(spec.key) ?? before.get(spec.key) ?? new OrderedTrack(spec, this.#agents, this.#membership);
      // A longer window needs history that was dropped.
      if (spec.windowMs > track.windowMs) Object.assign(track, { windowMs: spec.windowMs, isComplete: false });
      this.#tracks.set(spec.key, track);
    }
  }

  /**
   * Starts to load history from its beginning, also after a replay that did not finish. MUST be called only while every
   * recorded action is durable. Nothing may be recorded until it finishes.
   */
  replay(): OrderedReplay {
    const tracks = this.#incomplete();
    for (const track of tracks) track.clear();
    return {
      windowMs: Math.max(...tracks.map(({ windowMs }) => windowMs)),
      add(entries) {
        for (const entry of entries) for (const track of tracks) track.record(entry, undefined);
      },
      finish() {
        for (const track of tracks) track.isComplete = true;
      },
    };
  }

  /** Records an action that was decided. For a batch that may be rolled back, adds a step to `undo` that reverts the record. */
  record(agentId: string, actionType: string, at: number, decision: Decision, undo?: Undo): void {
    if (this.#tracks.size === 0) return;
    const entry = { agentId, actionType, at, decision };
    for (const track of this.#tracks.values()) if (track.isComplete) track.record(entry, undo);
  }

  /**
   * Returns when the latest run of the agent's group through all steps but the last began, in epoch milliseconds; undefined
   * when none began later than `now` minus the window.
   */
  read(spec: OrderedSpec, agentId: string, now: number, undo?: Undo): number | undefined {
    const began = this.#completeTrack(spec).read(spec, agentId, undo);
    return began > now - spec.windowMs ? began : undefined;
  }

  /** Returns the progress of groups through a sequence as of `now`. */
  progressOf(spec: OrderedSpec, now: number): OrderedProgress {
    return this.#completeTrack(spec).progress(now - spec.windowMs);
  }

  /** Drops the chains of a department whose members change; the next read builds them again. */
  forgetDepartment(departmentId: string): void {
    for (const track of this.#tracks.values()) track.forgetDepartment(departmentId);
  }

  #completeTrack(spec: OrderedSpec): OrderedTrack {
    const track = this.#tracks.get(spec.key);
    if (!track?.isComplete) throw new Error(`the sequence \`${spec.key}\` has no history yet`);
    return track;
  }

  #incomplete(): OrderedTrack[] {
    return [...this.#tracks.values()].filter(({ isComplete }) => !isComplete);
  }
}
