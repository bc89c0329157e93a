import type { JsonValue } from "../../src/tree/canonical.ts";
import { askNaively, digestFrom, receptionOf } from "./naive-approval.ts";
import type { NaiveGrant } from "./naive-authority.ts";
import { type NaiveAllowed, trackedOf } from "./naive-budgets.ts";
import { type NaiveContract, type NaiveCovering, sealedCovering } from "./naive-contract.ts";
import { decideNaively, type NaiveLimit, shownLimit } from "./naive-decide.ts";
import { foldChange, foldDecision, isFree } from "./naive-folds.ts";

export type Word = "allow" | "block" | "escalate";

/** An agent of the naive model. */
export interface NaiveAgent {
  status: string;
  trustTenths: number;
  readonly listed: readonly string[];
  readonly denied: readonly string[];
  requires: readonly string[];
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
  readonly escalation_ttl_seconds?: number;
  readonly conditions: {
    readonly match_action_types?: readonly string[];
    readonly max_count?: string;
    readonly window_seconds?: string;
    readonly scope?: string;
    readonly department_id?: string;
    readonly count_decisions?: readonly string[];
    readonly below?: number;
    readonly mode?: string;
    readonly steps?: readonly string[];
    readonly time_zone?: string;
    readonly days?: readonly string[];
    readonly from?: string;
    readonly to?: string;
    readonly outside?: boolean;
    readonly on_unavailable?: string;
    readonly sums?: readonly { readonly tool: string; readonly field: string }[];
    readonly currency?: string;
    readonly max_total?: number;
  };
}

/** A semantic rule that was looked at, without what came of it. */
export interface NaiveGuard {
  readonly mandate_id: string;
  readonly version: number;
  readonly rule: string;
}

/** An escalation of the naive model. */
export interface NaiveEscalation {
  readonly agentId: string;
  readonly digest: string;
  status: string;
  isUsed: boolean;
  /** Epoch milliseconds; once approved, the end of the approval. */
  expiresAt: number;
}

/** Settings of a workspace as sealed, as far as approvals depend on them. */
export interface NaiveSettings {
  readonly default_decision: Word;
  readonly approval_ignores: readonly string[];
  readonly escalation_ttl_seconds: number;
  readonly approval_ttl_seconds: number;
  readonly max_pending_escalations_per_agent: number;
  readonly outcome_timeout_seconds: number;
  readonly prompt_from?: string;
}

/** A decision that counts. */
export interface NaivePast {
  readonly agentId: string;
  /** The agent that it was for; undefined when the agent acted for itself, or its grants did not hold. */
  readonly principalId: string | undefined;
  readonly type: string;
  readonly decision: Word;
  readonly at: number;
}

/** State of a workspace after the entries before some index: plain lists, nothing counted ahead. */
export interface NaiveState {
  settings: NaiveSettings;
  readonly workspaceId: string;
  readonly agents: Map<string, NaiveAgent>;
  readonly departments: Map<string, Set<string>>;
  readonly mandates: Map<string, NaiveMandate>;
  readonly past: NaivePast[];
  /** Allowed actions by the id of their decision. */
  readonly allowed: Map<string, NaiveAllowed>;
  readonly escalations: Map<string, NaiveEscalation>;
  /** In the order of their making, ended ones included. */
  readonly grants: NaiveGrant[];
  /** In the order of their making, ended ones included. */
  readonly contracts: NaiveContract[];
  /** The agent of each session. */
  readonly sessions: Map<string, string>;
  /** Sessions that were told what their agent was asked. */
  readonly prompted: Set<string>;
}

/** A decision's body as the model reads it. */
export interface NaiveBody {
  readonly at: string;
  readonly seq: number;
  readonly decision_id: string;
  readonly decision: Word;
  readonly decision_path: string;
  readonly key_ended?: boolean;
  readonly replay_of?: string;
  /** The escalation in whose place the action asks. */
  readonly edit_of?: string;
  readonly policy_name?: string;
  readonly action: {
    readonly agent_id: string;
    readonly action_type: string;
    readonly action_content: string;
    readonly metadata?: Readonly<Record<string, JsonValue>>;
    readonly tool?: string;
    readonly tool_version?: number;
  };
  readonly claim_id?: string;
  readonly outcome_due_at?: string;
  readonly reserved?: readonly { readonly millionths: number }[];
  readonly action_digest?: string;
  readonly authorisation: { readonly permissions: string; readonly collective_limits: readonly object[] };
  readonly mandates: readonly { readonly mandate_id: string; readonly version: number; readonly decision?: Word }[];
  readonly observed: readonly {
    readonly mandate_id: string;
    readonly would_decide: Word;
    readonly reasons: readonly { readonly code: string }[];
  }[];
  readonly reasons: readonly { readonly code: string; readonly message: string }[];
  readonly guards?: readonly NaiveGuard[];
  readonly trust: { readonly before: number; readonly after: number };
  readonly escalation_id?: string;
  readonly escalation_expires_at?: string;
  readonly presented_escalation_id?: string;
  readonly used_escalation_id?: string;
  readonly on_behalf_of?: string;
  readonly grant_id?: string;
  readonly intent_contract_id?: string;
  readonly session_id?: string;
  readonly contracts?: readonly NaiveCovering[];
  /** The grants from the actor's own up to the first of the chain, then the contracts that admit the action. */
  readonly authority?: readonly string[];
}

/** Decision that the design requires, in the words of the body. */
export interface NaiveOutcome {
  readonly decision: Word;
  readonly path: string;
  readonly permissions: string;
  readonly policyName: string | undefined;
  /** Seconds that the rule which decides gives an escalation; undefined for the workspace's. */
  readonly ttlSeconds?: number | undefined;
  readonly limits: readonly NaiveLimit[];
  readonly guards: readonly NaiveGuard[];
  /** The mandates that decided something, with what. */
  readonly fired: readonly { readonly mandate_id: string; readonly version: number; readonly decision: Word }[];
  readonly observed: readonly {
    readonly mandate_id: string;
    readonly would_decide: Word;
    readonly codes: readonly string[];
  }[];
  /** The codes of the reasons, in order. */
  readonly codes: readonly string[];
  /** The grants and contracts that the action relies on. */
  readonly authority: readonly string[];
  readonly contracts: readonly NaiveCovering[];
  /** Of an action that a contract escalates: what the mandates make of it. */
  readonly afterApproval?: NaiveOutcome;
}

const CHANGE: Readonly<Record<Word, number>> = { allow: 2, block: -20, escalate: -5 };

/** Outcome of an action that a contract escalates and a person has approved: the mandates may still block it. */
function approvedOutside(
  asked: NaiveOutcome,
  { afterApproval: _, ttlSeconds: __, ...mandated }: NaiveOutcome,
): NaiveOutcome {
  if (mandated.decision === "block") return mandated;
  return { ...mandated, decision: "escalate", codes: asked.codes, policyName: undefined };
}

/** Decides the action in a body as the design requires, in the words of the body; comparable with `sealedOf`. */
function expectedOf(state: NaiveState, body: NaiveBody) {
  const agent = state.agents.get(body.action.agent_id) as NaiveAgent;
  const { ttlSeconds, afterApproval, ...first } = decideNaively(state, body);
  const presented = body.presented_escalation_id;
  const firstReception =
    first.decision === "escalate" && presented !== undefined ? receptionOf(state, body, presented) : undefined;
  const outcome =
    firstReception === "usable" && afterApproval !== undefined ? approvedOutside(first, afterApproval) : first;
  const isEscalated = outcome.decision === "escalate";
  const reception = isEscalated ? firstReception : undefined;
  const isApproved = reception === "usable";
  const asked = isEscalated && !isApproved ? askNaively(state, body, ttlSeconds) : undefined;
  const isTooMany = asked !== undefined && asked.id === undefined;
  const decision = isApproved ? "allow" : isTooMany ? "block" : outcome.decision;
  const change = isFree(body) ? 0 : CHANGE[decision];
  const after = Math.min(1000, Math.max(0, agent.trustTenths + change));
  return {
    ...outcome,
    contracts: sealedCovering(outcome.contracts, body.intent_contract_id),
    seq: body.seq,
    decision,
    limits: outcome.limits.map((limit) => shownLimit(limit, decision, Date.parse(body.at))),
    path: isApproved ? "approved" : outcome.path,
    codes: [
      ...(isApproved ? ["APPROVED"] : []),
      ...(isTooMany ? ["TOO_MANY_PENDING"] : []),
      ...outcome.codes,
      ...(reception === undefined || isApproved ? [] : [reception]),
    ],
    used: isApproved ? presented : undefined,
    digest: isEscalated ? digestFrom(state, body) : undefined,
    escalation: asked?.id,
    expiresAt: asked?.expiresAt,
    trust: { before: agent.trustTenths / 10, after: after / 10 },
    ...trackedOf(state, body, decision, isFree(body)),
  };
}

/** A limit without the key of its pot, whose digest the model does not know. */
function withoutPot(limit: { readonly budget?: object }): object {
  if (limit.budget === undefined) return limit;
  const { pot: _, ...budget } = limit.budget as { readonly pot?: string };
  return { ...limit, budget };
}

function sealedOf(body: NaiveBody): ReturnType<typeof expectedOf> {
  return {
    seq: body.seq,
    decision: body.decision,
    path: body.decision_path,
    permissions: body.authorisation.permissions,
    policyName: body.policy_name,
    limits: body.authorisation.collective_limits.map(withoutPot),
    guards: (body.guards ?? []).map(({ mandate_id, version, rule }) => ({ mandate_id, version, rule })),
    fired: body.mandates.flatMap(({ mandate_id, version, decision }) =>
      decision === undefined ? [] : [{ mandate_id, version, decision }],
    ),
    observed: body.observed.map(({ mandate_id, would_decide, reasons }) => ({
      mandate_id,
      would_decide,
      codes: reasons.map(({ code }) => code),
    })),
    codes: body.reasons.map(({ code }) => code),
    authority: body.authority ?? [],
    contracts: body.contracts ?? [],
    used: body.used_escalation_id,
    digest: body.action_digest,
    escalation: body.escalation_id,
    expiresAt: body.escalation_expires_at,
    trust: body.trust,
    reserved: (body.reserved ?? []).map(({ millionths }) => millionths),
    dueAt: body.outcome_due_at,
  };
}

/** A decision as the design requires it, and as sealed. */
export interface Replayed {
  readonly want: ReturnType<typeof expectedOf>;
  readonly got: ReturnType<typeof sealedOf>;
}

/** A replay of a log on one thread. */
export interface NaiveReplay {
  /** State after the entries so far. */
  readonly state: NaiveState;
  /** Takes in the next entry; gives what there is to compare of a decision. Throws on a kind of entry that it does not know. */
  take(body: string): Replayed | undefined;
}

type Entry = Readonly<Record<string, unknown>>;

interface SealedLimit {
  readonly limit?: number;
  readonly count?: number;
  readonly scope?: string;
  readonly group?: string;
}

interface SealedAuthorisation {
  readonly permissions?: string;
  readonly collective_limits?: readonly SealedLimit[];
}

/** Puts back what a decision's entry leaves out: empty lists, what follows of counters, the usual path, permissions and reason. */
function completed(body: Entry): Entry {
  if (body.type !== "decision") return body;
  const { collective_limits = [], permissions = "admitted" } = (body.authorisation ?? {}) as SealedAuthorisation;
  const { agent_id } = body.action as { readonly agent_id: string };
  const observed = (body.observed ?? []) as readonly {
    readonly mandate_id: string;
    readonly reasons: readonly object[];
  }[];
  const message = `no mandate matched; the workspace ${body.decision}s by default`;
  return {
    decision_path: "default",
    mandates: [],
    reasons: [{ code: "DEFAULT", message }],
    ...body,
    observed: observed.map(({ mandate_id, reasons, ...each }) => ({
      mandate_id,
      ...each,
      reasons: reasons.map((reason) => ({ mandate_id, ...reason })),
    })),
    authorisation: {
      permissions,
      collective_limits: collective_limits.map((each) => ({
        source: "decision_log",
        rule: "rules[0]",
        members: 1,
        scope: each.group?.startsWith("dep_") === true ? "department" : "agent",
        group: each.scope === "workspace" ? body.workspace_id : agent_id,
        ...(each.limit !== undefined &&
          each.count !== undefined && { remaining: Math.max(0, each.limit - each.count) }),
        ...each,
      })),
    },
  };
}

/** Begins a replay with the first entry of a log. */
export function startReplay(firstBody: string): NaiveReplay {
  const { workspace } = JSON.parse(firstBody);
  const state: NaiveState = {
    settings: workspace,
    workspaceId: workspace.workspace_id,
    agents: new Map(),
    departments: new Map(),
    mandates: new Map(),
    past: [],
    allowed: new Map(),
    escalations: new Map(),
    grants: [],
    contracts: [],
    sessions: new Map(),
    prompted: new Set(),
  };
  return {
    state,
    take(text) {
      const entry = completed(JSON.parse(text));
      const body = entry as never;
      if (entry.type !== "decision") {
        foldChange(state, body);
        return undefined;
      }
      const replayed = { want: expectedOf(state, body), got: sealedOf(body) };
      foldDecision(state, body);
      return replayed;
    },
  };
}

/**
 * Replays a log on one thread, entry by entry, and gives for every decision what the design says of it and what was sealed.
 * Throws on a kind of entry that it does not know.
 */
export function replayNaively([first = "", ...rest]: readonly string[]): Replayed[] {
  const replay = startReplay(first);
  return rest.map((body) => replay.take(body)).filter((replayed) => replayed !== undefined);
}
