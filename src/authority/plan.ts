import { ControlPlaneError, doesNotCompile, ErrorReason, invalidField } from "../errors.ts";
import type { ChangeScope } from "../log/changes.ts";
import { compilePlanStep } from "../policy/compile/plan-step.ts";
import { CompileBudget } from "../policy/violations.ts";
import type { AuthorityItem } from "../state/authority.ts";
import { isInForce } from "../state/authority-status.ts";
import type { SealedPlanStep } from "../state/control-changes.ts";
import { authorityNotFound } from "./kind-traits.ts";

/** A request for an intent contract, as far as its session depends on it. */
interface ContractDraft {
  readonly agentId: string | null;
  readonly lastsSeconds?: number | undefined;
}

/**
 * Returns the session that a contract is to cover. Throws AUTHORITY_NOT_FOUND unless the agent has this session and it is in force,
 * SESSION_HAS_CONTRACT if another contract covers it, and INVALID_FIELD for a contract with a lifetime of its own: after its end the
 * session would be free.
 */
export function coverableSession(
  { state, nowMs }: ChangeScope,
  draft: ContractDraft,
  sessionId: string,
): AuthorityItem {
  const session = state.authority.get(sessionId);
  const isOwn = session?.sealed.kind === "session" && session.sealed.agent_id === draft.agentId;
  if (session === undefined || !isOwn || !isInForce(session, nowMs)) throw authorityNotFound("session", sessionId);
  if (draft.lastsSeconds !== undefined)
    throw invalidField("duration_seconds", "must be left out with `session_id`: the contract ends with the session");
  const known = state.authority.contractOf(sessionId);
  if (known === undefined) return session;
  const { id } = known.sealed;
  const message = `intent contract \`${id}\` covers session \`${sessionId}\`; end it first`;
  const metadata = { session_id: sessionId, intent_contract_id: id };
  throw new ControlPlaneError(ErrorReason.SESSION_HAS_CONTRACT, message, metadata);
}

/** Compiles the steps of a plan against the tools registered now. Throws PLAN_INVALID with every violation. */
export function assertPlanCompiles({ state }: ChangeScope, steps: readonly SealedPlanStep[]): void {
  const budget = new CompileBudget();
  const faults = steps.flatMap((step, index) => {
    const result = compilePlanStep(step, index, state.policies.lookup, budget);
    return result.kind === "compiled" ? [] : result.violations;
  });
  if (faults.length > 0) throw doesNotCompile(ErrorReason.PLAN_INVALID, "plan", faults);
}
