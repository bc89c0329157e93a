import { create } from "@bufbuild/protobuf";
import {
  ClaimDecisionRequestSchema,
  ReportOutcomeRequestSchema,
} from "../../gen/agentcontrol/v1/enforcement_service_pb.js";
import { OutcomeStatus } from "../../gen/agentcontrol/v1/resources_pb.js";
import { ControlPlaneRequestError } from "./request-error.ts";
import { createRequestId } from "./request-id.ts";
import { type ChannelCallOptions, callOver, type InterceptRoutes } from "./routes.ts";

/** Claim of an allowed action. */
export interface ActionClaim {
  /** The decision that allowed the action. */
  readonly decisionId: string;
  /** Id of the claim, a UUID of the caller's choice; the same for a retry. */
  readonly claimId: string;
  /** False if the caller does not report the outcome. Default true. */
  readonly report?: boolean | undefined;
}

/** Answer to a claim that holds. */
export interface ClaimResult {
  /** True if the outcome of the action is tracked: unless it is reported, it becomes `unknown`. */
  readonly reportOutcome: boolean;
}

/** How an allowed action ended. */
export interface OutcomeReport {
  /** The decision that allowed the action. */
  readonly decisionId: string;
  readonly status: "succeeded" | "failed" | "cancelled";
  /** Amount that a `succeeded` action came to, 0 to 999,999,999, at most six places. Default: what the action reserved in budgets. */
  readonly amount?: number | undefined;
  /** Cause of a failure or a cancellation, at most 1,000 characters. It is sealed: no secrets, no personal values. */
  readonly error?: string | undefined;
  /** SHA-256 of the action's result, lower-case hexadecimal. */
  readonly resultDigest?: string | undefined;
}

/**
 * Claims an allowed action, and repeats the call with the same id while no answer comes. Whoever gets no answer MUST NOT run the action.
 * Rejects with a `ControlPlaneRequestError` unless the claim holds: with reason `ALREADY_CLAIMED` if another one does.
 */
export async function callClaim(
  routes: InterceptRoutes,
  claim: ActionClaim,
  limits: ChannelCallOptions,
): Promise<ClaimResult> {
  const requestId = createRequestId();
  const request = create(ClaimDecisionRequestSchema, claim);
  const { claimed, reportOutcome } = await callOver(
    routes,
    {
      requestId,
      overChannel: (channel, options) => channel.claim(request, requestId, options),
      alone: (client, options) => client.claimDecision(request, options),
    },
    limits,
  );
  if (claimed) return { reportOutcome };
  throw new ControlPlaneRequestError("INTERNAL", "the control plane did not say that the action is claimed");
}

const STATUSES: Readonly<Record<OutcomeReport["status"], OutcomeStatus>> = {
  succeeded: OutcomeStatus.SUCCEEDED,
  failed: OutcomeStatus.FAILED,
  cancelled: OutcomeStatus.CANCELLED,
};

/** Reports how an allowed action ended, and repeats the call while no answer comes. Rejects with a `ControlPlaneRequestError`. */
export async function callReport(
  routes: InterceptRoutes,
  { status, ...report }: OutcomeReport,
  limits: ChannelCallOptions,
): Promise<void> {
  const requestId = createRequestId();
  const request = create(ReportOutcomeRequestSchema, { ...report, status: STATUSES[status] });
  await callOver(
    routes,
    {
      requestId,
      overChannel: (channel, options) => channel.report(request, requestId, options),
      alone: (client, options) => client.reportOutcome(request, options),
    },
    limits,
  );
}
