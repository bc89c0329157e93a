import type { InterceptRequest, InterceptResponse } from "../../gen/agentcontrol/v1/enforcement_service_pb.js";

/** How long one call over a channel may take, and what ends it early. */
export interface ChannelCallOptions {
  readonly signal: AbortSignal | undefined;
  /** Milliseconds. */
  readonly timeoutMs: number;
}

/** A faster way to decide than one call for each action: many actions share one connection. */
export interface InterceptChannel {
  /** Whether a call may be sent now. False while the channel recovers, once it is closed, and for an id that is under way. */
  accepts(requestId: string): boolean;
  /**
   * Decides one action; `requestId` MUST be set. Rejects with a `ControlPlaneRequestError`, with code UNAVAILABLE when the
   * channel broke and the action may or may not have been decided; or with the signal's reason.
   */
  intercept(request: InterceptRequest, options: ChannelCallOptions): Promise<InterceptResponse>;
  /** Ends the connection; calls under way are rejected with UNAVAILABLE. */
  close(): void;
}
