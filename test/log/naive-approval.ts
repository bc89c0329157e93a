import { createHash } from "node:crypto";
import { canonicalJson } from "../../src/tree/canonical.ts";
import type { NaiveBody, NaiveState } from "./naive-log.ts";

/** SHA-256 over the RFC 8785 form of what an approval is bound to. */
export function digestFrom({ settings }: NaiveState, { action, on_behalf_of, grant_id, ...body }: NaiveBody): string {
  const metadata = action.metadata === undefined ? null : { ...action.metadata };
  for (const name of settings.approval_ignores) delete metadata?.[name];
  const bound = {
    agent_id: action.agent_id,
    action_type: action.action_type,
    action_content: action.action_content,
    tool: action.tool ?? null,
    tool_version: action.tool_version ?? null,
    metadata,
    on_behalf_of: on_behalf_of ?? null,
    grant_id: grant_id ?? null,
    intent_contract_id: body.intent_contract_id ?? null,
  };
  return createHash("sha256").update(canonicalJson(bound)).digest("hex");
}

/** How an escalation that an action presents is received: `usable`, or the code of the reason why not. */
export function receptionOf(state: NaiveState, body: NaiveBody, escalationId: string): string {
  const escalation = state.escalations.get(escalationId);
  if (escalation === undefined || escalation.agentId !== body.action.agent_id) return "APPROVAL_NOT_USABLE";
  if (escalation.status !== "approved" || escalation.digest !== digestFrom(state, body)) return "APPROVAL_NOT_USABLE";
  if (escalation.isUsed) return "APPROVAL_USED";
  return escalation.expiresAt > Date.parse(body.at) ? "usable" : "APPROVAL_EXPIRED";
}

/** What an action that needs an approval waits for: an escalation of its own, one that is pending, or none. */
export type Asked =
  | { readonly id: string; readonly expiresAt: string | undefined }
  | { readonly id: undefined; readonly expiresAt: undefined };

/** Asks for an approval: joins the pending escalation of the same action, or opens one unless too many are pending. */
export function askNaively(state: NaiveState, body: NaiveBody, ttlSeconds: number | undefined): Asked {
  const now = Date.parse(body.at);
  const pending = [...state.escalations].filter(
    ([id, { agentId, status, expiresAt }]) =>
      id !== body.edit_of && agentId === body.action.agent_id && status === "pending" && expiresAt > now,
  );
  const same = pending.find(([, { digest }]) => digest === digestFrom(state, body));
  if (same !== undefined) return { id: same[0], expiresAt: undefined };
  const { escalation_ttl_seconds, max_pending_escalations_per_agent } = state.settings;
  if (pending.length >= max_pending_escalations_per_agent) return { id: undefined, expiresAt: undefined };
  const id = body.decision_id.replace("dec_", "esc_");
  return { id, expiresAt: new Date(now + (ttlSeconds ?? escalation_ttl_seconds) * 1000).toISOString() };
}
