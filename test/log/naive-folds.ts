import { digestFrom } from "./naive-approval.ts";
import {
  endGrant,
  grantFrom,
  lentTo,
  revokeGrants,
  type SealedGrant,
  type SealedRevocation,
  useGrants,
} from "./naive-authority.ts";
import { foldAllowed, foldClaim, foldOutcome } from "./naive-budgets.ts";
import { contractFrom, type SealedContract, useContracts } from "./naive-contract.ts";
import type { NaiveAgent, NaiveBody, NaiveEscalation, NaiveMandate, NaiveSettings, NaiveState } from "./naive-log.ts";

/** A refusal that changes nothing: of a call under an ended key, of a repeated request, or of a halted workspace. */
export const isFree = ({ key_ended, replay_of, decision_path }: NaiveBody): boolean =>
  key_ended === true || replay_of !== undefined || decision_path === "halted";

/** Folds a decision. */
export function foldDecision(state: NaiveState, body: NaiveBody): void {
  if (isFree(body)) return;
  const { agent_id: agentId, action_type } = body.action;
  const agent = state.agents.get(agentId) as NaiveAgent;
  agent.trustTenths = Math.round(body.trust.after * 10);
  const type = action_type.trim().toLowerCase();
  const lent = agent.status === "active" ? lentTo(state, body) : undefined;
  const principalId = lent === undefined || "code" in lent ? undefined : lent.principalId;
  state.past.push({ agentId, principalId, type, decision: body.decision, at: Date.parse(body.at) });
  if (body.escalation_id !== undefined && body.escalation_expires_at !== undefined) {
    const expiresAt = Date.parse(body.escalation_expires_at);
    const pending = { agentId, digest: digestFrom(state, body), status: "pending", isUsed: false, expiresAt };
    state.escalations.set(body.escalation_id, pending);
  }
  const used = state.escalations.get(body.used_escalation_id ?? "");
  if (used !== undefined) used.isUsed = true;
  if (body.decision !== "allow") return;
  useGrants(state, body.authority ?? []);
  useContracts(state, body);
  foldAllowed(state, body, principalId);
}

interface SealedAgent {
  readonly agent_id: string;
  readonly trust_tenths: number;
  readonly capabilities: readonly string[];
  readonly allowed_action_types: readonly string[];
  readonly denied_action_types: readonly string[];
  readonly requires?: readonly string[];
}

interface SealedMembership {
  readonly department_id: string;
  readonly agent_id: string;
}

interface SealedResolution {
  readonly escalation_id: string;
  readonly resolution: string;
  readonly at: string;
  readonly cause?: string;
  readonly expires_at?: string;
  readonly edited_from?: string;
  readonly edit?: {
    readonly action_digest: string;
    readonly edited_digest: string;
    readonly decision: string;
    readonly replaced_by?: string;
  };
}

interface SealedExtension {
  readonly escalation_id: string;
  readonly seconds: number;
  readonly expires_at: string;
  readonly at: string;
}

/** Moves the expiry of an escalation that is pending. Throws when it was not, or when the time does not fit. */
function extendNaively({ escalations }: NaiveState, { escalation_id, seconds, expires_at, at }: SealedExtension): void {
  const escalation = escalations.get(escalation_id) as NaiveEscalation;
  const isPending = escalation.status === "pending" && escalation.expiresAt > Date.parse(at);
  escalation.expiresAt += seconds * 1000;
  if (!isPending || Date.parse(expires_at) !== escalation.expiresAt || seconds < 1 || seconds > 604_800)
    throw new Error(`${escalation_id} is extended to ${expires_at}`);
}

/** Checks that an edit leads from one action to another that is approved only after this one is rejected. */
function checkEdit(
  { escalations }: Pick<NaiveState, "escalations">,
  { escalation_id, resolution, edit, edited_from }: SealedResolution,
): void {
  const escalation = escalations.get(escalation_id) as NaiveEscalation;
  const from = escalations.get(edited_from ?? "");
  if (edited_from !== undefined && (resolution !== "approved" || from?.status !== "rejected" || from === escalation))
    throw new Error(`${escalation_id} is approved by an edit of ${edited_from}, which is ${from?.status}`);
  if (edit === undefined) return;
  const to = escalations.get(edit.replaced_by ?? "");
  const isRight =
    resolution === "rejected" &&
    edit.action_digest === escalation.digest &&
    edit.edited_digest !== escalation.digest &&
    (edit.decision === "escalate") === (to !== undefined) &&
    (to === undefined ||
      (to.status === "pending" && to.digest === edit.edited_digest && to.agentId === escalation.agentId));
  if (!isRight) throw new Error(`${escalation_id} is edited wrongly`);
}

/** Resolves an escalation that is pending. Throws when it was not, or when its time does not fit. */
function resolveNaively({ escalations, settings }: NaiveState, change: SealedResolution): void {
  const { escalation_id, resolution, cause, expires_at } = change;
  const escalation = escalations.get(escalation_id) as NaiveEscalation;
  const at = Date.parse(change.at);
  if (escalation.status !== "pending") throw new Error(`${escalation_id} was ${escalation.status} before`);
  checkEdit({ escalations }, change);
  if ((cause === "expiry") !== escalation.expiresAt <= at) throw new Error(`${escalation_id} ended at the wrong time`);
  escalation.status = resolution;
  if (resolution !== "approved") return;
  escalation.expiresAt = at + settings.approval_ttl_seconds * 1000;
  if (Date.parse(expires_at ?? "") !== escalation.expiresAt)
    throw new Error(`${escalation_id} is approved until ${expires_at}`);
}

const FOLDS: Readonly<Record<string, (state: NaiveState, change: never) => void>> = {
  agent_registered({ agents }, { agent }: { agent: SealedAgent }) {
    agents.set(agent.agent_id, {
      status: "active",
      trustTenths: agent.trust_tenths,
      listed: [...agent.allowed_action_types, ...agent.capabilities],
      denied: agent.denied_action_types,
      requires: agent.requires ?? [],
    });
  },
  agent_requirements_set({ agents }, { agent_id, requires }: { agent_id: string; requires: readonly string[] }) {
    (agents.get(agent_id) as NaiveAgent).requires = requires;
  },
  agent_deactivated({ agents }, { agent_id }: SealedMembership) {
    (agents.get(agent_id) as NaiveAgent).status = "deactivated";
  },
  department_created: ({ departments }, { department }: { department: SealedMembership }) =>
    void departments.set(department.department_id, new Set()),
  department_deleted: ({ departments }, { department_id }: SealedMembership) => void departments.delete(department_id),
  department_member_added: (state, { department_id, agent_id }: SealedMembership) =>
    state.departments.get(department_id)?.add(agent_id),
  department_member_removed: (state, { department_id, agent_id }: SealedMembership) =>
    state.departments.get(department_id)?.delete(agent_id),
  mandate_published: ({ mandates }, { mandate }: { mandate: NaiveMandate }) =>
    void mandates.set(mandate.mandate_id, mandate),
  mandate_archived: ({ mandates }, { mandate_id }: NaiveMandate) => void mandates.delete(mandate_id),
  pack_applied({ mandates }, { published, archived }: { published: NaiveMandate[]; archived: string[] }) {
    for (const id of archived) mandates.delete(id);
    for (const mandate of published) mandates.set(mandate.mandate_id, mandate);
  },
  escalation_resolved: resolveNaively,
  escalation_withdrawn: () => undefined,
  escalation_extended: extendNaively,
  escalation_approval_given: () => undefined,
  escalation_approval_withdrawn: () => undefined,
  escalation_reminded: () => undefined,
  approver_group_changed: () => undefined,
  approver_group_deleted: () => undefined,
  workspace_updated(state, { workspace }: { workspace: NaiveSettings }) {
    state.settings = workspace;
  },
  authority_created(state, { authority }: { authority: SealedGrant | SealedContract }) {
    if (authority.kind === "session") state.sessions.set(authority.id, authority.agent_id);
    else if (authority.kind === "intent_contract") state.contracts.push(contractFrom(authority as SealedContract));
    else state.grants.push(grantFrom(authority as SealedGrant));
  },
  authority_ended(state, ended: { kind: string; ids: readonly string[] }) {
    if (ended.kind === "grant") return endGrant(state, ended);
    for (const contract of state.contracts) if (ended.ids.includes(contract.id)) contract.isEnded = true;
  },
  agent_revoked(state, revoked: SealedRevocation) {
    (state.agents.get(revoked.agent_id) as NaiveAgent).status = "revoked";
    revokeGrants(state, revoked);
  },
  session_observed({ prompted }, { session_id, source }: { session_id: string; source: string }) {
    if (source === "prompt") prompted.add(session_id);
  },
  claim: foldClaim,
  outcome: foldOutcome,
  // Mandates and digests say what the model needs of tools.
  tool_registered: () => undefined,
  tool_provenance_declared: () => undefined,
  key_created: () => undefined,
  key_revoked: () => undefined,
  person_created: () => undefined,
  person_updated: () => undefined,
  person_invited: () => undefined,
  person_deactivated: () => undefined,
  person_reactivated: () => undefined,
  signing_key_added: () => undefined,
  signing_key_retired: () => undefined,
};

/** Folds an entry that is no decision. Throws on a type that it does not know. */
export function foldChange(state: NaiveState, change: { readonly type: string }): void {
  const fold = FOLDS[change.type];
  if (fold === undefined) throw new Error(`no fold for ${change.type}`);
  fold(state, change as never);
}
