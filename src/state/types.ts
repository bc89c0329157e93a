import type { JsonObject } from "@bufbuild/protobuf";
import type { LongAnswers } from "../policy/checks.ts";
import type { ReasonCode } from "../policy/reason-codes.ts";
import type { Decision, GuardAnswer, PolicyResult, ToolSchema } from "../policy/types.ts";
import type { SessionKnowledge, ValueKind } from "../provenance/sources.ts";
import type { TracePlace } from "../tracing/trace-context.ts";
import type { AgentStatus } from "./agents.ts";
import type { SealedDemand } from "./control-changes.ts";
import type { Reservation } from "./counters/budget-pots.ts";
import type { EscalationStatus } from "./escalations.ts";
import type { OutcomeStatus } from "./outcomes.ts";

// The numbers are those of the proto enums, and are stored. They never change.

/** Decisions as they are stored. */
export const DECISION_NUMBERS: Readonly<Record<Decision, number>> = { allow: 1, block: 2, escalate: 3 };
/** Statuses of an outcome as they are stored. */
export const OUTCOME_STATUS_NUMBERS: Readonly<Record<OutcomeStatus, number>> = {
  succeeded: 1,
  failed: 2,
  cancelled: 3,
  pending: 4,
  unknown: 5,
};
/** Statuses of an agent as they are stored. */
export const AGENT_STATUS_NUMBERS: Readonly<Record<AgentStatus, number>> = { active: 1, deactivated: 2, revoked: 3 };
/** Statuses of an escalation as they are stored. */
export const ESCALATION_STATUS_NUMBERS: Readonly<Record<EscalationStatus, number>> = {
  pending: 1,
  approved: 2,
  rejected: 3,
};

/** Kinds of log entries, as stored. */
export const EntryKind = {
  DECISION: 0,
  CHANGE: 1,
  /** A refusal that changes no trust and counts in no window. */
  UNCOUNTED_DECISION: 2,
  /** A claim of an earlier decision's action. */
  CLAIM: 3,
  /** The outcome of an earlier decision's action. */
  OUTCOME: 4,
} as const;

const DECISIONS = Object.keys(DECISION_NUMBERS) as readonly Decision[];
const OUTCOME_STATUSES = Object.keys(OUTCOME_STATUS_NUMBERS) as readonly OutcomeStatus[];
const AGENT_STATUSES = Object.keys(AGENT_STATUS_NUMBERS) as readonly AgentStatus[];
const ESCALATION_STATUSES = Object.keys(ESCALATION_STATUS_NUMBERS) as readonly EscalationStatus[];

/** The words stand in the order of their numbers, which begin with 1. */
function wordAt<Word>(words: readonly Word[], number: number): Word {
  const word = words[number - 1];
  if (word === undefined) throw new RangeError(`no word has the number ${number}`);
  return word;
}

/** Converts a stored number to a decision. */
export const decisionFromNumber = (number: number): Decision => wordAt(DECISIONS, number);
/** Converts a stored number to the status of an outcome. */
export const outcomeStatusFromNumber = (number: number): OutcomeStatus => wordAt(OUTCOME_STATUSES, number);
/** Converts a stored number to an agent status. */
export const agentStatusFromNumber = (number: number): AgentStatus => wordAt(AGENT_STATUSES, number);
/** Converts a stored number to an escalation status. */
export const escalationStatusFromNumber = (number: number): EscalationStatus => wordAt(ESCALATION_STATUSES, number);

/** An action that an agent attempts, mapped from the request and not decided yet. */
export interface Action {
  /** `dec_…`; equal for all retries with the same `request_id`. */
  readonly decisionId: string;
  /** True if the caller sent a `request_id`, so that the decision may exist already. */
  readonly isRetryable: boolean;
  readonly agentId: string;
  /** The caller's spelling. */
  readonly actionType: string;
  /** Trimmed and lower-cased, for matching against patterns. */
  readonly normalisedType: string;
  readonly actionContent: string;
  readonly metadata: JsonObject | undefined;
  /** RFC 8785 form of the metadata; empty without metadata. */
  readonly metadataText: string;
  /** Tool that the request names. When undefined, the metadata or the action type may name one. */
  readonly tool: string | undefined;
  readonly sessionId: string | undefined;
  readonly onBehalfOf: string | undefined;
  readonly grantId: string | undefined;
  readonly intentContractId: string | undefined;
  /** Escalation that the caller presents as approved. */
  readonly escalationId: string | undefined;
  /** Id of the calling key. */
  readonly keyId: string;
  /** True for a key that is bound to the agent, and ends with it. Default false. */
  readonly isKeyBound?: boolean;
  /** First decision of the request that this one repeats, when it has to be refused now. Default: none. */
  readonly replayOf?: string;
  /** Escalation that a person edits: this is its action with other arguments. Default: none. */
  readonly editOf?: string;
  /** Answers of the guard model, by the key of the question. Default: the model was not asked. */
  readonly answers?: ReadonlyMap<string, GuardAnswer>;
  /** Results of the checks that take too long at the action's turn. Default: no such check. */
  readonly longAnswers?: LongAnswers | undefined;
  /** Reason why the tool gateway makes this call in no case: its tool's definition is not in force. Default: no such reason. */
  readonly refusal?: DecisionReason;
  /** Values that a dry run supposes its session to know. Default: those that the session observed. */
  readonly knowledge?: SessionKnowledge;
  /** True if the decision changes no trust, whichever it is. Default false. */
  readonly keepsTrust?: boolean;
  /** Id under which the caller claims the action if it is allowed: a UUID in lower case. Default: the caller claims nothing. */
  readonly claimId?: string | undefined;
  /** False if the caller does not report the outcome. Default true. */
  readonly reportsOutcome?: boolean;
  /** Place in the trace of the call. Has no part in the decision. Default: the call belongs to no trace. */
  readonly trace?: TracePlace | undefined;
}

/** Step that determined the decision; the words of the proto enum `DecisionPath`. */
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
  | "mcp_tool_policy"
  | "unknown_tool"
  | "mcp_definition"
  | "halted";

/** Reason of a decision; the fields of the proto message `Reason`. */
export interface DecisionReason {
  readonly code: ReasonCode;
  readonly message: string;
  readonly mandateId?: string;
  readonly mandateName?: string;
  readonly rule?: string;
  readonly argument?: string;
  readonly valueKind?: ValueKind;
  readonly wouldPass?: string;
  readonly remaining?: number;
  readonly over?: number;
  /** Epoch milliseconds. */
  readonly resetsAtMs?: number;
  readonly decision?: Decision;
}

/** Code of the reason for a decision by default: no mandate matched. */
export const DEFAULT_REASON_CODE = "DEFAULT";

/** Reasons of a decision by default, for each default of a workspace. */
export const DEFAULT_REASONS: Readonly<Record<Decision, readonly DecisionReason[]>> = {
  allow: [{ code: DEFAULT_REASON_CODE, message: "no mandate matched; the workspace allows by default" }],
  block: [{ code: DEFAULT_REASON_CODE, message: "no mandate matched; the workspace blocks by default" }],
  escalate: [{ code: DEFAULT_REASON_CODE, message: "no mandate matched; the workspace escalates by default" }],
};

/** Result of checking the agent's permissions. */
export type PermissionsResult = "admitted" | "denied" | "not_listed" | "not_evaluated";

/** An intent contract that covers an action. */
export interface CoveringContract {
  readonly contractId: string;
  /** True if it admits the action. */
  readonly isInside: boolean;
  /** Index of the plan's step that admits the action; undefined outside the contract and without a plan. */
  readonly step: number | undefined;
  /** True if the agent made it for itself. */
  readonly isByAgent: boolean;
}

/** Result of deciding an action: everything that is sealed, except its position in the log. */
export interface Outcome {
  /** Name of the agent at the time of the action. */
  readonly agentName: string;
  readonly decision: Decision;
  readonly path: DecisionPath;
  readonly reasons: readonly DecisionReason[];
  readonly permissions: PermissionsResult;
  /** Result of evaluating the mandates; undefined when an earlier step refused the action. */
  readonly policy: PolicyResult | undefined;
  readonly policyName: string | undefined;
  /** Digest of the policy set in force. */
  readonly policyDigest: string;
  /** True for the refusal of a call under an ended key, which changes neither trust nor counters. */
  readonly isKeyEnded: boolean;
  /** Tool that the action calls, registered or not. */
  readonly toolName: string | undefined;
  /** Schema in force of a registered tool. */
  readonly tool: ToolSchema | undefined;
  readonly trustBeforeTenths: number;
  readonly trustAfterTenths: number;
  /** Trust that the decision was taken with, if a federation token caps it below the agent's; else undefined. */
  readonly cappedTrustTenths: number | undefined;
  /** SHA-256 that binds an approval to the action; set when the decision escalates or uses an approval. */
  readonly actionDigest: string | undefined;
  /** Top-level members of the metadata that the digest leaves out. */
  readonly digestIgnores: readonly string[];
  /** Escalation that the decision creates or joins. */
  readonly escalationId: string | undefined;
  /** Time at which the escalation expires, if the decision creates it. */
  readonly escalationExpiresAtMs: number | undefined;
  /** Demands of rules with approvers on the escalation, without those of earlier requests. */
  readonly demands: readonly SealedDemand[];
  /** Approved escalation of this very action that is no longer usable; its asker joins `escalationId` instead. */
  readonly replacedEscalationId: string | undefined;
  /** Approved escalation that the decision uses up. */
  readonly usedEscalationId: string | undefined;
  /** Intent contracts that cover the action: the one that it names, then that of its session. */
  readonly contracts: readonly CoveringContract[];
  /** Ids of the authority that the action relies on: grants from the actor's up to the principal's, window, contracts, token. */
  readonly authority: readonly string[];
  /** Amounts that an allowed action reserves in the pots in force. */
  readonly reservations: readonly Reservation[];
  /**
   * The agent on whose behalf the action is. Undefined for an agent that acts for itself, and where its status, grants, session or key
   * refuse the action.
   */
  readonly principalId: string | undefined;
  /** Time from which the outcome of the action becomes unknown, epoch milliseconds; undefined if it is not tracked. */
  readonly outcomeDueAtMs: number | undefined;
}

/** A decision that is durable in the log, in the form that its caller receives. */
export interface SealedDecision {
  readonly decisionId: string;
  /** Index in the workspace's log. */
  readonly seq: number;
  readonly atMs: number;
  readonly agentId: string;
  readonly actionType: string;
  /** The registered tool that the action calls. */
  readonly registeredTool: string | undefined;
  readonly decision: Decision;
  readonly path: DecisionPath;
  /** Trust that the decision was taken with, in tenths. */
  readonly trustTenths: number;
  readonly escalationId: string | undefined;
  readonly policyName: string | undefined;
  readonly reasons: readonly DecisionReason[];
  /**
   * True for an answer that decided nothing anew: the first decision of a repeated request, or the last refusal of an ended key
   * or a halted workspace.
   */
  readonly isReplayed: boolean;
  /** True for the refusal of a call under an ended key. */
  readonly isKeyEnded: boolean;
  /** True if the action is claimed by the caller's `claimId`; undefined if it is not allowed, or the caller claims nothing. */
  readonly isClaimed: boolean | undefined;
  /** True if the outcome of the action is tracked. */
  readonly isTracked: boolean;
}

/** True for the refusal of an action because its workspace is halted. */
export const isHaltedRefusal = ({ path }: Pick<Outcome, "path">): boolean => path === "halted";
