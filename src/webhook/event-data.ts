import type { DecisionBody } from "../log/receipts.ts";
import type { ControlChange } from "../state/control-changes.ts";
import type { JsonObject } from "../tree/canonical.ts";

/** What an event says of its resource. No free text that people or agents wrote about an action is ever in it. */
export type EventData = JsonObject;

/** The essentials of a blocked or escalated decision: its metadata, arguments and content stay, and reasons are codes. */
export function dataFromDecision(body: DecisionBody): EventData {
  const isEscalation = body.decision === "escalate";
  return {
    ...(isEscalation ? { escalation_id: body.escalation_id ?? null, status: "pending" } : {}),
    decision_id: body.decision_id,
    decision: body.decision,
    decision_path: body.decision_path,
    agent_id: body.action.agent_id,
    action_type: body.action.action_type,
    tool: body.action.tool ?? null,
    policy_name: body.policy_name ?? null,
    reason_codes: [...new Set(body.reasons.map(({ code }) => code))],
  };
}

/** The essentials of a change that a webhook tells of; none for any other. `by` is the key that made it. */
export function dataFromChange(change: ControlChange & { readonly by: string }): EventData {
  switch (change.type) {
    case "agent_revoked": {
      const counts = Object.entries(change.ended).map(([kind, ids]) => [kind, ids.length] as const);
      const { agent_id, revocation_id, certificate_digest } = change;
      return { agent_id, revocation_id, revoked_by: change.by, counts: Object.fromEntries(counts), certificate_digest };
    }
    case "escalation_resolved": {
      const { escalation_id, agent_id, resolution } = change;
      return { escalation_id, agent_id, status: resolution, resolved_by: change.by };
    }
    case "tool_registered": {
      const { name, version, digest } = change.tool;
      return { name, version, digest, registered_by: change.by };
    }
    default:
      return {};
  }
}
