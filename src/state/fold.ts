import type { Decision } from "../policy/types.ts";
import { createAgentState, setRequirements } from "./agents.ts";
import type { ControlChange } from "./control-changes.ts";
import type { Reservation } from "./counters/budget-pots.ts";
import { escalationIdOf } from "./escalations.ts";
import { amountChangesOf, type SealedClaim, type SealedOutcome } from "./outcomes.ts";
import { type Action, isHaltedRefusal, type Outcome } from "./types.ts";
import { endAuthority, requireCounters, type StateJournal, type WorkspaceState } from "./workspace.ts";

/** Highest trust, in tenths. */
export const MAX_TRUST_TENTHS = 1000;

/** Change of trust by each decision, in tenths. */
export const TRUST_CHANGE_TENTHS: Readonly<Record<Decision, number>> = { allow: 2, block: -20, escalate: -5 };

/** Returns the trust after a decision, clamped to 0 and 100.0. */
export function trustAfter(tenths: number, decision: Decision): number {
  return Math.min(MAX_TRUST_TENTHS, Math.max(0, tenths + TRUST_CHANGE_TENTHS[decision]));
}

/** Default of a workspace whose entries are from before the setting, seconds. */
const DEFAULT_OUTCOME_TIMEOUT_SECONDS = 3_600;

/** Returns the time after which a pending outcome that is tracked now becomes unknown, milliseconds. */
export const outcomeTimeoutMs = ({ settings }: WorkspaceState): number =>
  (settings.outcome_timeout_seconds ?? DEFAULT_OUTCOME_TIMEOUT_SECONDS) * 1000;

/** A decision's request for an approval. */
export interface Ask {
  readonly escalationId: string;
  /** Set if the request created the escalation; otherwise it joined one that was pending. */
  readonly created?: { readonly actionDigest: string; readonly expiresAtMs: number };
  /** Approvals that the request demands and no request of the escalation before did, as `demandKey` gives them. Default: none. */
  readonly demands?: readonly string[];
}

/** References of a decision, which the column `ref_id` keeps for replicas that fold the decision. */
export interface DecisionRefs {
  /** Ids of the approved escalation and of the authority that the decision used; an intent contract's with the step, as `usedStep` writes it. */
  readonly usedIds: readonly string[];
  readonly ask: Ask | undefined;
  /** Amounts that the decision reserves. Default: none. */
  readonly reservations?: readonly Reservation[];
  /** True if the decision changes no trust. Default false. */
  readonly keepsTrust?: boolean;
  /** True if an approval let the action exceed a budget. Default false. */
  readonly isOverdrawn?: boolean;
}

const NO_IDS: readonly string[] = [];
const NO_REFS: DecisionRefs = { usedIds: NO_IDS, ask: undefined };
/** Word before the references of a decision that changes no trust. */
const KEPT = "kept ";
/**
 * First word of the references of an entry that raises `budget.overdrawn`. INVARIANT: as the index `ledger_entry_overdrawn` has it, and no id
 * begins so.
 */
export const OVERDRAWN = "over";
/** Beginning of a word that stands for a reservation. No id begins so. */
const POT = "pot:";
/** Sign between the id of an intent contract and the index of the step that an action used. No id holds it. */
const STEP = "#";

/** Returns the reference to a step of the plan of an intent contract. */
export const usedStep = (contractId: string, step: number): string => `${contractId}${STEP}${step}`;

/**
 * Writes the references of a decision: ids and `pot:<key>:<millionths>`, or `ask:<id>`, or `new:<action digest>:<expiry>`, the last two followed by
 * `:<demands>` where the decision brings any; empty for none. `kept ` stands before those of a decision that changes no trust, and `over ` first of all where an approval let the action exceed a budget.
 */
export function refTextFrom({ isOverdrawn = false, keepsTrust = false, ...refs }: DecisionRefs): string {
  const text = keepsTrust ? KEPT + plainRefText(refs) : plainRefText(refs);
  return isOverdrawn ? `${OVERDRAWN} ${text}` : text;
}

function plainRefText({ usedIds, ask, reservations = [] }: DecisionRefs): string {
  if (ask === undefined) {
    if (reservations.length === 0) return usedIds.length === 0 ? "" : usedIds.join(" ");
    return [...usedIds, ...reservations.map(({ pot, millionths }) => `${POT}${pot}:${millionths}`)].join(" ");
  }
  const { demands = [], created } = ask;
  const added = demands.length === 0 ? "" : `:${demands.join(",")}`;
  return created === undefined
    ? `ask:${ask.escalationId}${added}`
    : `new:${created.actionDigest}:${created.expiresAtMs}${added}`;
}

/** Reads the references of a decision; the reverse of `refTextFrom`. */
export function refsFromText(text: string | null, decisionId: string): DecisionRefs {
  if (text === null || text === "") return NO_REFS;
  if (text.startsWith(`${OVERDRAWN} `))
    return { ...refsFromText(text.slice(OVERDRAWN.length + 1), decisionId), isOverdrawn: true };
  if (text.startsWith(KEPT)) return { ...refsFromText(text.slice(KEPT.length), decisionId), keepsTrust: true };
  if (text.startsWith("ask:")) {
    const [, escalationId = "", added] = text.split(":");
    return { usedIds: NO_IDS, ask: { escalationId, ...demandsFromText(added) } };
  }
  if (!text.startsWith("new:")) return wordRefs(text.split(" "));
  const [, actionDigest = "", expiresAt, added] = text.split(":");
  const created = { actionDigest, expiresAtMs: Number(expiresAt) };
  return { usedIds: NO_IDS, ask: { escalationId: escalationIdOf(decisionId), created, ...demandsFromText(added) } };
}

const demandsFromText = (text: string | undefined): Pick<Ask, "demands"> =>
  text === undefined ? {} : { demands: text.split(",") };

function wordRefs(words: readonly string[]): DecisionRefs {
  const pots = words.filter((word) => word.startsWith(POT));
  if (pots.length === 0) return { usedIds: words, ask: undefined };
  const reservations = pots.map((word): Reservation => {
    const [, pot = "", millionths] = word.split(":");
    return { pot, millionths: Number(millionths) };
  });
  return { usedIds: words.filter((word) => !word.startsWith(POT)), ask: undefined, reservations };
}

/**
 * True if a decision changes trust and counts in windows: refusals of ended keys, of retries and of a halted workspace do neither.
 */
export function isCounted({ replayOf }: Action, outcome: Pick<Outcome, "isKeyEnded" | "path">): boolean {
  return replayOf === undefined && !outcome.isKeyEnded && !isHaltedRefusal(outcome);
}

/** Facts of a decision's entry that the state depends on. */
export interface FoldedDecision {
  readonly seq: number;
  readonly atMs: number;
  readonly agentId: string;
  /** The agent on whose behalf the action was, if its grants held; undefined for an agent that acted for itself. */
  readonly principalId: string | undefined;
  /** In the form in which names compare (`normaliseName`). */
  readonly actionType: string;
  readonly decision: Decision;
  readonly decisionId: string;
  readonly refs: DecisionRefs;
}

/** A change with its place in the log. */
export interface FoldedChange {
  readonly change: ControlChange;
  readonly seq: number;
  readonly atMs: number;
  /** Author of the change. */
  readonly by: string;
}

/**
 * Folds a decision into the state: trust, counters, new escalations, and uses of approvals and authority. Every decision that
 * counts (`isCounted`) enters the state here, whether it was made by this replica, made by another, or read by a cold start. A
 * batch that may be rolled back passes its journal.
 */
export function foldDecision(state: WorkspaceState, entry: FoldedDecision, journal?: StateJournal): void {
  const agent = state.agents.get(entry.agentId);
  if (agent === undefined) return;
  // The state's own string, because the request's would keep the whole request in memory.
  const { agentId } = agent;
  const before = agent.trustTenths;
  if (entry.refs.keepsTrust !== true) {
    agent.trustTenths = trustAfter(before, entry.decision);
    state.trustChangedAt.set(agentId, entry.seq + 1);
    journal?.undo.push(() => {
      agent.trustTenths = before;
    });
  }
  const { actionType, atMs: at, decision } = entry;
  const principalId = state.agents.get(entry.principalId ?? "")?.agentId;
  state.windows.record({ agentId, principalId, actionType, at, decision }, journal?.undo);
  state.sequences.record(agentId, actionType, at, decision, journal?.undo);
  const { usedIds, ask, reservations } = entry.refs;
  if (reservations !== undefined) state.budgets.record(reservations, { agentId, principalId }, at, journal?.undo);
  if (ask?.created !== undefined) openEscalation(state, agentId, ask, ask.created, journal);
  else if (ask?.demands !== undefined) widenEscalation(state, ask.escalationId, ask.demands, journal);
  for (const id of usedIds) {
    if (id.startsWith("esc_")) useEscalation(state, id, entry.decisionId, journal);
    else useAuthority(state, id, entry.seq + 1, journal);
  }
}

function useAuthority(state: WorkspaceState, used: string, nextSeq: number, journal: StateJournal | undefined): void {
  const [id = "", stepText] = used.split(STEP);
  const step = stepText === undefined ? undefined : Number(stepText);
  state.authority.use(id, step, 1);
  state.usesChangedAt.set(id, nextSeq);
  journal?.undo.push(() => state.authority.use(id, step, -1));
}

function openEscalation(
  { escalations }: WorkspaceState,
  agentId: string,
  { escalationId, demands = [] }: Ask,
  created: NonNullable<Ask["created"]>,
  journal: StateJournal | undefined,
): void {
  escalations.put({ escalationId, agentId, ...created, demands, status: "pending", usedBy: null });
  journal?.undo.push(() => void escalations.remove(escalationId));
}

function widenEscalation(
  { escalations }: WorkspaceState,
  escalationId: string,
  added: readonly string[],
  journal: StateJournal | undefined,
): void {
  const before = escalations.addDemands(escalationId, added);
  if (before !== undefined) journal?.undo.push(() => escalations.setDemands(escalationId, before));
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

function forgetDepartment({ windows, sequences, budgets }: WorkspaceState, departmentId: string): void {
  windows.forgetDepartment(departmentId);
  budgets.forgetDepartment(departmentId);
  sequences.forgetDepartment(departmentId);
}

/**
 * Folds a claim or an outcome into the state. Every one enters the state here, whether it was made by this replica or by another. A
 * batch that may be rolled back passes its journal.
 */
export function foldFollowUp(state: WorkspaceState, entry: SealedClaim | SealedOutcome, journal?: StateJournal): void {
  state.outcomes.fold(entry, journal?.undo);
  if (entry.type === "claim") return;
  const { agent_id: agentId, principal_id: principalId, decided_at: decidedAt } = entry;
  state.budgets.settle(amountChangesOf(entry), { agentId, principalId }, Date.parse(decidedAt), journal?.undo);
}

type Fold<T extends ControlChange["type"]> = (
  state: WorkspaceState,
  change: Extract<ControlChange, { type: T }>,
  place: FoldedChange,
) => void;

const nothing = (): void => undefined;

const FOLDS: { readonly [T in ControlChange["type"]]: Fold<T> } = {
  workspace_created(state, { signing_key }, place) {
    if (signing_key !== undefined) state.signingKeys.add(signing_key, place);
  },
  workspace_updated(state, { workspace }) {
    // A process of an earlier version seals fewer settings.
    state.settings = { ...state.settings, ...workspace };
  },
  agent_registered(state, { agent }, { seq, atMs }) {
    state.agents.set(
      agent.agent_id,
      createAgentState(agent, { createdSeq: seq, registeredAtMs: atMs }, state.patterns),
    );
  },
  agent_deactivated(state, { agent_id }, { atMs }) {
    const agent = state.agents.get(agent_id);
    if (agent?.status !== "active") return;
    agent.status = "deactivated";
    agent.deactivatedAtMs = atMs;
  },
  agent_requirements_set(state, { agent_id, requires }) {
    const agent = state.agents.get(agent_id);
    if (agent !== undefined) setRequirements(agent, requires);
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
  tool_described: (state, { tool }) => state.policies.describeTool(tool.name, tool.description),
  tool_provenance_declared: (state, { tool }) =>
    state.policies.declareProvenance(tool.name, tool.provenance ?? undefined),
  mandate_published(state, { mandate }, { seq, atMs, by }) {
    state.policies.publish(mandate, { seq, atMs, by });
    requireCounters(state, seq + 1);
  },
  pack_applied(state, change, place) {
    state.policies.applyPack(change, place);
    requireCounters(state, place.seq + 1);
  },
  mandate_archived(state, { mandate_id }, { seq }) {
    state.policies.removeMandate(mandate_id);
    requireCounters(state, seq + 1);
  },
  proposal_made: nothing,
  proposal_accepted: nothing,
  proposal_rejected: nothing,
  list_changed: (state, { list }, { atMs }) => state.lists.fold(list, atMs),
  approver_group_changed: (state, { approver_group }, { atMs }) => state.approverGroups.fold(approver_group, atMs),
  approver_group_deleted: (state, { name }) => state.approverGroups.remove(name),
  session_observed: (state, { session_id }) => state.sessions.forget(session_id),
  escalation_resolved(state, { escalation_id, resolution, expires_at, session_id }) {
    if (session_id !== undefined) state.sessions.forget(session_id);
    const expiresAtMs = expires_at === undefined ? undefined : Date.parse(expires_at);
    state.escalations.resolve(escalation_id, resolution, expiresAtMs);
  },
  escalation_withdrawn: nothing,
  escalation_approval_given: nothing,
  escalation_approval_withdrawn: nothing,
  escalation_reminded: nothing,
  escalation_extended: (state, { escalation_id, expires_at }) =>
    state.escalations.extend(escalation_id, Date.parse(expires_at)),
  key_created: nothing,
  key_revoked: nothing,
  person_created: nothing,
  person_updated: nothing,
  person_invited: nothing,
  person_deactivated: nothing,
  person_reactivated: nothing,
  signing_key_added: (state, { signing_key }, place) => state.signingKeys.add(signing_key, place),
  signing_key_retired: (state, { key_id }, place) => state.signingKeys.retire(key_id, place),
  authority_created: (state, { authority }, { atMs }) => state.authority.put(authority, atMs, 0),
  authority_ended: (state, { ids }) => endAuthority(state, ids),
  agent_revoked(state, { agent_id, ended }, { atMs }) {
    const agent = state.agents.get(agent_id);
    if (agent !== undefined) {
      agent.status = "revoked";
      agent.deactivatedAtMs ??= atMs;
    }
    for (const ids of Object.values(ended)) endAuthority(state, ids);
  },
  leakage_detected: nothing,
  personal_values_added: nothing,
  personal_value_deleted: nothing,
  redaction_settings_changed: nothing,
  notification_settings_changed: nothing,
  slack_account_linked: nothing,
  slack_account_unlinked: nothing,
  mcp_server_created: nothing,
  mcp_server_updated: nothing,
  mcp_server_deleted: nothing,
  mcp_tool_changed: nothing,
  mcp_tool_accepted: nothing,
  mcp_result_given: nothing,
  mcp_definition_changed: nothing,
  mcp_definition_accepted: nothing,
};

/** Folds a change into the state. */
export function foldChange(state: WorkspaceState, folded: FoldedChange): void {
  const fold = FOLDS[folded.change.type] as Fold<ControlChange["type"]>;
  fold(state, folded.change as never, folded);
}
