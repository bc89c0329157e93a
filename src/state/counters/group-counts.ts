import type { Membership } from "./membership.ts";

/** Numbers for agents, so that an entry of a window takes four bytes for its agent. Shared by the windows of a workspace. */
export interface AgentNumbers {
  of(agentId: string): number;
  idOf(agent: number): string;
}

/** Creates numbers from 0, in the order of asking. */
export function createAgentNumbers(): AgentNumbers {
  const numbers = new Map<string, number>();
  const ids: string[] = [];
  return {
    of(agentId) {
      const known = numbers.get(agentId);
      if (known !== undefined) return known;
      numbers.set(agentId, ids.length);
      return ids.push(agentId) - 1;
    },
    idOf: (agent) => ids[agent] as string,
  };
}

/**
 * How many entries of one window are each agent's and each group's.
 * INVARIANT: a group's count is the sum of its members' counts; a group whose members change is forgotten first.
 */
export interface GroupCounts {
  readonly total: number;
  /** Adds entries of an agent, or with a negative number takes them away. O(groups that it is in). */
  add(agent: number, count: number): void;
  ofAgent(agentId: string): number;
  /** The count of the agents of one or more departments, each once; summed up when it is first asked for. */
  ofDepartments(departmentIds: readonly string[]): number;
  forgetDepartment(departmentId: string): void;
  clear(): void;
}

interface Group {
  readonly departmentIds: readonly string[];
  count: number;
}

/** Creates counts that are all zero. `membership` MUST show the state that the next entry is decided against. */
export function createGroupCounts(agents: AgentNumbers, membership: Membership): GroupCounts {
  let counts: number[] = [];
  let total = 0;
  const groups = new Map<string, Group>();
  const groupsByDepartment = new Map<string, Set<Group>>();

  const addToGroups = (departmentIds: readonly string[], count: number): void => {
    // One group may hold several of the agent's departments, and counts the action once.
    const seen = departmentIds.length > 1 ? new Set<Group>() : undefined;
    for (const departmentId of departmentIds) {
      for (const group of groupsByDepartment.get(departmentId) ?? []) {
        if (seen?.has(group)) continue;
        seen?.add(group);
        group.count += count;
      }
    }
  };

  const build = (departmentIds: readonly string[]): Group => {
    const group = { departmentIds, count: 0 };
    for (const agentId of membership.membersOfAny(departmentIds)) group.count += counts[agents.of(agentId)] ?? 0;
    for (const departmentId of departmentIds) {
      const known = groupsByDepartment.get(departmentId);
      if (known === undefined) groupsByDepartment.set(departmentId, new Set([group]));
      else known.add(group);
    }
    return group;
  };

  return {
    get total() {
      return total;
    },
    add(agent, count) {
      while (counts.length <= agent) counts.push(0);
      counts[agent] = (counts[agent] as number) + count;
      total += count;
      if (groups.size > 0) addToGroups(membership.departmentsOf(agents.idOf(agent)), count);
    },
    ofAgent: (agentId) => counts[agents.of(agentId)] ?? 0,
    ofDepartments(departmentIds) {
      const key = departmentIds.join("+");
      let group = groups.get(key);
      if (group === undefined) {
        group = build(departmentIds);
        groups.set(key, group);
      }
      return group.count;
    },
    forgetDepartment(departmentId) {
      for (const [key, group] of groups) {
        if (!group.departmentIds.includes(departmentId)) continue;
        groups.delete(key);
        for (const id of group.departmentIds) groupsByDepartment.get(id)?.delete(group);
      }
    },
    clear() {
      counts = [];
      total = 0;
      groups.clear();
      groupsByDepartment.clear();
    },
  };
}
