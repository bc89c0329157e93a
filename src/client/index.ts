export type { AgentWatch } from "./agent-watch.ts";
export {
  AgentBlockedError,
  AgentStoppedError,
  AlreadyClaimedError,
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
export type {
  EditableGuardOptions,
  GuardCallOptions,
  Guarded,
  GuardOptions,
  OutcomeOptions,
  Stoppable,
  UnwaitingGuardOptions,
} from "./guard-options.ts";
export type { InterceptAction, InterceptReason, InterceptResult } from "./intercept-call.ts";
export { type Observation, type ObservePromptOptions, ResultWithheldError } from "./observation.ts";
export type { ActionClaim, ClaimResult, OutcomeReport } from "./outcome-calls.ts";
export { PendingApproval } from "./pending-approval.ts";
export {
  ControlPlaneRequestError,
  type RequestErrorCode,
  type RequestErrorDetails,
  type RequestFieldViolation,
  requestErrorFrom,
} from "./request-error.ts";
export type { ChannelCallOptions, InterceptChannel } from "./routes.ts";
export type { ScrubFinding, ScrubOptions, ScrubResult } from "./scrub.ts";
export type { Tracer, TracerSpan } from "./trace.ts";
export {
  DEFAULT_ESCALATION_POLL_INTERVAL,
  DEFAULT_ESCALATION_TIMEOUT,
  type EditedApproval,
  type EscalationVerdict,
  type Rejection,
  type WaitEscalationOptions,
} from "./wait-escalation.ts";
