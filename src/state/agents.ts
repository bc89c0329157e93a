import { LRUCache } from "lru-cache";
import { compilePatterns } from "../policy/action-patterns.ts";
import { comparableName } from "../policy/names.ts";
import type { CompiledPatterns } from "../policy/types.ts";
import type { AgentRequirement, SealedAgent, SealedDepartment } from "./control-changes.ts";
import type { Membership } from "./counters/windows.ts";

/** Status of an agent; the words of the proto enum `AgentStatus`. */
export type AgentStatus = "active" | "deactivated" | "revoked";

/** State of an agent. Decisions and changes are folded into the one object that lives as long as the agent. */
export interface AgentState {
  readonly agentId: string;
  /** The registration as sealed, with what it requires now. */
  registration: SealedAgent;
  /** `comparableName` of its name. */
  readonly nameKey: string;
  /** Index of the entry that registered it. */
  readonly createdSeq: number;
  readonly registeredAtMs: number;
  /** Action types that the allow-list and the capabilities admit; null when the agent has neither. */
  readonly admitted: CompiledPatterns | null;
  readonly denied: CompiledPatterns;
  status: AgentStatus;
  deactivatedAtMs: number | null;
  /** 0 to 1000. */
  trustTenths: number;
  /** Everything that each of its actions must have. */
  requires: readonly AgentRequirement[];
  /** Sorted. */
  departmentIds: readonly string[];
}

/** Compiles a list of patterns, or returns the compiled form of an equal list from its cache. */
export type PatternCache = (patterns: readonly string[]) => CompiledPatterns;

/** Characters of pattern lists that a workspace caches. Lists in use by agents stay alive without the cache. */
const CACHED_CHARACTERS = 4_194_304;

/** Creates the cache of a workspace. Agents of a kind often have equal lists, and so share their compiled forms. */
export function createPatternCache(): PatternCache {
  const lists = new LRUCache<string, CompiledPatterns, readonly string[]>({
    maxSize: CACHED_CHARACTERS,
    sizeCalculation: (_compiled, key) => key.length,
    memoMethod: (_key, _stale, { context: patterns }) => compilePatterns(patterns),
  });
  return (patterns) => lists.memo(JSON.stringify(patterns), { context: patterns });
}

const NOTHING: readonly AgentRequirement[] = [];

/** Creates the state of an agent from its registration, with the initial status. */
export function createAgentState(
  registration: SealedAgent,
  { createdSeq, registeredAtMs }: Pick<AgentState, "createdSeq" | "registeredAtMs">,
  patterns: PatternCache,
): AgentState {
  const { capabilities, allowed_action_types, denied_action_types } = registration;
  const admitted = [...allowed_action_types, ...capabilities];
  return {
    agentId: registration.agent_id,
    registration,
    nameKey: comparableName(registration.name),
    createdSeq,
    registeredAtMs,
    admitted: admitted.length === 0 ? null : patterns(admitted),
    denied: patterns(denied_action_types),
    status: "active",
    deactivatedAtMs: null,
    trustTenths: registration.trust_tenths,
    requires: registration.requires ?? NOTHING,
    departmentIds: [],
  };
}

/** Replaces what every action of an agent must have. */
export function setRequirements(agent: AgentState, requires: readonly AgentRequirement[]): void {
  const { requires: _, ...registration } = agent.registration;
  agent.registration = requires.length === 0 ? registration : { ...registration, requires };
  agent.requires = requires;
}

/** State of a department. */
export interface DepartmentState {
  readonly department: SealedDepartment;
  readonly createdAtMs: number;
  /** Index of the entry that created it. */
  readonly createdSeq: number;
  readonly members: ReadonlySet<string>;
}

const NO_MEMBERS: ReadonlySet<string> = new Set();
/** Maximum number of members in the cached unions of departments: about 32 MB of sets. A larger union is built each time. */
const CACHED_MEMBERS = 1_048_576;

/** The departments of a workspace and their members. Keeps the `departmentIds` of the workspace's agents up to date. */
export class Departments implements Membership {
  readonly #agents: ReadonlyMap<string, AgentState>;
  readonly #all = new Map<string, DepartmentState & { readonly members: Set<string> }>();
  readonly #unions: LRUCache<string, ReadonlySet<string>, readonly string[]>;

  /** Creates the departments of a workspace, empty at first, over its agents. */
  constructor(agents: ReadonlyMap<string, AgentState>) {
    this.#agents = agents;
    this.#unions = new LRUCache<string, ReadonlySet<string>, readonly string[]>({
      maxSize: CACHED_MEMBERS,
      sizeCalculation: (members, key) => members.size + Math.ceil(key.length / 16) + 1,
      memoMethod: (_key, _stale, { context: departmentIds }) =>
        new Set(departmentIds.flatMap((id) => [...this.#membersOf(id)])),
    });
  }

  /** All departments by id, in the order of their creation. */
  get all(): ReadonlyMap<string, DepartmentState> {
    return this.#all;
  }

  agentCount(): number {
    return this.#agents.size;
  }

  departmentsOf(agentId: string): readonly string[] {
    return this.#agents.get(agentId)?.departmentIds ?? [];
  }

  membersOfAny(departmentIds: readonly string[]): ReadonlySet<string> {
    const [only] = departmentIds;
    if (only !== undefined && departmentIds.length === 1) return this.#membersOf(only);
    return this.#unions.memo(departmentIds.join("+"), { context: departmentIds });
  }

  /** Adds a department without members. */
  add(department: SealedDepartment, createdAtMs: number, createdSeq: number): void {
    this.#all.set(department.department_id, { department, createdAtMs, createdSeq, members: new Set() });
  }

  /** Removes a department and its members' membership. */
  remove(departmentId: string): void {
    for (const agentId of this.#membersOf(departmentId)) this.removeMember(departmentId, agentId);
    this.#all.delete(departmentId);
  }

  /** Adds an agent to a department. */
  addMember(departmentId: string, agentId: string): void {
    const agent = this.#agents.get(agentId);
    // The agent's own string, because the entry's would keep the whole entry in memory.
    this.#all.get(departmentId)?.members.add(agent?.agentId ?? agentId);
    this.#changeDepartments(agent, (ids) => [...ids.filter((id) => id !== departmentId), departmentId].sort());
  }

  /** Removes an agent from a department. */
  removeMember(departmentId: string, agentId: string): void {
    this.#all.get(departmentId)?.members.delete(agentId);
    this.#changeDepartments(this.#agents.get(agentId), (ids) => ids.filter((id) => id !== departmentId));
  }

  #membersOf(departmentId: string): ReadonlySet<string> {
    return this.#all.get(departmentId)?.members ?? NO_MEMBERS;
  }

  #changeDepartments(agent: AgentState | undefined, change: (ids: readonly string[]) => string[]): void {
    if (agent !== undefined) agent.departmentIds = change(agent.departmentIds);
    this.#unions.clear();
  }
}
