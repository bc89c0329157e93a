import { create, type JsonObject } from "@bufbuild/protobuf";
import { timestampDate } from "@bufbuild/protobuf/wkt";
import {
  type InterceptRequest,
  InterceptRequestSchema,
  type InterceptResponse,
} from "../../gen/agentcontrol/v1/enforcement_service_pb.js";
import { Decision, DecisionPath, type Reason, ValueKind } from "../../gen/agentcontrol/v1/resources_pb.js";
import { retryAfterMs } from "../retry/retry-after.ts";
import { ControlPlaneRequestError } from "./request-error.ts";
import { createRequestId } from "./request-id.ts";
import { type ChannelCallOptions, callOver, type InterceptRoutes } from "./routes.ts";

/** An action that an agent is about to perform. */
export interface InterceptAction {
  /** Kind of action, such as `payment.send`. */
  readonly actionType: string;
  /** Description of the action in words, less than 1 MiB of UTF-8. */
  readonly actionContent: string;
  /** The acting agent. */
  readonly agentId: string;
  /** Further input to the rules; `arguments` holds the tool's arguments. MUST be JSON; members that JSON omits are omitted. */
  readonly metadata?: Readonly<Record<string, unknown>> | undefined;
  /** The tool that the action calls. Default: `metadata.tool`, else the registered tool named like the action type. */
  readonly tool?: string | undefined;
  /** The session in which the agent acts. */
  readonly sessionId?: string | undefined;
  /** The principal (an agent id) on whose behalf the agent acts. */
  readonly onBehalfOf?: string | undefined;
  /** The grant to use. */
  readonly grantId?: string | undefined;
  /** The intent contract that covers the action. */
  readonly intentContractId?: string | undefined;
  /** An approved escalation of the same action; turns `escalate` into `allow`, once. */
  readonly escalationId?: string | undefined;
  /** Idempotency key, a UUID: a repeated call with the same id and action returns the first decision. Default: a new one. */
  readonly requestId?: string | undefined;
  /**
   * Claims the action for the caller if it is allowed, with an id of the caller's choice, a UUID: a repeat with the same id is
   * `claimed`, with another one it is not, and MUST NOT run the action. Default: the caller claims nothing.
   */
  readonly claimId?: string | undefined;
  /** False if the caller does not report the outcome: a claim alone then does not track it. Default true. */
  readonly report?: boolean | undefined;
}

/** One reason for a decision. */
export interface InterceptReason {
  /** Stable identifier, such as `LIMIT_EXCEEDED`. */
  readonly code: string;
  /** One plain sentence. */
  readonly message: string;
  readonly mandateId: string | null;
  readonly mandateName: string | null;
  /** Path of the rule or condition in the mandate. */
  readonly rule: string | null;
  /** The decisive argument. */
  readonly argument: string | null;
  /** Kind with which a provenance rule read the argument, such as `destination`; null for any other reason. */
  readonly valueKind: string | null;
  /** A value that would have passed. */
  readonly wouldPass: string | null;
  /** Rest of the rule's limit: actions, or the amount of a budget; null for a reason without a limit. */
  readonly remaining: number | null;
  /** Part of the action that is beyond the limit: actions, or the amount of a budget; null for a reason without a limit. */
  readonly over: number | null;
  /**
   * Time from which the limit of the rule has room for this action if nothing else happens; null if it never has, or if that is not
   * known.
   */
  readonly resetsAt: Date | null;
  /** Decision of the rule, if it is weaker than the decision that was made; else null. */
  readonly decision: "allow" | "block" | "escalate" | null;
}

/**
 * Returns the time from which limits no longer refuse an action if nothing else happens: the latest of its reasons. Null unless each
 * reason that refuses has a time.
 */
export function retryAfterFrom(reasons: readonly InterceptReason[]): Date | null {
  const atMs = retryAfterMs(
    reasons.map(({ decision, resetsAt }) => ({
      decision,
      ...(resetsAt !== null && { resetsAtMs: resetsAt.getTime() }),
    })),
  );
  return atMs === undefined ? null : new Date(atMs);
}

/** The control plane's decision on an action. */
export interface InterceptResult {
  readonly decision: "allow" | "block" | "escalate";
  /** The agent's trust when the decision was made, 0 to 100. */
  readonly trustScore: number;
  /** The id of the sealed decision. */
  readonly decisionId: string;
  /** Set when the decision is `escalate`. */
  readonly escalationId: string | null;
  /** The mandate that determined the decision. */
  readonly policyName: string | null;
  /** Milliseconds that the decision took on the control plane. */
  readonly latencyMs: number;
  /** The step that determined the decision: `policy`, `revoked`, `permissions`, … */
  readonly decisionPath: string;
  /** The reasons, most decisive first. */
  readonly reasons: readonly InterceptReason[];
  /** True if this repeats an earlier decision, usually the first one for the same `requestId`. */
  readonly replayed: boolean;
  /** The registered tool that the action calls; null if it calls none that is registered. */
  readonly tool: string | null;
  /**
   * True if the action is claimed by the `claimId` of the request, false if it is not, and the caller MUST NOT run it; null for an action
   * that is not allowed, and for a request without `claimId`.
   */
  readonly claimed: boolean | null;
  /** True if the outcome of the action is tracked: unless it is reported, it becomes `unknown`. */
  readonly reportOutcome: boolean;
}

/**
 * Sends an action. While a route is broken, unresponsive or not yet available, it retries with the same `request_id`, so that the
 * action is decided once. Rejects with a `ControlPlaneRequestError` if the call is refused or the time is up, with the signal's
 * reason, or with a `TypeError` if the metadata is not JSON.
 */
export async function callIntercept(
  routes: InterceptRoutes,
  action: InterceptAction,
  limits: ChannelCallOptions,
): Promise<InterceptResult> {
  const request = interceptRequestFrom(action);
  const response = await callOver(
    routes,
    {
      requestId: request.requestId ?? "",
      overChannel: (channel, options) => channel.intercept(request, options),
      alone: (client, options) => client.intercept(request, options),
    },
    limits,
  );
  return interceptResultFrom(response);
}

function interceptRequestFrom(action: InterceptAction): InterceptRequest {
  const { metadata, ...rest } = action;
  const request = create(InterceptRequestSchema, { ...rest, requestId: action.requestId ?? createRequestId() });
  // Dates and other objects are converted by JSON, as on their way to the tool.
  if (metadata !== undefined) request.metadata = JSON.parse(JSON.stringify(metadata)) as JsonObject;
  return request;
}

const DECISIONS: ReadonlyMap<Decision, InterceptResult["decision"]> = new Map([
  [Decision.ALLOW, "allow"],
  [Decision.BLOCK, "block"],
  [Decision.ESCALATE, "escalate"],
] as const);

function interceptResultFrom(response: InterceptResponse): InterceptResult {
  const decision = DECISIONS.get(response.decision);
  if (decision === undefined) {
    const message = `the control plane returned an unknown decision \`${response.decision}\``;
    throw new ControlPlaneRequestError("INTERNAL", message);
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
    replayed: response.replayed,
    tool: response.tool ?? null,
    claimed: response.claimed ?? null,
    reportOutcome: response.reportOutcome,
  };
}

function reasonFrom(reason: Reason): InterceptReason {
  const { code, message, mandateId, mandateName, rule, argument, valueKind, wouldPass } = reason;
  const { remaining, over, resetsAt, decision } = reason;
  return {
    code,
    message,
    mandateId: mandateId ?? null,
    mandateName: mandateName ?? null,
    rule: rule ?? null,
    argument: argument ?? null,
    valueKind: valueKind === undefined ? null : (ValueKind[valueKind] ?? String(valueKind)).toLowerCase(),
    wouldPass: wouldPass ?? null,
    remaining: remaining ?? null,
    over: over ?? null,
    resetsAt: resetsAt === undefined ? null : timestampDate(resetsAt),
    decision: decision === undefined ? null : (DECISIONS.get(decision) ?? null),
  };
}
