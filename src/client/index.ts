export type { AgentWatch } from "./agent-watch.ts";
export {
  AgentBlockedError,
  AgentStoppedError,
  ApprovalPendingError,
  type DecisionDetails,
  EscalationTimeoutError,
  type StopDetails,
} from "./blocked-error.ts";
export {
  type ControlPlane,
  type ControlPlaneOptions,
  createControlPlane,
  DEFAULT_INTERCEPT_TIMEOUT_MS,
  type InterceptOptions,
} from "./control-plane.ts";
export type { EscalationVerdict } from "./escalation-verdict.ts";
export type { Guarded, GuardOptions, Stoppable } from "./guard.ts";
export type { InterceptAction, InterceptReason, InterceptResult } from "./intercept.ts";
export type { ChannelCallOptions, InterceptChannel } from "./intercept-channel.ts";
export {
  ControlPlaneRequestError,
  type RequestErrorCode,
  type RequestErrorDetails,
  type RequestFieldViolation,
  requestErrorFrom,
} from "./request-error.ts";
export type { ScrubFinding, ScrubOptions, ScrubResult } from "./scrub.ts";
export {
  DEFAULT_ESCALATION_POLL_INTERVAL,
  DEFAULT_ESCALATION_TIMEOUT,
  type WaitEscalationOptions,
} from "./wait-escalation.ts";
