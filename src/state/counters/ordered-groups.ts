import type { AgentNumbers } from "./group-counts.ts";
import type { Membership } from "./membership.ts";
import { advance, type Chain, createChain, type Undo } from "./ordered-chain.ts";
import { createStepRing } from "./ordered-ring.ts";

/** The chains of departments. */
export interface DepartmentChains {
  /** Takes in an action of an agent that is some steps, highest first. */
  record(agentId: string, steps: readonly number[], at: number, windowMs: number, undo: Undo): void;
  /** The chain of the agents of one or more departments; made from the actions in the window when first asked for. */
  of(departmentIds: readonly string[], undo: Undo): Chain;
  /** Forgets the chains of a department whose members changed. */
  forgetDepartment(departmentId: string): void;
}

interface Group {
  readonly departmentIds: readonly string[];
  readonly chain: Chain;
}

/**
 * Creates the chains of departments over a sequence of so many steps. Which agents belong together may change, so the
 * actions of the window are kept, 16 bytes each; agents and the workspace need no more than a chain.
 */
export function createDepartmentChains(length: number, agents: AgentNumbers, membership: Membership): DepartmentChains {
  const ring = createStepRing();
  const groups = new Map<string, Group>();
  const groupsByDepartment = new Map<string, Set<Group>>();
  // The lists of steps are few and shared, so a number stands for each.
  const kinds: (readonly number[])[] = [];
  const kindByText = new Map<string, number>();

  const kindOf = (steps: readonly number[]): number => {
    const text = steps.join();
    const known = kindByText.get(text);
    if (known !== undefined) return known;
    kindByText.set(text, kinds.length);
    return kinds.push(steps) - 1;
  };

  const groupsOf = (departmentIds: readonly string[]): Iterable<Group> => {
    const [only] = departmentIds;
    if (only !== undefined && departmentIds.length === 1) return groupsByDepartment.get(only) ?? [];
    // One group may hold several of the agent's departments, and takes the action once.
    return new Set(departmentIds.flatMap((id) => [...(groupsByDepartment.get(id) ?? [])]));
  };

  const remove = (key: string): void => {
    const group = groups.get(key);
    groups.delete(key);
    for (const id of group?.departmentIds ?? []) groupsByDepartment.get(id)?.delete(group as Group);
  };

  const build = (departmentIds: readonly string[]): Group => {
    const members = new Set([...membership.membersOfAny(departmentIds)].map(agents.of));
    const chain = createChain(length);
    ring.forEach((at, agent, kind) => {
      if (members.has(agent)) advance(chain, kinds[kind] as readonly number[], at, undefined);
    });
    return { departmentIds, chain };
  };

  return {
    record(agentId, steps, at, windowMs, undo) {
      ring.dropUntil(at - windowMs);
      ring.push(at, agents.of(agentId), kindOf(steps));
      undo?.push(() => ring.pop());
      for (const group of groupsOf(membership.departmentsOf(agentId))) advance(group.chain, steps, at, undo);
    },
    of(departmentIds, undo) {
      const key = departmentIds.join("+");
      const known = groups.get(key);
      if (known !== undefined) return known.chain;
      const group = build(departmentIds);
      groups.set(key, group);
      for (const id of departmentIds) {
        const others = groupsByDepartment.get(id);
        if (others === undefined) groupsByDepartment.set(id, new Set([group]));
        else others.add(group);
      }
      undo?.push(() => remove(key));
      return group.chain;
    },
    forgetDepartment(departmentId) {
      for (const { departmentIds } of groupsByDepartment.get(departmentId) ?? []) remove(departmentIds.join("+"));
    },
  };
}
