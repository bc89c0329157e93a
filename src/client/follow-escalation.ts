import type { Client } from "@connectrpc/connect";
import type { EscalationService } from "../../gen/agentcontrol/v1/escalation_service_pb.js";
import { type EscalationVerdict, verdictFrom } from "./escalation-verdict.ts";
import { type LiveStreamOptions, liveStream } from "./live-stream.ts";

/** Whether a stream shows that it is alive. */
export interface StreamHealth {
  /** True from a stream's first message to its end; a way that buffers streams never sets it. */
  isDelivering: boolean;
}

/** What a stream is followed with. */
export interface FollowOptions extends LiveStreamOptions {
  readonly health: StreamHealth;
}

/**
 * Follows one WaitEscalation stream to its end. Gives the verdict, or undefined when the stream ended without one.
 * Rejects when the stream breaks, and with UNAVAILABLE when it is silent for too long.
 */
export async function followEscalation(
  client: Client<typeof EscalationService>,
  escalationId: string,
  { health, ...options }: FollowOptions,
): Promise<EscalationVerdict | undefined> {
  try {
    const open = (signal: AbortSignal) => client.waitEscalation({ escalationId }, { signal, timeoutMs: 0 });
    for await (const { escalation } of liveStream(open, options)) {
      health.isDelivering = true;
      const verdict = escalation === undefined ? undefined : verdictFrom(escalation.status);
      if (verdict !== undefined) return verdict;
    }
    return undefined;
  } finally {
    health.isDelivering = false;
  }
}
