/** Reason codes of mandates' rules that fired. */
export const FINDING_CODES = [
  "ACTION_MATCHED",
  "AMOUNT_INVALID",
  "ARGUMENTS_INVALID",
  "ARGUMENT_MISSING",
  "ARGUMENT_WRONG_TYPE",
  "BUDGET_EXCEEDED",
  "CHECK_TOO_LONG",
  "CONDITION_HELD",
  "CONTENT_MATCHED",
  "CURRENCY_DIFFERS",
  "CURRENCY_MISSING",
  "GUARD_UNAVAILABLE",
  "GUARD_VIOLATION",
  "IN_SCHEDULE",
  "LIMIT_EXCEEDED",
  "MANDATE_STALE",
  "PROVENANCE_NOT_TRUSTED",
  "PROVENANCE_SEEN_UNTRUSTED",
  "PROVENANCE_UNREADABLE",
  "SEQUENCE_COMPLETED",
  "TRUST_BELOW",
  "WHEN_HELD",
] as const;

/** Reason codes of the steps before and after the mandates. */
const STEP_CODES = [
  "ACTION_DENIED",
  "ACTION_NOT_ALLOWED",
  "AGENT_REVOKED",
  "APPROVAL_EXPIRED",
  "APPROVAL_NOT_USABLE",
  "APPROVAL_USED",
  "APPROVED",
  "CONTRACT_REQUIRED",
  "CREDENTIAL_ENDED",
  "CREDENTIAL_EXPIRED",
  "DEFAULT",
  "GRANT_MISSING",
  "GRANT_UNKNOWN",
  "INTENT_CONTRACT_EXPIRED",
  "INTENT_CONTRACT_UNKNOWN",
  "MCP_TOOL_POLICY",
  "OUTSIDE_CONTRACT",
  "PLAN_STEP_STALE",
  "PRINCIPAL_REVOKED",
  "PROMPT_REQUIRED",
  "SESSION_EXPIRED",
  "SESSION_REQUIRED",
  "SESSION_UNKNOWN",
  "TOOL_QUARANTINED",
  "TOOL_UNKNOWN",
  "TOOL_UNUSABLE",
  "TOO_MANY_PENDING",
  "WORKSPACE_HALTED",
] as const;

/** Every reason code that a decision can carry. The comment of `Reason.code` in the proto lists the same words. */
export const REASON_CODES = [...FINDING_CODES, ...STEP_CODES] as const;

/** Reason code of a rule that fired. */
export type FindingCode = (typeof FINDING_CODES)[number];

/** Reason code of a decision. */
export type ReasonCode = (typeof REASON_CODES)[number];
