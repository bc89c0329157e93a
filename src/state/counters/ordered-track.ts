import { compilePatterns } from "../../policy/action-pattern.ts";
import type { Decision, OrderedSpec } from "../../policy/types.ts";
import type { AgentNumbers } from "./group-counts.ts";
import type { HistoryEntry } from "./history.ts";
import type { Membership } from "./membership.ts";
import { advance, beganAt, type Chain, createChain, type Undo } from "./ordered-chain.ts";
import { createDepartmentChains, type DepartmentChains } from "./ordered-groups.ts";

/** How far the groups of one scope are through one sequence. */
export interface OrderedTrack {
  /** True once the history is in. Nothing may be read before, and what is recorded before is left to the history. */
  isComplete: boolean;
  /** The longest window in force over this sequence, in milliseconds. */
  windowMs: number;
  /** Forgets everything, so that the history can be taken in from its beginning. */
  clear(): void;
  record(entry: HistoryEntry, undo: Undo): void;
  /** When the latest run of a group through all steps but the last began; minus infinity when there is none. */
  read(spec: OrderedSpec, agentId: string, undo: Undo): number;
  forgetDepartment(departmentId: string): void;
}

/** Action types whose steps are remembered; more than a workspace has, so that the memory stays bounded. */
const REMEMBERED_ACTION_TYPES = 10_000;

/** Creates the track of a sequence. `membership` MUST show the state that the next entry is decided against. */
export function createOrderedTrack(spec: OrderedSpec, agents: AgentNumbers, membership: Membership): OrderedTrack {
  const { scope, countDecisions } = spec;
  const length = spec.steps.length - 1;
  const patterns = spec.steps.slice(0, length).map((step) => compilePatterns([step]));
  const stepsByType = new Map<string, readonly number[]>();
  const chains = new Map<string, Chain>();
  let everyone: Chain;
  let departments: DepartmentChains;

  const clear = (): void => {
    chains.clear();
    everyone = createChain(length);
    departments = createDepartmentChains(length, agents, membership);
  };
  clear();

  /** The steps that an action type is, highest first. */
  const stepsOf = (actionType: string): readonly number[] => {
    const known = stepsByType.get(actionType);
    if (known !== undefined) return known;
    const steps = [...patterns.keys()].filter((step) => patterns[step]?.matches(actionType)).reverse();
    if (stepsByType.size >= REMEMBERED_ACTION_TYPES) stepsByType.clear();
    stepsByType.set(actionType, steps);
    return steps;
  };

  const chainOf = (agentId: string): Chain => {
    const known = chains.get(agentId);
    if (known !== undefined) return known;
    const chain = createChain(length);
    chains.set(agentId, chain);
    return chain;
  };

  const counts = (decision: Decision): boolean => countDecisions.length === 0 || countDecisions.includes(decision);

  return {
    isComplete: false,
    windowMs: spec.windowMs,
    clear,
    record({ agentId, actionType, at, decision }, undo) {
      const steps = stepsOf(actionType);
      if (steps.length === 0 || !counts(decision)) return;
      if (scope === "workspace") return advance(everyone, steps, at, undo);
      // With scope `department` too: an agent in no department is alone.
      advance(chainOf(agentId), steps, at, undo);
      if (scope === "department") departments.record(agentId, steps, at, this.windowMs, undo);
    },
    read({ departmentId }, agentId, undo) {
      if (scope === "workspace") return beganAt(everyone);
      const own = scope === "department" ? membership.departmentsOf(agentId) : [];
      const departmentIds = departmentId === undefined ? own : [departmentId];
      if (departmentIds.length > 0) return beganAt(departments.of(departmentIds, undo));
      const chain = chains.get(agentId);
      return chain === undefined ? Number.NEGATIVE_INFINITY : beganAt(chain);
    },
    forgetDepartment: (departmentId) => departments.forgetDepartment(departmentId),
  };
}
