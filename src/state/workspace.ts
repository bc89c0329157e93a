import type { Decision } from "../policy/types.ts";
import { createRootText, type Frontier } from "../tree/merkle.ts";
import { type AgentState, createAgentState, trustAfter } from "./agents.ts";
import { type AuthorityBook, createAuthorityBook } from "./authority.ts";
import type { ControlChange, SealedWorkspace } from "./control-changes.ts";
import { createOrderedSequences, type OrderedSequences } from "./counters/ordered.ts";
import { createVelocityWindows, type VelocityJournal, type VelocityWindows } from "./counters/windows.ts";
import { createDepartments, type Departments } from "./departments.ts";
import type { EscalationState } from "./escalations.ts";
import { createPolicies, type Policies } from "./policies.ts";

/** What a decision does to the state. */
export interface FoldedDecision {
  readonly agentId: string;
  /** Trimmed and lower-cased. */
  readonly actionType: string;
  readonly decision: Decision;
  readonly atMs: number;
  readonly decisionId: string;
  /** The approved escalation that it used up and the authority that it was allowed under. */
  readonly usedIds: readonly string[];
}

/** What a batch did to the state beside recording actions, so that it can be taken back. */
export interface StateJournal {
  readonly velocity: VelocityJournal;
  readonly undo: (() => void)[];
}

/** A change with its place in the log. */
export interface FoldedChange {
  readonly change: ControlChange;
  readonly seq: number;
  readonly atMs: number;
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
  /** The root of a frontier, as entries name it. */
  readonly rootText: (frontier: Frontier) => string;
  readonly agents: Map<string, AgentState>;
  readonly departments: Departments;
  readonly policies: Policies;
  readonly windows: VelocityWindows;
  readonly sequences: OrderedSequences;
  /** The escalations that actions presented; loaded on demand, since most are never presented. */
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
    rootText: createRootText(),
    agents,
    departments,
    policies: createPolicies(),
    windows: createVelocityWindows(departments, settings.workspace_id),
    sequences: createOrderedSequences(departments),
    escalations: new Map(),
    authority: createAuthorityBook(),
    usesChangedAt: new Map(),
    trustChangedAt: new Map(),
  };
}

/** Folds a decision. `nextSeq` is the size of the log with it. */
export function foldDecision(
  state: WorkspaceState,
  entry: FoldedDecision,
  nextSeq: number,
  journal?: StateJournal,
): void {
  const agent = state.agents.get(entry.agentId);
  if (agent === undefined) return;
  // The state's own text instead of the request's, so that nothing here keeps or compares another.
  const { agentId } = agent;
  const before = agent.trustTenths;
  agent.trustTenths = trustAfter(before, entry.decision);
  state.trustChangedAt.set(agentId, nextSeq);
  journal?.undo.push(() => {
    agent.trustTenths = before;
  });
  state.windows.record(agentId, entry.actionType, entry.atMs, entry.decision, journal?.velocity);
  state.sequences.record(agentId, entry.actionType, entry.atMs, entry.decision, journal?.undo);
  for (const id of entry.usedIds) {
    if (id.startsWith("esc_")) useEscalation(state, id, entry.decisionId, journal);
    else useAuthority(state, id, nextSeq, journal);
  }
}

function useAuthority(state: WorkspaceState, id: string, nextSeq: number, journal: StateJournal | undefined): void {
  state.authority.use(id, 1);
  state.usesChangedAt.set(id, nextSeq);
  journal?.undo.push(() => state.authority.use(id, -1));
}

function useEscalation(
  state: WorkspaceState,
  escalationId: string,
  by: string,
  journal: StateJournal | undefined,
): void {
  const escalation = state.escalations.get(escalationId);
  if (escalation === undefined) return;
  escalation.usedBy = by;
  journal?.undo.push(() => {
    escalation.usedBy = null;
  });
}

/** Makes the counters and sequences of the mandates in force the ones that are kept. */
export function requireCounters(state: WorkspaceState, nextIndex: number): void {
  state.windows.require(state.policies.counters(), nextIndex);
  state.sequences.require(state.policies.sequences());
}

function forgetDepartment({ windows, sequences }: WorkspaceState, departmentId: string): void {
  windows.forgetDepartment(departmentId);
  sequences.forgetDepartment(departmentId);
}

type Fold<T extends ControlChange["type"]> = (
  state: WorkspaceState,
  change: Extract<ControlChange, { type: T }>,
  place: FoldedChange,
) => void;

const nothing = (): void => undefined;

const updateSettings: Fold<"workspace_updated"> = (state, { workspace }) => {
  state.settings = workspace;
};

const FOLDS: { readonly [T in ControlChange["type"]]: Fold<T> } = {
  workspace_created: nothing,
  workspace_updated: updateSettings,
  agent_registered(state, { agent }, { seq, atMs }) {
    state.agents.set(agent.agent_id, createAgentState(agent, seq, atMs));
  },
  agent_deactivated(state, { agent_id }, { atMs }) {
    const agent = state.agents.get(agent_id);
    if (agent?.status !== "active") return;
    agent.status = "deactivated";
    agent.deactivatedAtMs = atMs;
  },
  department_created: (state, { department }, { atMs, seq }) => state.departments.add(department, atMs, seq),
  department_deleted(state, { department_id }) {
    state.departments.remove(department_id);
    forgetDepartment(state, department_id);
  },
  department_member_added(state, { department_id, agent_id }) {
    state.departments.addMember(department_id, agent_id);
    forgetDepartment(state, department_id);
  },
  department_member_removed(state, { department_id, agent_id }) {
    state.departments.removeMember(department_id, agent_id);
    forgetDepartment(state, department_id);
  },
  tool_registered(state, { tool }, { seq, atMs }) {
    state.policies.putTool(tool, atMs);
    requireCounters(state, seq + 1);
  },
  mandate_published(state, { mandate }, { seq, atMs }) {
    const before = state.policies.mandates.get(mandate.mandate_id);
    const createdAtMs = before?.createdAtMs ?? atMs;
    state.policies.putMandate(mandate, { createdAtMs, updatedAtMs: atMs, createdSeq: before?.createdSeq ?? seq });
    requireCounters(state, seq + 1);
  },
  mandate_archived(state, { mandate_id }, { seq }) {
    state.policies.removeMandate(mandate_id);
    requireCounters(state, seq + 1);
  },
  escalation_resolved(state, { escalation_id, resolution }) {
    const escalation = state.escalations.get(escalation_id);
    if (escalation !== undefined) escalation.status = resolution === "approved" ? "approved" : "rejected";
  },
  key_created: nothing,
  key_revoked: nothing,
  authority_created: (state, { authority }, { atMs }) => state.authority.put(authority, atMs, 0),
  authority_ended: (state, { ids }) => state.authority.end(ids),
  agent_revoked(state, { agent_id, ended }, { atMs }) {
    const agent = state.agents.get(agent_id);
    if (agent !== undefined) {
      agent.status = "revoked";
      agent.deactivatedAtMs ??= atMs;
    }
    for (const ids of Object.values(ended)) state.authority.end(ids);
  },
  leakage_detected: nothing,
  personal_values_added: nothing,
  personal_value_deleted: nothing,
  redaction_settings_changed: nothing,
};

/** Folds a change that is no decision. */
export function foldChange(state: WorkspaceState, folded: FoldedChange): void {
  const fold = FOLDS[folded.change.type] as Fold<ControlChange["type"]>;
  fold(state, folded.change as never, folded);
}
