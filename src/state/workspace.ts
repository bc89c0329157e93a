import type { Frontier } from "../tree/merkle.ts";
import { type AgentState, createPatternCache, Departments, type PatternCache } from "./agents.ts";
import { ApproverGroups } from "./approver-groups.ts";
import { AuthorityIndex } from "./authority.ts";
import type { SealedWorkspace } from "./control-changes.ts";
import { BudgetPots } from "./counters/budget-pots.ts";
import { OrderedSequences } from "./counters/ordered.ts";
import { VelocityWindows } from "./counters/windows.ts";
import { Escalations } from "./escalations.ts";
import { Lists } from "./lists.ts";
import { ObservedSessions } from "./observed-sessions.ts";
import { ActionOutcomes } from "./outcomes.ts";
import { Policies } from "./policies.ts";
import { SealedSigningKeys } from "./signing-keys.ts";

/** Undo journal of a batch. */
export interface StateJournal {
  /** Functions that restore the state from before the batch. MUST be called in reverse order. */
  readonly undo: (() => void)[];
}

/**
 * State of a workspace: a fold over the entries of its log, with those of the batches in flight on top until they are durable
 * or rolled back. The rest are caches, and notes for the next snapshot of trust, which a roll-back may leave too long.
 * INVARIANT: two replicas that folded the same entries hold equal states.
 */
export interface WorkspaceState {
  readonly workspaceId: string;
  settings: SealedWorkspace;
  /** Number of entries folded; the index of the next one. */
  seq: number;
  /** Time of the last entry, epoch milliseconds. */
  lastAtMs: number;
  frontier: Frontier;
  /** Compiled forms of the agents' pattern lists. */
  readonly patterns: PatternCache;
  readonly agents: Map<string, AgentState>;
  readonly departments: Departments;
  readonly lists: Lists;
  readonly approverGroups: ApproverGroups;
  readonly policies: Policies;
  readonly windows: VelocityWindows;
  readonly sequences: OrderedSequences;
  readonly budgets: BudgetPots;
  readonly escalations: Escalations;
  readonly outcomes: ActionOutcomes;
  readonly authority: AuthorityIndex;
  readonly sessions: ObservedSessions;
  readonly signingKeys: SealedSigningKeys;
  /** Authority whose uses changed since the last snapshot, with the size of the log after the last change. */
  readonly usesChangedAt: Map<string, number>;
  /** Agents whose trust changed since the last snapshot, with the size of the log after the last change. */
  readonly trustChangedAt: Map<string, number>;
}

/** Creates the state of a workspace at some size of its log, without agents, tools and mandates. */
export function createWorkspaceState(
  settings: SealedWorkspace,
  at: { readonly seq: number; readonly lastAtMs: number; readonly frontier: Frontier },
): WorkspaceState {
  const agents = new Map<string, AgentState>();
  const departments = new Departments(agents);
  const lists = new Lists();
  const approverGroups = new ApproverGroups();
  return {
    workspaceId: settings.workspace_id,
    settings,
    ...at,
    patterns: createPatternCache(),
    agents,
    departments,
    lists,
    approverGroups,
    policies: new Policies(lists, approverGroups),
    windows: new VelocityWindows(departments, settings.workspace_id),
    sequences: new OrderedSequences(departments),
    budgets: new BudgetPots(departments, settings.workspace_id),
    escalations: new Escalations(),
    outcomes: new ActionOutcomes(),
    authority: new AuthorityIndex(),
    sessions: new ObservedSessions(),
    signingKeys: new SealedSigningKeys(),
    usesChangedAt: new Map(),
    trustChangedAt: new Map(),
  };
}

/** Removes authority that ended, with what sessions among it observed. Unknown ids are ignored. */
export function endAuthority({ authority, sessions }: WorkspaceState, ids: readonly string[]): void {
  authority.end(ids);
  for (const id of ids) sessions.forget(id);
}

/** Does the same for authority that expired at or before a time of the log. */
export function forgetExpired(state: WorkspaceState, atMs: number): void {
  endAuthority(state, state.authority.expiredAt(atMs));
}

/** Sets the counters, sequences and budgets in force to those that mandates in force read. */
export function requireCounters(state: WorkspaceState, nextIndex: number): void {
  state.windows.require(state.policies.counters(), nextIndex);
  state.sequences.require(state.policies.sequences());
  state.budgets.require(state.policies.budgets(), state.policies.confirmedPots());
}
