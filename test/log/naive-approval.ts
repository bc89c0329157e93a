import { createHash } from "node:crypto";
import { canonicalJson } from "../../src/tree/canonical.ts";
import type { NaiveBody, NaiveState } from "./naive-log.ts";

/** SHA-256 over the RFC 8785 form of what an approval is bound to; the model knows no tools. */
export function digestFrom({ ignores }: NaiveState, { action, on_behalf_of, grant_id, ...body }: NaiveBody): string {
  const metadata = action.metadata === undefined ? null : { ...action.metadata };
  for (const name of ignores) delete metadata?.[name];
  const bound = {
    agent_id: action.agent_id,
    action_type: action.action_type,
    action_content: action.action_content,
    tool: null,
    tool_version: null,
    metadata,
    on_behalf_of: on_behalf_of ?? null,
    grant_id: grant_id ?? null,
    intent_contract_id: body.intent_contract_id ?? null,
  };
  return createHash("sha256").update(canonicalJson(bound)).digest("hex");
}

/** Tests that the escalation that an action presents turns `escalate` into `allow`. */
export function isUsable(state: NaiveState, body: NaiveBody, escalationId: string): boolean {
  const escalation = state.escalations.get(escalationId);
  if (escalation === undefined || escalation.agentId !== body.action.agent_id) return false;
  return escalation.status === "approved" && !escalation.isUsed && escalation.digest === digestFrom(state, body);
}
