import type { JsonObject } from "@bufbuild/protobuf";
import type { Decision, GuardAnswer, PolicyResult, ToolSchema } from "../policy/types.ts";

/** An action as an agent attempts it, mapped from the request and not yet decided. */
export interface Action {
  /** `dec_…`; the same for every retry of a `request_id`. */
  readonly decisionId: string;
  /** True if the caller gave a `request_id`, so that the decision may exist already. */
  readonly isRetryable: boolean;
  readonly agentId: string;
  /** As the caller wrote it. */
  readonly actionType: string;
  /** Trimmed and lower-cased, as patterns see it. */
  readonly normalisedType: string;
  readonly actionContent: string;
  readonly metadata: JsonObject | undefined;
  /** The RFC 8785 form of the metadata; empty when there is none. */
  readonly metadataText: string;
  /** The tool that the request names; undefined when the metadata or the action type may name it. */
  readonly tool: string | undefined;
  readonly sessionId: string | undefined;
  readonly onBehalfOf: string | undefined;
  readonly grantId: string | undefined;
  readonly intentContractId: string | undefined;
  /** The escalation presented as approved. */
  readonly escalationId: string | undefined;
  /** The key that called. */
  readonly keyId: string;
  /** What guards answered about the action, by the key of the question. Default: none was asked. */
  readonly answers?: ReadonlyMap<string, GuardAnswer>;
}

/** Which step of deciding gave the decision; the words of the proto enum `DecisionPath`. */
export type DecisionPath =
  | "revoked"
  | "permissions"
  | "policy"
  | "approved"
  | "default"
  | "delegation"
  | "session"
  | "intent_contract"
  | "credential"
  | "mcp_tool_policy";

/** Why a decision came out as it did; the fields of the message `Reason`, in its words. */
export interface DecisionReason {
  readonly code: string;
  readonly message: string;
  readonly mandateId?: string;
  readonly mandateName?: string;
  readonly rule?: string;
  readonly argument?: string;
  readonly wouldPass?: string;
}

/** Code of the reason that no mandate matched. */
export const DEFAULT_REASON_CODE = "DEFAULT";

/** The reasons of a decision that follows from the workspace's default, by that default. */
export const DEFAULT_REASONS: Readonly<Record<Decision, readonly DecisionReason[]>> = {
  allow: [{ code: DEFAULT_REASON_CODE, message: "no mandate matched; the workspace allows by default" }],
  block: [{ code: DEFAULT_REASON_CODE, message: "no mandate matched; the workspace blocks by default" }],
  escalate: [{ code: DEFAULT_REASON_CODE, message: "no mandate matched; the workspace escalates by default" }],
};

/** Result of checking the agent's permissions. */
export type PermissionsResult = "admitted" | "denied" | "not_listed" | "not_evaluated";

/** What deciding an action came to: everything that is sealed, before it has a place in the log. */
export interface Outcome {
  /** The agent's name when it acted. */
  readonly agentName: string;
  readonly decision: Decision;
  readonly path: DecisionPath;
  readonly reasons: readonly DecisionReason[];
  readonly permissions: PermissionsResult;
  /** What the mandates said; undefined when an earlier step refused. */
  readonly policy: PolicyResult | undefined;
  readonly policyName: string | undefined;
  /** Digest of the policy set in force. */
  readonly policyDigest: string;
  /** The tool that the action calls, registered or not. */
  readonly toolName: string | undefined;
  /** Its schema in force. */
  readonly tool: ToolSchema | undefined;
  readonly trustBeforeTenths: number;
  readonly trustAfterTenths: number;
  /** SHA-256 that an approval is bound to; set when the action escalates or an approval is used up. */
  readonly actionDigest: string | undefined;
  /** The escalation that this decision creates. */
  readonly escalationId: string | undefined;
  /** The approved escalation that this decision uses up. */
  readonly usedEscalationId: string | undefined;
  /** The authority that the action relies on: grants from the actor's up to the principal's, window, contract, token. */
  readonly authority: readonly string[];
}

/** A decision that is durable in the log, as its caller hears of it. */
export interface SealedDecision {
  readonly decisionId: string;
  /** Index in the workspace's log. */
  readonly seq: number;
  readonly atMs: number;
  readonly agentId: string;
  readonly actionType: string;
  readonly decision: Decision;
  readonly path: DecisionPath;
  /** Trust that the decision was taken with. */
  readonly trustBeforeTenths: number;
  readonly trustAfterTenths: number;
  readonly escalationId: string | undefined;
  readonly policyName: string | undefined;
  readonly reasons: readonly DecisionReason[];
}
