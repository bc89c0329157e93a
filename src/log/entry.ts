import type { GuardFinding, LimitState, ObservedMandate } from "../policy/types.ts";
import { type Action, DEFAULT_REASON_CODE, type DecisionReason, type Outcome } from "../state/types.ts";

/** The place in the log at which a decision is sealed. */
export interface DecisionPlace {
  readonly workspaceId: string;
  readonly seq: number;
  /** Epoch milliseconds. */
  readonly atMs: number;
  /** Root (base64) and size of the tree before the batch that the decision came with. */
  readonly previousRoot: string;
  readonly previousSize: number;
}

// INVARIANT: members stand in the order of RFC 8785 (UTF-16 code units), so that JSON.stringify writes the canonical form.
// A test compares every kind of entry with canonicalJson.

const unlessEmpty = <T>(items: readonly T[]): readonly T[] | undefined => (items.length === 0 ? undefined : items);

const sealedReason = ({ argument, code, mandateId, mandateName, message, rule, wouldPass }: DecisionReason) => ({
  argument,
  code,
  mandate_id: mandateId,
  mandate_name: mandateName,
  message,
  rule,
  would_pass: wouldPass,
});

const sealedLimit = ({ count, group, limit, mandateId, members, rule, scope, source, window }: LimitState) => ({
  count,
  group,
  limit,
  mandate_id: mandateId,
  members,
  rule,
  scope,
  source: source === "decision_log" ? undefined : source,
  window,
});

const sealedObservation = ({ mandate, decision, reasons }: ObservedMandate) => ({
  mandate_id: mandate.id,
  reasons: reasons.map(sealedReason),
  version: mandate.version,
  would_decide: decision,
});

function sealedGuard({ answer, mandateId, rule, version }: GuardFinding) {
  const verdict = answer.kind === "verdict" ? answer : undefined;
  return {
    confidence: verdict?.confidence,
    latency_ms: answer.latencyMs,
    mandate_id: mandateId,
    // A model may answer with half of a surrogate pair, which I-JSON (RFC 7493) cannot hold.
    model: verdict?.model.toWellFormed(),
    reason: verdict?.reason.toWellFormed(),
    rule,
    unavailable: answer.kind === "verdict" ? undefined : answer.cause,
    version,
    violates: verdict?.violates,
  };
}

const isoTime = (ms: number | undefined): string | undefined =>
  ms === undefined ? undefined : new Date(ms).toISOString();

const isDefaultReason = (reasons: readonly DecisionReason[]): boolean =>
  reasons.length === 1 && reasons[0]?.code === DEFAULT_REASON_CODE;

/** Writes the action with the caller's metadata in the canonical form that was made of them once. */
function actionText(action: Action, { agentName, tool, toolName }: Outcome): string {
  const head = {
    action_content: action.actionContent,
    action_type: action.actionType,
    agent_id: action.agentId,
    agent_name: agentName,
  };
  // Tells a retry that names the tool elsewhere from the first request.
  const tool_requested = (action.isRetryable && action.tool !== undefined) || undefined;
  const tail = JSON.stringify({ tool: toolName, tool_requested, tool_version: tool?.version });
  const metadata = action.metadataText === "" ? "" : `,"metadata":${action.metadataText}`;
  return `${JSON.stringify(head).slice(0, -1)}${metadata}${tail === "{}" ? "}" : `,${tail.slice(1)}`}`;
}

/**
 * Writes the entry of a decision in its RFC 8785 form: the text that is hashed, stored and shown as its receipt. It names
 * the mandates that fired or would have, the state of every counter that was evaluated, the tool with its version, and the
 * digest of the policy set in force. Lists that are empty, the source of counters that come from the log, and the reason
 * that no mandate matched are left out; `receipts.ts` puts them back.
 */
export function decisionBody(action: Action, outcome: Outcome, place: DecisionPlace): string {
  const { policy } = outcome;
  const rest = {
    action_digest: outcome.actionDigest,
    at: new Date(place.atMs).toISOString(),
    authorisation: {
      collective_limits: unlessEmpty(policy?.collectiveLimits.map(sealedLimit) ?? []),
      permissions: outcome.permissions,
    },
    authority: unlessEmpty(outcome.authority),
    decision: outcome.decision,
    decision_id: action.decisionId,
    decision_path: outcome.path,
    digest_ignores: unlessEmpty(outcome.digestIgnores),
    edit_of: action.editOf,
    escalation_expires_at: isoTime(outcome.escalationExpiresAtMs),
    escalation_id: outcome.escalationId,
    grant_id: action.grantId,
    guards: unlessEmpty(policy?.guards.map(sealedGuard) ?? []),
    intent_contract_id: action.intentContractId,
    key_ended: outcome.isKeyEnded || undefined,
    key_id: action.keyId,
    mandates: unlessEmpty(
      policy?.fired.map(({ mandate: { digest, id, version }, decision }) => ({
        decision,
        digest,
        mandate_id: id,
        version,
      })) ?? [],
    ),
    observed: unlessEmpty(policy?.observed.map(sealedObservation) ?? []),
    on_behalf_of: action.onBehalfOf,
    policy_digest: outcome.policyDigest,
    policy_name: outcome.policyName,
    presented_escalation_id: action.escalationId,
    previous_root: place.previousRoot,
    previous_size: place.previousSize,
    principal_id: outcome.principalId,
    reasons: isDefaultReason(outcome.reasons) ? undefined : outcome.reasons.map(sealedReason),
    replay_of: action.replayOf,
    seq: place.seq,
    session_id: action.sessionId,
    trust: {
      after: outcome.trustAfterTenths / 10,
      before: outcome.trustBeforeTenths / 10,
      capped: outcome.cappedTrustTenths === undefined ? undefined : outcome.cappedTrustTenths / 10,
    },
    type: "decision",
    used_escalation_id: outcome.usedEscalationId,
    workspace_id: place.workspaceId,
  };
  return `{"action":${actionText(action, outcome)},${JSON.stringify(rest).slice(1)}`;
}
