import type { Action, DecisionPath, DecisionReason } from "../ledger/index.ts";

/** A step of deciding that refuses an action. */
export interface Refusal {
  readonly path: DecisionPath;
  readonly reason: DecisionReason;
}

const refusal = (path: DecisionPath, code: string, message: string): Refusal => ({ path, reason: { code, message } });

/**
 * Checks the authority that an action says it acts under: sessions, grants and contracts. One that does not exist for the
 * agent blocks and is never ignored. None can be issued, so any that is named blocks.
 */
export function checkIdentity(action: Action): Refusal | undefined {
  const { onBehalfOf, grantId, sessionId, intentContractId } = action;
  if (onBehalfOf !== undefined) {
    return refusal("delegation", "GRANT_MISSING", `no active grant lets the agent act for \`${onBehalfOf}\``);
  }
  if (grantId !== undefined) {
    return refusal("delegation", "GRANT_UNKNOWN", `grant \`${grantId}\` does not exist for this agent`);
  }
  if (sessionId !== undefined) {
    return refusal("session", "SESSION_UNKNOWN", `session \`${sessionId}\` does not exist for this agent`);
  }
  if (intentContractId === undefined) return undefined;
  const message = `intent contract \`${intentContractId}\` does not exist for this agent`;
  return refusal("intent_contract", "INTENT_CONTRACT_UNKNOWN", message);
}
