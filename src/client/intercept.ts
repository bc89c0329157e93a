import { create, type JsonObject } from "@bufbuild/protobuf";
import {
  type InterceptRequest,
  InterceptRequestSchema,
  type InterceptResponse,
} from "../../gen/agentcontrol/v1/enforcement_service_pb.js";
import { Decision, DecisionPath, type Reason } from "../../gen/agentcontrol/v1/resources_pb.js";
import { ControlPlaneRequestError } from "./request-error.ts";

/** An action that an agent is about to perform. */
export interface InterceptAction {
  /** The kind of action: `payment.send`. */
  readonly actionType: string;
  /** What the action is about, at most 65,536 bytes of UTF-8. */
  readonly actionContent: string;
  /** The agent that acts. */
  readonly agentId: string;
  /** What rules may look at; `arguments` holds the tool's arguments. MUST be JSON; what JSON leaves out is left out. */
  readonly metadata?: Readonly<Record<string, unknown>> | undefined;
  /** The tool that the action calls. Default: `metadata.tool`, else a registered tool named like the action type. */
  readonly tool?: string | undefined;
  /** The session that the agent acts in. */
  readonly sessionId?: string | undefined;
  /** The principal (an agent id) that the action is for. */
  readonly onBehalfOf?: string | undefined;
  /** The grant to use. */
  readonly grantId?: string | undefined;
  /** The intent contract that the action falls under. */
  readonly intentContractId?: string | undefined;
  /** An approved escalation of the same action; turns `escalate` into `allow`, once. */
  readonly escalationId?: string | undefined;
  /** A UUID that makes the call idempotent: the same id with the same action gives the first decision. Default: a new one. */
  readonly requestId?: string | undefined;
}

/** Why a decision came out as it did. */
export interface InterceptReason {
  /** A stable word: `LIMIT_EXCEEDED`. */
  readonly code: string;
  /** One plain sentence. */
  readonly message: string;
  readonly mandateId: string | null;
  readonly mandateName: string | null;
  /** Path of the rule or condition in the mandate. */
  readonly rule: string | null;
  /** The argument that decided. */
  readonly argument: string | null;
  /** What would have passed. */
  readonly wouldPass: string | null;
}

/** What the control plane said of an action. */
export interface InterceptResult {
  readonly decision: "allow" | "block" | "escalate";
  /** The agent's trust when the decision was taken, 0 to 100. */
  readonly trustScore: number;
  /** The sealed decision. */
  readonly decisionId: string;
  /** Set when the decision is `escalate`. */
  readonly escalationId: string | null;
  /** The mandate that gave the decision. */
  readonly policyName: string | null;
  /** Milliseconds that the decision took on the control plane. */
  readonly latencyMs: number;
  /** The step that gave the decision: `policy`, `revoked`, `permissions`, … */
  readonly decisionPath: string;
  /** Why, most decisive first. */
  readonly reasons: readonly InterceptReason[];
}

/** Builds the request message. Throws a `TypeError` when the metadata is no JSON. */
export function interceptRequestFrom(action: InterceptAction, requestId: string): InterceptRequest {
  const { actionType, actionContent, agentId, metadata, ...rest } = action;
  const request = create(InterceptRequestSchema, { ...rest, actionType, actionContent, agentId, requestId });
  // Dates and other objects become what JSON makes of them, as they would on the way to the tool.
  if (metadata !== undefined) request.metadata = JSON.parse(JSON.stringify(metadata)) as JsonObject;
  return request;
}

const DECISIONS = new Map<Decision, InterceptResult["decision"]>([
  [Decision.ALLOW, "allow"],
  [Decision.BLOCK, "block"],
  [Decision.ESCALATE, "escalate"],
]);

/** Reads the response message. Throws a `ControlPlaneRequestError` for a decision that this library does not know. */
export function interceptResultFrom(response: InterceptResponse): InterceptResult {
  const decision = DECISIONS.get(response.decision);
  if (decision === undefined) {
    throw new ControlPlaneRequestError(
      "INTERNAL",
      `the control plane gave an unknown decision \`${response.decision}\``,
    );
  }
  return {
    decision,
    trustScore: response.trustScore,
    decisionId: response.decisionId,
    escalationId: response.escalationId ?? null,
    policyName: response.policyName ?? null,
    latencyMs: response.latencyMs,
    decisionPath: (DecisionPath[response.decisionPath] ?? String(response.decisionPath)).toLowerCase(),
    reasons: response.reasons.map(reasonFrom),
  };
}

function reasonFrom({ code, message, mandateId, mandateName, rule, argument, wouldPass }: Reason): InterceptReason {
  return {
    code,
    message,
    mandateId: mandateId ?? null,
    mandateName: mandateName ?? null,
    rule: rule ?? null,
    argument: argument ?? null,
    wouldPass: wouldPass ?? null,
  };
}
