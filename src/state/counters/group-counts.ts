/** The members of departments, as the state of the log has them. */
export interface Membership {
  /** Returns the number of agents in the workspace, inactive ones included. */
  agentCount(): number;
  /** Returns the union of the members of some departments. */
  membersOfAny(departmentIds: readonly string[]): ReadonlySet<string>;
  /** Returns the departments of an agent, sorted; empty for an agent in no department. */
  departmentsOf(agentId: string): readonly string[];
}

/** Numbers for agents, from 0, so that a counted action takes four bytes for its agent. Shared by all counters. */
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

interface Group {
  readonly departmentIds: readonly string[];
  count: number;
}

/**
 * Numbers of actions of one window, by agent and by group.
 * INVARIANT: a group's count is the sum of its members' counts; a group is forgotten before its members change.
 */
export class GroupCounts {
  readonly #agents: AgentNumbers;
  readonly #membership: Membership;
  #counts: number[] = [];
  #total = 0;
  readonly #groups = new Map<string, Group>();
  readonly #groupsByDepartment = new Map<string, Set<Group>>();

  /** Creates counts of zero. `membership` MUST reflect the state that the next action is decided against. */
  constructor(agents: AgentNumbers, membership: Membership) {
    this.#agents = agents;
    this.#membership = membership;
  }

  /** Count of all agents. */
  get total(): number {
    return this.#total;
  }

  /** Adds to an agent's count; a negative number subtracts. O(groups that contain the agent). */
  add(agent: number, count: number): void {
    while (this.#counts.length <= agent) this.#counts.push(0);
    this.#counts[agent] = (this.#counts[agent] as number) + count;
    this.#total += count;
    if (this.#groups.size > 0) this.#addToGroups(this.#membership.departmentsOf(this.#agents.idOf(agent)), count);
  }

  /** Returns the count of an agent. */
  countFor(agentId: string): number {
    return this.#counts[this.#agents.find(agentId) ?? -1] ?? 0;
  }

  /** Visits the agents with a count above 0, in no particular order. */
  forEach(visit: (agentId: string, count: number) => void): void {
    for (const [agent, count] of this.#counts.entries()) if (count > 0) visit(this.#agents.idOf(agent), count);
  }

  /** Returns what `countForDepartments` does, without keeping the group: kept groups make each action dearer. */
  peekDepartments(departmentIds: readonly string[]): number {
    const known = this.#groups.get(departmentIds.join("+"));
    if (known !== undefined) return known.count;
    let count = 0;
    for (const agentId of this.#membership.membersOfAny(departmentIds)) count += this.countFor(agentId);
    return count;
  }

  /** Returns the count of the members of one or more departments, each member once. Summed on first use, then kept. */
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
    this.#groups.clear();
    this.#groupsByDepartment.clear();
  }

  #addToGroups(departmentIds: readonly string[], count: number): void {
    // A group may contain several of the agent's departments, but counts the action once.
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
    const group = { departmentIds, count: 0 };
    for (const agentId of this.#membership.membersOfAny(departmentIds)) group.count += this.countFor(agentId);
    for (const departmentId of departmentIds) {
      const known = this.#groupsByDepartment.get(departmentId);
      if (known === undefined) this.#groupsByDepartment.set(departmentId, new Set([group]));
      else known.add(group);
    }
    return group;
  }
}
