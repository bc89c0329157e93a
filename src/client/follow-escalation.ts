import type { Client } from "@connectrpc/connect";
import type { EscalationService, WaitEscalationResponse } from "../../gen/agentcontrol/v1/escalation_service_pb.js";
import { later } from "./back-off.ts";
import { type EscalationVerdict, verdictFrom } from "./escalation-verdict.ts";
import { ControlPlaneRequestError } from "./request-error.ts";

/** Whether a stream shows that it is alive. */
export interface StreamHealth {
  /** True from a stream's first message to its end; a way that buffers streams never sets it. */
  isDelivering: boolean;
}

/** What a stream is followed with. */
export interface FollowOptions {
  /** Ends the stream. */
  readonly signal: AbortSignal;
  readonly health: StreamHealth;
  /** Milliseconds without any message after which the stream counts as broken. Default 45,000. */
  readonly silenceMs?: number;
}

/** Three heartbeats of the server. */
const DEFAULT_SILENCE_MS = 45_000;

/**
 * Follows one WaitEscalation stream to its end. Gives the verdict, or undefined when the stream ended without one.
 * Rejects when the stream breaks, and with UNAVAILABLE when it is silent for too long.
 */
export async function followEscalation(
  client: Client<typeof EscalationService>,
  escalationId: string,
  { signal, health, silenceMs = DEFAULT_SILENCE_MS }: FollowOptions,
): Promise<EscalationVerdict | undefined> {
  const stream = new AbortController();
  const onAbort = () => stream.abort(signal.reason);
  signal.addEventListener("abort", onAbort, { once: true });
  try {
    const messages = client.waitEscalation({ escalationId }, { signal: stream.signal, timeoutMs: 0 });
    return await firstVerdict(withinSilence(messages[Symbol.asyncIterator](), stream, silenceMs), health);
  } finally {
    health.isDelivering = false;
    signal.removeEventListener("abort", onAbort);
    // The framework leaves the connection open when its messages are not read to the end.
    stream.abort();
  }
}

async function firstVerdict(
  messages: AsyncIterable<WaitEscalationResponse>,
  health: StreamHealth,
): Promise<EscalationVerdict | undefined> {
  for await (const { escalation } of messages) {
    health.isDelivering = true;
    const verdict = escalation === undefined ? undefined : verdictFrom(escalation.status);
    if (verdict !== undefined) return verdict;
  }
  return undefined;
}

/** The messages as long as they keep coming. */
async function* withinSilence<T>(
  messages: AsyncIterator<T>,
  stream: AbortController,
  silenceMs: number,
): AsyncGenerator<T> {
  for (;;) {
    const { done, value } = await beforeSilence(messages.next(), stream, silenceMs);
    if (done) return;
    yield value;
  }
}

function beforeSilence<T>(next: Promise<T>, stream: AbortController, silenceMs: number): Promise<T> {
  return new Promise((resolve, reject) => {
    const cancel = later(silenceMs, () => {
      const fault = new ControlPlaneRequestError("UNAVAILABLE", `the stream was silent for ${silenceMs} ms`);
      stream.abort(fault);
      reject(fault);
    });
    next.then(resolve, reject).finally(cancel);
  });
}
