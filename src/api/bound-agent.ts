import { ControlPlaneError, ErrorReason } from "../errors.ts";
import type { Caller } from "./context.ts";

/** Throws AGENT_NOT_ALLOWED when the caller's key is bound to a different agent than the request names. */
export function assertMayUseAgent({ agentId: bound }: Caller, agentId: string): void {
  if (bound === null || bound === agentId) return;
  const message = `the key is bound to agent \`${bound}\` and the request names \`${agentId}\``;
  throw new ControlPlaneError(ErrorReason.AGENT_NOT_ALLOWED, message, { agent_id: agentId, bound_agent_id: bound });
}
