import type { Frontier } from "../tree/merkle.ts";
import { type AgentState, createPatternCache, type PatternCache } from "./agents.ts";
import { type AuthorityBook, createAuthorityBook } from "./authority.ts";
import type { SealedWorkspace } from "./control-changes.ts";
import { OrderedSequences } from "./counters/ordered.ts";
import { VelocityWindows } from "./counters/windows.ts";
import { createDepartments, type Departments } from "./departments.ts";
import type { EscalationState } from "./escalations.ts";
import { createPolicies, type Policies } from "./policies.ts";

/** Undo journal of a batch. */
export interface StateJournal {
  /** Functions that restore the state from before the batch. MUST be called in reverse order. */
  readonly undo: (() => void)[];
}

/**
 * A workspace as its log has it: a fold over the entries, and nothing that exists only in memory.
 * INVARIANT: two replicas that folded the same entries hold equal states.
 */
export interface WorkspaceState {
  readonly workspaceId: string;
  settings: SealedWorkspace;
  /** Entries folded; the index of the next one. */
  seq: number;
  /** Time of the last entry, epoch milliseconds. */
  lastAtMs: number;
  frontier: Frontier;
  /** Compiled forms of the lists that agents were registered with. */
  readonly patterns: PatternCache;
  readonly agents: Map<string, AgentState>;
  readonly departments: Departments;
  readonly policies: Policies;
  readonly windows: VelocityWindows;
  readonly sequences: OrderedSequences;
  /** Escalations that actions presented: loaded on demand, since most are never presented. */
  readonly escalations: Map<string, EscalationState>;
  readonly authority: AuthorityBook;
  /** Authority whose uses changed, with the size of the log after the entry that changed them. */
  readonly usesChangedAt: Map<string, number>;
  /** Agents whose trust changed, with the size of the log after the entry that changed it. */
  readonly trustChangedAt: Map<string, number>;
}

/** Creates the state of a workspace at some size of its log, without agents, tools and mandates. */
export function createWorkspaceState(
  settings: SealedWorkspace,
  at: { readonly seq: number; readonly lastAtMs: number; readonly frontier: Frontier },
): WorkspaceState {
  const agents = new Map<string, AgentState>();
  const departments = createDepartments(agents);
  return {
    workspaceId: settings.workspace_id,
    settings,
    ...at,
    patterns: createPatternCache(),
    agents,
    departments,
    policies: createPolicies(),
    windows: new VelocityWindows(departments, settings.workspace_id),
    sequences: new OrderedSequences(departments),
    escalations: new Map(),
    authority: createAuthorityBook(),
    usesChangedAt: new Map(),
    trustChangedAt: new Map(),
  };
}

/** Keeps exactly the counters and sequences that the mandates in force read. */
export function requireCounters(state: WorkspaceState, nextIndex: number): void {
  state.windows.require(state.policies.counters(), nextIndex);
  state.sequences.require(state.policies.sequences());
}
