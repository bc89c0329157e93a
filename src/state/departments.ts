import type { AgentState } from "./agents.ts";
import type { SealedDepartment } from "./control-changes.ts";
import type { Membership } from "./counters/group-counts.ts";

/** A department as the log has it. */
export interface DepartmentState {
  readonly department: SealedDepartment;
  readonly createdAtMs: number;
  /** Index of the entry that created it. */
  readonly createdSeq: number;
  readonly members: ReadonlySet<string>;
}

/** The departments of a workspace and who belongs to them. */
export interface Departments extends Membership {
  readonly all: ReadonlyMap<string, DepartmentState>;
  add(department: SealedDepartment, createdAtMs: number, createdSeq: number): void;
  remove(departmentId: string): void;
  addMember(departmentId: string, agentId: string): void;
  removeMember(departmentId: string, agentId: string): void;
}

const NONE: ReadonlySet<string> = new Set();
/** Unions of departments that are remembered. */
const REMEMBERED_UNIONS = 10_000;

/** Creates the departments over the workspace's agents, whose `departmentIds` it keeps. */
export function createDepartments(agents: ReadonlyMap<string, AgentState>): Departments {
  const all = new Map<string, DepartmentState & { readonly members: Set<string> }>();
  const unions = new Map<string, ReadonlySet<string>>();

  const unionOf = (departmentIds: readonly string[]): ReadonlySet<string> => {
    const key = departmentIds.join("+");
    const known = unions.get(key);
    if (known !== undefined) return known;
    const union = new Set(departmentIds.flatMap((id) => [...(all.get(id)?.members ?? NONE)]));
    if (unions.size >= REMEMBERED_UNIONS) unions.clear();
    unions.set(key, union);
    return union;
  };

  const setDepartments = (agentId: string, change: (ids: readonly string[]) => string[]): void => {
    const agent = agents.get(agentId);
    if (agent !== undefined) agent.departmentIds = change(agent.departmentIds);
    unions.clear();
  };

  const removeMember = (departmentId: string, agentId: string): void => {
    all.get(departmentId)?.members.delete(agentId);
    setDepartments(agentId, (ids) => ids.filter((id) => id !== departmentId));
  };

  return {
    all,
    agentCount: () => agents.size,
    departmentsOf: (agentId) => agents.get(agentId)?.departmentIds ?? [],
    membersOfAny(departmentIds) {
      const [only] = departmentIds;
      if (departmentIds.length === 1 && only !== undefined) return all.get(only)?.members ?? NONE;
      return unionOf(departmentIds);
    },
    add: (department, createdAtMs, createdSeq) =>
      void all.set(department.department_id, { department, createdAtMs, createdSeq, members: new Set() }),
    remove(departmentId) {
      for (const agentId of all.get(departmentId)?.members ?? NONE) removeMember(departmentId, agentId);
      all.delete(departmentId);
    },
    addMember(departmentId, agentId) {
      all.get(departmentId)?.members.add(agents.get(agentId)?.agentId ?? agentId);
      setDepartments(agentId, (ids) => [...ids.filter((id) => id !== departmentId), departmentId].sort());
    },
    removeMember,
  };
}
