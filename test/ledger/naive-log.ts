import { createHash } from "node:crypto";
import { canonicalJson, type JsonValue } from "../../src/ledger/canonical.ts";
import { decideNaively } from "./naive-decide.ts";

export type Word = "allow" | "block" | "escalate";

/** An agent of the naive model. */
export interface NaiveAgent {
  status: string;
  trustTenths: number;
  readonly listed: readonly string[];
  readonly denied: readonly string[];
}

/** A mandate's definition as sealed, as far as the model knows rules. */
export interface NaiveMandate {
  readonly mandate_id: string;
  readonly version: number;
  readonly definition: {
    readonly name: string;
    readonly scope: string;
    readonly agent_id?: string;
    readonly department_id?: string;
    readonly priority: number;
    readonly mode: string;
    readonly rules: readonly NaiveRule[];
  };
}

export interface NaiveRule {
  readonly type: string;
  readonly decision: string;
  readonly conditions: {
    readonly match_action_types?: readonly string[];
    readonly max_count?: string;
    readonly window_seconds?: string;
    readonly scope?: string;
    readonly department_id?: string;
    readonly count_decisions?: readonly string[];
    readonly below?: number;
  };
}

interface NaiveEscalation {
  readonly agentId: string;
  readonly digest: string;
  status: string;
  isUsed: boolean;
}

/** What the entries before some index made of a workspace: plain lists, nothing counted ahead. */
export interface NaiveState {
  defaultDecision: Word;
  readonly workspaceId: string;
  readonly agents: Map<string, NaiveAgent>;
  readonly departments: Map<string, Set<string>>;
  readonly mandates: Map<string, NaiveMandate>;
  readonly past: { readonly agentId: string; readonly type: string; readonly decision: Word; readonly at: number }[];
  readonly escalations: Map<string, NaiveEscalation>;
}

/** A decision's body as the model reads it. */
export interface NaiveBody {
  readonly at: string;
  readonly seq: number;
  readonly decision_id: string;
  readonly decision: Word;
  readonly decision_path: string;
  readonly policy_name?: string;
  readonly action: {
    readonly agent_id: string;
    readonly action_type: string;
    readonly action_content: string;
    readonly metadata?: Readonly<Record<string, JsonValue>>;
  };
  readonly action_digest?: string;
  readonly authorisation: { readonly permissions: string; readonly collective_limits: readonly object[] };
  readonly mandates: readonly { readonly mandate_id: string; readonly version: number; readonly decision?: Word }[];
  readonly observed: readonly { readonly mandate_id: string; readonly would_decide: Word }[];
  readonly reasons: readonly { readonly code: string; readonly message: string }[];
  readonly trust: { readonly before: number; readonly after: number };
  readonly escalation_id?: string;
  readonly used_escalation_id?: string;
}

/** What the design says a decision comes to, in the words of the body. */
export interface NaiveOutcome {
  readonly decision: Word;
  readonly path: string;
  readonly permissions: string;
  readonly policyName: string | undefined;
  readonly limits: readonly object[];
  /** The mandates that decided something, with what. */
  readonly fired: readonly { readonly mandate_id: string; readonly version: number; readonly decision: Word }[];
  readonly observed: readonly { readonly mandate_id: string; readonly would_decide: Word }[];
}

/** SHA-256 over the RFC 8785 form of what an approval is bound to; the model knows no tools. */
function digestFrom({ action }: NaiveBody): string {
  const { metadata = null } = action;
  const bound = {
    agent_id: action.agent_id,
    action_type: action.action_type,
    action_content: action.action_content,
    tool: null,
    tool_version: null,
    arguments: metadata,
    on_behalf_of: null,
  };
  return createHash("sha256").update(canonicalJson(bound)).digest("hex");
}

/** The escalation that the action presented: the body names it only when it was used or refused. */
function presentedBy({ used_escalation_id, reasons }: NaiveBody): string | undefined {
  if (used_escalation_id !== undefined) return used_escalation_id;
  const refused = reasons.find(({ code }) => code === "APPROVAL_NOT_USABLE");
  return refused?.message.split("`")[1];
}

function isUsable(state: NaiveState, body: NaiveBody, escalationId: string): boolean {
  const escalation = state.escalations.get(escalationId);
  if (escalation === undefined || escalation.agentId !== body.action.agent_id) return false;
  return escalation.status === "approved" && !escalation.isUsed && escalation.digest === digestFrom(body);
}

const CHANGE: Readonly<Record<Word, number>> = { allow: 2, block: -20, escalate: -5 };

/** What the design makes of the action in a body, in the words of the body; comparable with `sealedOf`. */
function expectedOf(state: NaiveState, body: NaiveBody) {
  const agent = state.agents.get(body.action.agent_id) as NaiveAgent;
  const outcome = decideNaively(state, body);
  const presented = presentedBy(body);
  const isApproved = outcome.decision === "escalate" && presented !== undefined && isUsable(state, body, presented);
  const decision = isApproved ? "allow" : outcome.decision;
  const after = Math.min(1000, Math.max(0, agent.trustTenths + CHANGE[decision]));
  return {
    ...outcome,
    seq: body.seq,
    decision,
    path: isApproved ? "approved" : outcome.path,
    used: isApproved ? presented : undefined,
    digest: outcome.decision === "escalate" ? digestFrom(body) : undefined,
    escalates: decision === "escalate",
    trust: { before: agent.trustTenths / 10, after: after / 10 },
  };
}

function sealedOf(body: NaiveBody): ReturnType<typeof expectedOf> {
  return {
    seq: body.seq,
    decision: body.decision,
    path: body.decision_path,
    permissions: body.authorisation.permissions,
    policyName: body.policy_name,
    limits: body.authorisation.collective_limits,
    fired: body.mandates.flatMap(({ mandate_id, version, decision }) =>
      decision === undefined ? [] : [{ mandate_id, version, decision }],
    ),
    observed: body.observed.map(({ mandate_id, would_decide }) => ({ mandate_id, would_decide })),
    used: body.used_escalation_id,
    digest: body.action_digest,
    escalates: body.escalation_id !== undefined,
    trust: body.trust,
  };
}

function foldDecision(state: NaiveState, body: NaiveBody): void {
  const { agent_id: agentId, action_type } = body.action;
  const agent = state.agents.get(agentId) as NaiveAgent;
  agent.trustTenths = Math.round(body.trust.after * 10);
  const type = action_type.trim().toLowerCase();
  state.past.push({ agentId, type, decision: body.decision, at: Date.parse(body.at) });
  if (body.escalation_id !== undefined) {
    const digest = digestFrom(body);
    state.escalations.set(body.escalation_id, { agentId, digest, status: "pending", isUsed: false });
  }
  const used = state.escalations.get(body.used_escalation_id ?? "");
  if (used !== undefined) used.isUsed = true;
}

interface SealedAgent {
  readonly agent_id: string;
  readonly trust_tenths: number;
  readonly capabilities: readonly string[];
  readonly allowed_action_types: readonly string[];
  readonly denied_action_types: readonly string[];
}

interface SealedMembership {
  readonly department_id: string;
  readonly agent_id: string;
}

interface SealedResolution {
  readonly escalation_id: string;
  readonly resolution: string;
}

const FOLDS: Readonly<Record<string, (state: NaiveState, change: never) => void>> = {
  agent_registered({ agents }, { agent }: { agent: SealedAgent }) {
    agents.set(agent.agent_id, {
      status: "active",
      trustTenths: agent.trust_tenths,
      listed: [...agent.allowed_action_types, ...agent.capabilities],
      denied: agent.denied_action_types,
    });
  },
  agent_deactivated({ agents }, { agent_id }: SealedMembership) {
    (agents.get(agent_id) as NaiveAgent).status = "deactivated";
  },
  department_created: ({ departments }, { department }: { department: SealedMembership }) =>
    void departments.set(department.department_id, new Set()),
  department_member_added: (state, { department_id, agent_id }: SealedMembership) =>
    state.departments.get(department_id)?.add(agent_id),
  department_member_removed: (state, { department_id, agent_id }: SealedMembership) =>
    state.departments.get(department_id)?.delete(agent_id),
  mandate_published: ({ mandates }, { mandate }: { mandate: NaiveMandate }) =>
    void mandates.set(mandate.mandate_id, mandate),
  mandate_archived: ({ mandates }, { mandate_id }: NaiveMandate) => void mandates.delete(mandate_id),
  escalation_resolved({ escalations }, { escalation_id, resolution }: SealedResolution) {
    (escalations.get(escalation_id) as NaiveEscalation).status = resolution;
  },
  key_created: () => undefined,
};

/**
 * Replays a log on one thread, entry by entry, and gives for every decision what the design says of it and what was sealed.
 * Throws on a kind of entry that it does not know.
 */
export function replayNaively(bodies: readonly string[]) {
  const [first, ...rest] = bodies.map((body) => JSON.parse(body));
  const state: NaiveState = {
    defaultDecision: first.workspace.default_decision,
    workspaceId: first.workspace.workspace_id,
    agents: new Map(),
    departments: new Map(),
    mandates: new Map(),
    past: [],
    escalations: new Map(),
  };
  const replayed: { want: ReturnType<typeof expectedOf>; got: ReturnType<typeof sealedOf> }[] = [];
  for (const body of rest) {
    if (body.type === "decision") {
      replayed.push({ want: expectedOf(state, body), got: sealedOf(body) });
      foldDecision(state, body);
      continue;
    }
    const fold = FOLDS[body.type];
    if (fold === undefined) throw new Error(`no fold for ${body.type}`);
    fold(state, body as never);
  }
  return replayed;
}
