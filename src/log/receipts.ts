import type { BudgetState } from "../policy/budget.ts";
import type { ReasonCode } from "../policy/reason-codes.ts";
import type { Decision } from "../policy/types.ts";
import type { ValueKind } from "../provenance/sources.ts";
import type { SealedDemand } from "../state/control-changes.ts";
import type { Reservation } from "../state/counters/budget-pots.ts";
import { DEFAULT_REASONS, type DecisionPath, type DecisionReason, type SealedDecision } from "../state/types.ts";
import { entryDamaged } from "./head.ts";
import {
  BODY_VERSION,
  type LimitOwner,
  USUAL_MEMBERS,
  USUAL_PATH,
  USUAL_PERMISSIONS,
  USUAL_RULE,
  USUAL_SOURCE,
  usualGroup,
  usualScope,
} from "./left-out.ts";

/** One reason as sealed. */
export interface SealedReason {
  readonly code: ReasonCode;
  readonly message: string;
  readonly mandate_id?: string;
  readonly mandate_name?: string;
  readonly rule?: string;
  readonly argument?: string;
  readonly value_kind?: ValueKind;
  readonly would_pass?: string;
  readonly remaining?: number;
  readonly over?: number;
  readonly resets_at?: string;
  readonly decision?: Decision;
}

/** A counter or budget as sealed. Counts of a budget are 0. */
export interface SealedLimit {
  readonly scope: string;
  readonly group: string;
  readonly members: number;
  readonly count: number;
  readonly limit: number;
  readonly window: number;
  readonly remaining: number;
  readonly source: string;
  readonly mandate_id: string;
  readonly rule: string;
  readonly resets_at?: string;
  /** Set for a budget only. */
  readonly budget?: BudgetState;
}

/** Result of a semantic rule as sealed. When `unavailable` is set, there is no verdict. */
export interface SealedGuard {
  readonly mandate_id: string;
  readonly version: number;
  readonly rule: string;
  readonly model?: string;
  readonly violates?: boolean;
  readonly confidence?: number;
  readonly reason?: string;
  readonly unavailable?: string;
  readonly latency_ms: number;
}

/** Parsed body of a decision's entry, with the members that `entry.ts` omits because they follow from the others. */
export interface DecisionBody {
  readonly type: "decision";
  readonly workspace_id: string;
  readonly seq: number;
  readonly at: string;
  readonly decision_id: string;
  readonly decision: Decision;
  readonly decision_path: DecisionPath;
  readonly key_id: string;
  /** True for a call under an ended key: it changed no trust and counts nowhere. Absent otherwise. */
  readonly key_ended?: true;
  /** True for a decision that changes no trust, whichever it is. Absent otherwise. */
  readonly trust_kept?: true;
  /** Escalation whose edited action this decides; `key_id` is then the editor's. Absent otherwise. */
  readonly edit_of?: string;
  /** First decision of a repeated request that this entry refuses: it changed no trust and counts nowhere. */
  readonly replay_of?: string;
  readonly action: {
    readonly agent_id: string;
    readonly agent_name: string;
    readonly action_type: string;
    readonly action_content: string;
    readonly metadata?: Record<string, never>;
    readonly tool?: string;
    /** True if the request named the tool in `tool`; sealed only with a `request_id`. */
    readonly tool_requested?: true;
    readonly tool_version?: number;
  };
  readonly action_digest?: string;
  /** Top-level members of the metadata that the action digest leaves out. Absent when empty. */
  readonly digest_ignores?: readonly string[];
  readonly authorisation: { readonly permissions: string; readonly collective_limits: readonly SealedLimit[] };
  /** Grants from the actor's own up to the principal's, then window, contracts and token. Absent when empty. */
  readonly authority?: readonly string[];
  /** Enforcing mandates of which a rule fired. */
  readonly mandates: readonly {
    readonly mandate_id: string;
    readonly version: number;
    readonly digest: string;
    readonly decision: Decision;
  }[];
  /** Observing mandates of which a rule fired. */
  readonly observed: readonly {
    readonly mandate_id: string;
    readonly version: number;
    readonly would_decide: Decision;
    readonly reasons: readonly SealedReason[];
  }[];
  readonly reasons: readonly SealedReason[];
  /** Digest of the policy set in force; the entry of the change that put the set in force has the same one. */
  readonly policy_digest: string;
  /** Absent when no semantic rule applies to the action. */
  readonly guards?: readonly SealedGuard[];
  /** Amounts that the action reserved in the pots of budgets. Absent when there are none. */
  readonly reserved?: readonly Reservation[];
  /** The lists that rules looked into, by name. Absent when there are none. */
  readonly lists?: readonly { readonly name: string; readonly digest?: string; readonly matched?: readonly string[] }[];
  /** `capped` is the trust that the decision was taken with, where a federation token caps the agent's. */
  readonly trust: { readonly before: number; readonly after: number; readonly capped?: number };
  readonly escalation_id?: string;
  /** Set by the decision that created the escalation; absent from those that joined it. */
  readonly escalation_expires_at?: string;
  /** Demands of rules with approvers on the escalation, without those of its earlier decisions. Absent when there are none. */
  readonly approvals_needed?: readonly SealedDemand[];
  readonly used_escalation_id?: string;
  /** Id under which the caller claimed the action with its intercept. Absent otherwise. */
  readonly claim_id?: string;
  /** Time from which the outcome becomes unknown unless it is reported before. Absent if it is not tracked. */
  readonly outcome_due_at?: string;
  readonly on_behalf_of?: string;
  /** The principal of a grant that the request names without a principal. */
  readonly principal_id?: string;
  readonly session_id?: string;
  /** W3C trace id of the call. */
  readonly trace_id?: string;
  /** Span of the trace that the decision belongs to, and W3C trace flags. Absent from decisions of before they were sealed. */
  readonly span_id?: string;
  readonly trace_flags?: string;
  readonly grant_id?: string;
  readonly intent_contract_id?: string;
  /** Intent contracts that cover the action. Absent where only the one that it names does, and admits it without a plan; its maker is an operator then. */
  readonly contracts?: readonly {
    /** True if the agent made it for itself. */
    readonly by_agent?: true;
    readonly intent_contract_id: string;
    /** True if the contract does not admit the action. */
    readonly outside?: true;
    readonly step?: number;
  }[];
  readonly policy_name?: string;
  readonly presented_escalation_id?: string;
  readonly previous_root: string;
  readonly previous_size: number;
}

/** A decision with the exact text that was hashed. */
export interface DecisionReceipt {
  readonly body: DecisionBody;
  readonly canonicalBody: string;
  readonly leafHash: Uint8Array;
}

/** A limit as stored, without the members that sealing may omit. */
type SealedLimitForm = Pick<SealedLimit, "window" | "mandate_id" | "resets_at" | "budget"> &
  Partial<Pick<SealedLimit, "scope" | "group" | "members" | "count" | "limit" | "source" | "rule">>;

/** The body as stored, without the members that sealing may omit. */
type SealedForm = Omit<DecisionBody, "decision_path" | "authorisation" | "mandates" | "observed" | "reasons"> &
  Partial<Pick<DecisionBody, "decision_path" | "mandates" | "observed" | "reasons">> & {
    /** Form of the body. Absent from the first. */
    readonly v?: number;
    readonly authorisation?: {
      readonly permissions?: string;
      readonly collective_limits?: readonly SealedLimitForm[];
    };
  };

/** Parses a body and restores the members that sealing omits. Throws as `restoredBody`. */
export const decisionBodyFrom = (canonicalBody: string): DecisionBody =>
  restoredBody(JSON.parse(canonicalBody) as SealedForm);

/** Restores the members that sealing omits. Throws ENTRY_DAMAGED for a body of a form that this version does not know. */
export function restoredBody(sealed: SealedForm): DecisionBody {
  const { v, mandates = [], observed = [], reasons, authorisation = {}, ...body } = sealed;
  if (v !== undefined && v !== BODY_VERSION) throw unknownVersion(body, v);
  const { permissions = USUAL_PERMISSIONS, collective_limits = [] } = authorisation;
  const owner = { workspaceId: body.workspace_id, agentId: body.action.agent_id };
  return {
    decision_path: USUAL_PATH,
    ...body,
    mandates,
    observed: observed.map(({ reasons: told, ...mandate }) => ({
      ...mandate,
      reasons: told.map((reason) => ({ mandate_id: mandate.mandate_id, ...reason })),
    })),
    reasons: reasons ?? DEFAULT_REASONS[body.decision],
    authorisation: { permissions, collective_limits: collective_limits.map((limit) => restoredLimit(limit, owner)) },
  };
}

function restoredLimit(sealed: SealedLimitForm, owner: LimitOwner): SealedLimit {
  const { scope = usualScope(sealed.group) } = sealed;
  const limit = {
    source: USUAL_SOURCE,
    rule: USUAL_RULE,
    members: USUAL_MEMBERS,
    group: usualGroup(scope, owner),
    count: 0,
    limit: 0,
    ...sealed,
    scope,
  };
  return { ...limit, remaining: Math.max(0, limit.limit - limit.count) };
}

function unknownVersion(
  { workspace_id, seq, decision_id }: Pick<DecisionBody, "workspace_id" | "seq" | "decision_id">,
  v: unknown,
) {
  const what = `has a body of version \`${JSON.stringify(v)}\`, which this version of the service cannot read`;
  return entryDamaged(workspace_id, seq, what, { decision_id });
}

/** Parses the receipt of a stored entry, without comparing it with its hash. */
export function receiptFrom(canonicalBody: string, leafHash: Uint8Array): DecisionReceipt {
  return { body: decisionBodyFrom(canonicalBody), canonicalBody, leafHash };
}

/** Lists the budgets of enforced mandates that an approval let an action exceed. */
export function exceededBudgets({ decision_path, authorisation, mandates }: DecisionBody): readonly SealedLimit[] {
  if (decision_path !== "approved") return [];
  return authorisation.collective_limits.filter(
    ({ budget, mandate_id }) =>
      budget !== undefined && budget.total > budget.limit && mandates.some((fired) => fired.mandate_id === mandate_id),
  );
}

/** Converts a sealed reason to the form of a decision's. */
export function reasonFrom(reason: SealedReason): DecisionReason {
  return {
    code: reason.code,
    message: reason.message,
    ...(reason.mandate_id === undefined ? {} : { mandateId: reason.mandate_id }),
    ...(reason.mandate_name === undefined ? {} : { mandateName: reason.mandate_name }),
    ...(reason.rule === undefined ? {} : { rule: reason.rule }),
    ...(reason.argument === undefined ? {} : { argument: reason.argument }),
    ...(reason.value_kind === undefined ? {} : { valueKind: reason.value_kind }),
    ...(reason.would_pass === undefined ? {} : { wouldPass: reason.would_pass }),
    ...(reason.remaining === undefined ? {} : { remaining: reason.remaining }),
    ...(reason.over === undefined ? {} : { over: reason.over }),
    ...(reason.resets_at === undefined ? {} : { resetsAtMs: Date.parse(reason.resets_at) }),
    ...(reason.decision === undefined ? {} : { decision: reason.decision }),
  };
}

/** Converts the receipt of an earlier decision to the form that the caller of a repeated request gets. */
export function sealedDecisionFromReceipt({ body }: DecisionReceipt): SealedDecision {
  return {
    decisionId: body.decision_id,
    seq: body.seq,
    atMs: Date.parse(body.at),
    agentId: body.action.agent_id,
    actionType: body.action.action_type,
    registeredTool: body.action.tool_version === undefined ? undefined : body.action.tool,
    decision: body.decision,
    path: body.decision_path,
    trustTenths: Math.round((body.trust.capped ?? body.trust.before) * 10),
    escalationId: body.escalation_id,
    policyName: body.policy_name,
    reasons: body.reasons.map(reasonFrom),
    isReplayed: true,
    isKeyEnded: body.key_ended === true,
    isClaimed: undefined,
    isTracked: body.outcome_due_at !== undefined,
  };
}
