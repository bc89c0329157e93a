import { createHash } from "node:crypto";
import type { JsonObject } from "@bufbuild/protobuf";
import type { ToolSchema } from "../policy/types.ts";
import { type EscalationState, escalationIdOf } from "../state/escalations.ts";
import type { Action, DecisionReason, Outcome } from "../state/types.ts";
import type { WorkspaceState } from "../state/workspace.ts";
import { canonicalJson } from "../tree/canonical.ts";

/** The digest that an approval is bound to. */
export interface ActionDigest {
  /** SHA-256, lower-case hexadecimal. */
  readonly digest: string;
  /** Top-level members of the action's metadata that the digest leaves out. */
  readonly ignored: readonly string[];
}

const NONE: readonly string[] = [];

/**
 * Computes the digest that an approval is bound to: SHA-256 over the RFC 8785 form of everything in an action that rules can
 * read, where the metadata is what was sent without the top-level members in `ignores`.
 */
export function actionDigest(
  action: Action,
  toolName: string | undefined,
  tool: ToolSchema | undefined,
  ignores: readonly string[],
): ActionDigest {
  const { metadata } = action;
  const ignored = metadata === undefined ? NONE : ignores.filter((name) => Object.hasOwn(metadata, name));
  // INVARIANT: members stand in the order of RFC 8785, so that this is the canonical text.
  const text =
    `{"action_content":${JSON.stringify(action.actionContent)},"action_type":${JSON.stringify(action.actionType)},` +
    `"agent_id":${jsonText(action.agentId)},"grant_id":${jsonText(action.grantId)},` +
    `"intent_contract_id":${jsonText(action.intentContractId)},"metadata":${metadataText(action, ignored)},` +
    `"on_behalf_of":${jsonText(action.onBehalfOf)},"tool":${jsonText(toolName)},"tool_version":${tool?.version ?? null}}`;
  return { digest: createHash("sha256").update(text).digest("hex"), ignored };
}

const jsonText = (value: string | undefined): string => (value === undefined ? "null" : JSON.stringify(value));

function metadataText({ metadata, metadataText: text }: Action, ignored: readonly string[]): string {
  if (metadata === undefined) return "null";
  if (ignored.length === 0) return text;
  return canonicalJson(
    Object.fromEntries(Object.entries(metadata).filter(([name]) => !ignored.includes(name))) as JsonObject,
  );
}

/** Result of checking the escalation that an action presents, with the reason why it is unusable. */
export type ApprovalCheck =
  | { readonly kind: "usable"; readonly escalation: EscalationState }
  | {
      readonly kind: "unusable";
      readonly reason: DecisionReason;
      /** Set if the action was approved, but the approval is used up or expired. */
      readonly spent?: EscalationState;
    };

/** Codes of the reasons why a presented escalation lets nothing pass. */
type UnusableCode = "APPROVAL_NOT_USABLE" | "APPROVAL_USED" | "APPROVAL_EXPIRED";

function refused(escalationId: string, why: string, code: UnusableCode = "APPROVAL_NOT_USABLE") {
  return { kind: "unusable", reason: { code, message: `escalation \`${escalationId}\` ${why}` } } as const;
}

/** Checks the escalation that an action presents; undefined when it presents none. */
export function checkApproval(
  state: WorkspaceState,
  action: Action,
  digest: string,
  nowMs: number,
): ApprovalCheck | undefined {
  const { escalationId } = action;
  if (escalationId === undefined) return undefined;
  const escalation = state.escalations.get(escalationId);
  // Another agent's escalation is treated as none, so that its existence does not show.
  if (escalation === undefined || escalation.agentId !== action.agentId)
    return refused(escalationId, "does not exist for this agent");
  const { status, usedBy, expiresAtMs } = escalation;
  const isExpired = expiresAtMs <= nowMs;
  if (status === "pending" && isExpired) return refused(escalationId, "expired before anyone approved it");
  if (status !== "approved") return refused(escalationId, `is ${status}, not approved`);
  if (escalation.actionDigest !== digest) return refused(escalationId, "was approved for another action");
  if (usedBy !== null) {
    return { ...refused(escalationId, `was used up by decision \`${usedBy}\``, "APPROVAL_USED"), spent: escalation };
  }
  if (!isExpired) return { kind: "usable", escalation };
  const until = new Date(expiresAtMs).toISOString();
  return { ...refused(escalationId, `was approved until ${until}`, "APPROVAL_EXPIRED"), spent: escalation };
}

/** The escalation that an action waits for, or the reason why it may not wait. */
export type AskResult =
  | { readonly kind: "asked"; readonly asked: Pick<Outcome, "escalationId" | "escalationExpiresAtMs"> }
  | { readonly kind: "refused"; readonly reason: DecisionReason };

/**
 * Asks for an approval of an action: joins the agent's pending escalation of this very action, or creates one, unless too many
 * are pending. An edited action takes the place of its escalation. `ttlSeconds` is that of the rule that escalates; default: the workspace's.
 */
export function askApproval(
  { escalations, settings }: WorkspaceState,
  { agentId, decisionId, editOf }: Action,
  digest: string,
  nowMs: number,
  ttlSeconds: number = settings.escalation_ttl_seconds,
): AskResult {
  const { same, count } = escalations.pendingOf(agentId, digest, nowMs, editOf);
  if (same !== undefined) {
    return { kind: "asked", asked: { escalationId: same.escalationId, escalationExpiresAtMs: undefined } };
  }
  const most = settings.max_pending_escalations_per_agent;
  if (count >= most) {
    const message = `the agent has ${count} pending escalations, and at most ${most} are allowed`;
    return { kind: "refused", reason: { code: "TOO_MANY_PENDING", message } };
  }
  const escalationExpiresAtMs = nowMs + ttlSeconds * 1000;
  return { kind: "asked", asked: { escalationId: escalationIdOf(decisionId), escalationExpiresAtMs } };
}
