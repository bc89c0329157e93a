import { ControlPlaneError, ErrorReason, invalidField } from "../errors.ts";
import type { ChangeScope } from "../log/changes.ts";
import { isInForce } from "../state/authority-status.ts";
import type { AuthorityKind, OutsideContract, SealedAuthority } from "../state/control-changes.ts";
import { authorityNotFound } from "./kind-traits.ts";

/** Authority that agents make for themselves: sessions, and intent contracts of their sessions, which only narrow what they may do. */

/** Longest lifetime of a session that an agent makes: a week. */
const MAX_SESSION_SECONDS = 604_800;
/** Maximum number of sessions in force that an agent made. */
export const MAX_SESSIONS = 1_000;

/** Members of a draft that an agent may not choose freely. */
interface OwnDraft {
  readonly kind: AuthorityKind;
  readonly lastsSeconds?: number | undefined;
  readonly sessionId?: string | undefined;
  readonly outside?: OutsideContract | undefined;
}

/**
 * Throws INVALID_FIELD for a session that lasts longer than a week, and for a contract without a session or one that leaves actions
 * to the rules: a plan of the agent's own would then change what rules allow.
 */
export function assertAgentMayMake({ kind, lastsSeconds = 0, sessionId, outside }: OwnDraft): void {
  if (kind === "session" && lastsSeconds > MAX_SESSION_SECONDS)
    throw invalidField("ttl_seconds", `must be at most ${MAX_SESSION_SECONDS} in a session that an agent makes`);
  if (kind !== "intent_contract") return;
  if (sessionId === undefined)
    throw invalidField("session_id", "is required of a contract that an agent makes: name a session of its own");
  if (outside === "rules")
    throw invalidField("outside", "must be `block` or `escalate` in a contract that an agent makes for itself");
}

/** Throws TOO_MANY_SESSIONS for an agent that made as many sessions in force as it may. */
export function assertRoomForSession({ state, nowMs }: ChangeScope, agentId: string): void {
  let made = 0;
  for (const item of state.authority.heldBy(agentId, "session"))
    if (item.sealed.by_agent === true && isInForce(item, nowMs)) made += 1;
  if (made < MAX_SESSIONS) return;
  const message = `agent \`${agentId}\` made ${made} sessions that are in force; end those that are over`;
  throw new ControlPlaneError(ErrorReason.TOO_MANY_SESSIONS, message, { agent_id: agentId, sessions: String(made) });
}

/** Agent that ends authority of its own; null for a key that is bound to none. */
export interface EndingAgent {
  readonly agentId: string | null;
}

/** Throws AUTHORITY_NOT_FOUND for authority of another agent, and OPERATOR_NEEDED for what the agent did not make itself. */
export function assertAgentMayEnd({ agentId }: EndingAgent, { kind, id, agent_id, by_agent }: SealedAuthority): void {
  if (agentId !== null && agentId !== agent_id) throw authorityNotFound(kind, id);
  if (by_agent === true) return;
  const message = `${kind.replaceAll("_", " ")} \`${id}\` was made by an operator; an operator's key ends it`;
  throw new ControlPlaneError(ErrorReason.OPERATOR_NEEDED, message, { kind, id });
}
