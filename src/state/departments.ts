import { LRUCache } from "lru-cache";
import type { AgentState } from "./agents.ts";
import type { SealedDepartment } from "./control-changes.ts";
import type { Membership } from "./counters/windows.ts";

/** A department as the log has it. */
export interface DepartmentState {
  readonly department: SealedDepartment;
  readonly createdAtMs: number;
  /** Index of the entry that created it. */
  readonly createdSeq: number;
  readonly members: ReadonlySet<string>;
}

const NO_MEMBERS: ReadonlySet<string> = new Set();
/** Members of the unions of departments that are cached: about 32 MB of sets. A larger union is built each time. */
const CACHED_MEMBERS = 1_048_576;

/** The departments of a workspace and their members. Keeps the `departmentIds` of the workspace's agents up to date. */
export class Departments implements Membership {
  readonly #agents: ReadonlyMap<string, AgentState>;
  readonly #all = new Map<string, DepartmentState & { readonly members: Set<string> }>();
  readonly #unions: LRUCache<string, ReadonlySet<string>, readonly string[]>;

  /** Creates no departments over the agents of a workspace. */
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
    // The agent's own text, because an entry's would keep the whole entry in memory.
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
