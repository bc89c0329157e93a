import type { Client } from "@connectrpc/connect";
import type {
  EnforcementService,
  InterceptRequest,
  InterceptResponse,
} from "../../gen/agentcontrol/v1/enforcement_service_pb.js";
import { createBackOff, sleep } from "./back-off.ts";
import type { InterceptChannel } from "./intercept-channel.ts";
import { type ControlPlaneRequestError, isTransient, requestErrorFrom } from "./request-error.ts";

/** The ways that lead to a decision. */
export interface InterceptRoutes {
  readonly client: Client<typeof EnforcementService>;
  /** Used whenever it accepts; absent: one call for each action. */
  readonly channel: InterceptChannel | undefined;
}

/** How long a call may take, retries included, and what ends it early. */
export interface InterceptCallOptions {
  readonly signal: AbortSignal | undefined;
  /** Milliseconds. */
  readonly timeoutMs: number;
}

const FIRST_PAUSE_MS = 50;
const MOST_PAUSE_MS = 2_000;

/** The part of the remaining time that a silent way may use up before the call goes another, or over a new connection. */
const SILENT_SHARE = 0.5;

/**
 * Sends one request until it is answered. A route that breaks, is silent or not there yet is tried again, the same
 * `request_id` each time, so that the action is decided once. Rejects with a `ControlPlaneRequestError` for a refusal or when the
 * time is up, or with the signal's reason.
 */
export async function callIntercept(
  routes: InterceptRoutes,
  request: InterceptRequest,
  { signal, timeoutMs }: InterceptCallOptions,
): Promise<InterceptResponse> {
  const endsAt = performance.now() + timeoutMs;
  const backOff = createBackOff({ firstMs: FIRST_PAUSE_MS, mostMs: MOST_PAUSE_MS });
  let wasSilent = false;
  for (;;) {
    signal?.throwIfAborted();
    const remainingMs = endsAt - performance.now();
    const limits = { signal, timeoutMs: wasSilent ? remainingMs : remainingMs * SILENT_SHARE };
    const channel = wasSilent ? undefined : channelFor(routes, request);
    try {
      return await (channel === undefined ? unary(routes, request, limits) : channel.intercept(request, limits));
    } catch (error) {
      signal?.throwIfAborted();
      const fault = requestErrorFrom(error);
      if (fault.code === "DEADLINE_EXCEEDED" && !wasSilent) wasSilent = true;
      else await pauseOrThrow(fault, endsAt, backOff.next(), signal);
    }
  }
}

function channelFor({ channel }: InterceptRoutes, { requestId = "" }: InterceptRequest): InterceptChannel | undefined {
  return channel?.accepts(requestId) ? channel : undefined;
}

async function unary(
  { client }: InterceptRoutes,
  request: InterceptRequest,
  { signal, timeoutMs }: InterceptCallOptions,
): Promise<InterceptResponse> {
  // Transports take 0 or less for no limit at all.
  const limit = { timeoutMs: Math.max(1, Math.ceil(timeoutMs)) };
  return await client.intercept(request, signal === undefined ? limit : { ...limit, signal });
}

/** Waits before the next attempt; throws the fault when it is final or when the pause would outlast the call. */
async function pauseOrThrow(
  fault: ControlPlaneRequestError,
  endsAt: number,
  pauseMs: number,
  signal: AbortSignal | undefined,
): Promise<void> {
  if (!isTransient(fault) || performance.now() + pauseMs >= endsAt) throw fault;
  await sleep(pauseMs, signal);
}
