import type { ReasonCode } from "../policy/reason-codes.ts";
import type { ToolSchema } from "../policy/types.ts";
import type { AgentState } from "../state/agents.ts";
import type { Action, DecisionPath, DecisionReason, Outcome } from "../state/types.ts";
import type { StateJournal, WorkspaceState } from "../state/workspace.ts";

/** One action to decide, with everything that the steps look at. */
export interface Attempt {
  readonly state: WorkspaceState;
  readonly action: Action;
  readonly agent: AgentState;
  readonly toolName: string | undefined;
  readonly tool: ToolSchema | undefined;
  readonly nowMs: number;
  readonly journal: StateJournal;
}

/** Members of the outcome that concern approvals, for an action that neither asks for one nor presents one. */
export const NO_APPROVAL = {
  actionDigest: undefined,
  digestIgnores: [],
  usedEscalationId: undefined,
  escalationId: undefined,
  escalationExpiresAtMs: undefined,
  replacedEscalationId: undefined,
  demands: [],
} satisfies Partial<Outcome>;

/** Result of the steps. The other members of an outcome follow from it. */
export type Verdict = Pick<Outcome, "decision" | "path" | "reasons" | "permissions"> &
  Partial<
    Pick<Outcome, "policy" | "policyName" | "authority" | "contracts" | "principalId" | keyof typeof NO_APPROVAL>
  >;

/** Refusal of an action by one of the steps. */
export interface Refusal {
  readonly path: DecisionPath;
  readonly reason: DecisionReason;
}

/** Builds the refusal of an action. */
export const refusal = (
  path: DecisionPath,
  code: ReasonCode,
  message: string,
): { readonly kind: "refused" } & Refusal => ({
  kind: "refused",
  path,
  reason: { code, message },
});
