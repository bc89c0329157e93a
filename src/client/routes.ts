import type { Client } from "@connectrpc/connect";
import type {
  ClaimDecisionRequest,
  ClaimDecisionResponse,
  EnforcementService,
  InterceptRequest,
  InterceptResponse,
  ReportOutcomeRequest,
  ReportOutcomeResponse,
} from "../../gen/agentcontrol/v1/enforcement_service_pb.js";
import { createBackOff } from "../async/back-off.ts";
import { ControlPlaneRequestError, isTransient, requestErrorFrom } from "./request-error.ts";
import { sleep } from "./timers.ts";

/** Limits of one attempt of a call. */
export interface ChannelCallOptions {
  readonly signal: AbortSignal | undefined;
  /** Milliseconds. */
  readonly timeoutMs: number;
}

/**
 * A faster route than one call per action: many calls share one connection. Each call rejects with the signal's reason, or with a
 * `ControlPlaneRequestError`. Its code is UNAVAILABLE if the channel broke; the call may then have been served or not.
 */
export interface InterceptChannel {
  /** Tests whether a call may be sent now: not while the channel recovers, not after `close()`, and not with an id in flight. */
  accepts(requestId: string): boolean;
  /** Decides one action; `requestId` MUST be set. */
  intercept(request: InterceptRequest, options: ChannelCallOptions): Promise<InterceptResponse>;
  /** Claims one allowed action. `requestId`, a UUID, names the reply. */
  claim(request: ClaimDecisionRequest, requestId: string, options: ChannelCallOptions): Promise<ClaimDecisionResponse>;
  /** Reports one outcome. `requestId`, a UUID, names the reply. */
  report(request: ReportOutcomeRequest, requestId: string, options: ChannelCallOptions): Promise<ReportOutcomeResponse>;
  /** Closes the connection; calls in flight reject with UNAVAILABLE. */
  close(): void;
}

/** The routes to a decision. */
export interface InterceptRoutes {
  readonly client: Client<typeof EnforcementService>;
  /** Preferred route whenever it accepts. Undefined means one call per action. */
  readonly channel: InterceptChannel | undefined;
}

/** A call that either route can take. A repeat of it MUST NOT have a second effect. */
export interface RoutedCall<Response> {
  readonly requestId: string;
  /** Undefined for a call that the channel does not take. */
  readonly overChannel: ((channel: InterceptChannel, options: ChannelCallOptions) => Promise<Response>) | undefined;
  readonly alone: (
    client: InterceptRoutes["client"],
    options: { readonly timeoutMs: number; readonly signal?: AbortSignal },
  ) => Promise<Response>;
}

const FIRST_PAUSE_MS = 50;
const MAX_PAUSE_MS = 2_000;

/** Share of the remaining time after which an unresponsive route is replaced by another route or a new connection. */
const UNRESPONSIVE_SHARE = 0.5;

/**
 * Makes a call, and repeats it while a route is broken, unresponsive or not yet available. Rejects with a `ControlPlaneRequestError`
 * if the call is refused or the time is up, or with the signal's reason.
 */
export async function callOver<Response>(
  routes: InterceptRoutes,
  call: RoutedCall<Response>,
  { signal, timeoutMs }: ChannelCallOptions,
): Promise<Response> {
  const endsAt = performance.now() + timeoutMs;
  const backOff = createBackOff({ firstMs: FIRST_PAUSE_MS, maxMs: MAX_PAUSE_MS });
  let timedOutBefore = false;
  let mayHaveArrived = false;
  for (;;) {
    signal?.throwIfAborted();
    const remainingMs = endsAt - performance.now();
    const limits = { signal, timeoutMs: timedOutBefore ? remainingMs : remainingMs * UNRESPONSIVE_SHARE };
    const channel = timedOutBefore || !routes.channel?.accepts(call.requestId) ? undefined : routes.channel;
    const { overChannel } = call;
    try {
      if (channel === undefined || overChannel === undefined) return await sendAlone(routes, call, limits);
      return await overChannel(channel, limits);
    } catch (error) {
      signal?.throwIfAborted();
      const fault = arrivedBefore(requestErrorFrom(error), mayHaveArrived);
      mayHaveArrived = fault.reached;
      if (fault.code === "DEADLINE_EXCEEDED" && !timedOutBefore) timedOutBefore = true;
      else await pauseOrThrow(fault, endsAt, backOff.next(), signal);
    }
  }
}

/** Returns the fault of an attempt, which counts as one of all attempts: an earlier one may have been served. */
function arrivedBefore(fault: ControlPlaneRequestError, mayHaveArrived: boolean): ControlPlaneRequestError {
  if (fault.reached || !mayHaveArrived) return fault;
  const message = `${fault.message}; an earlier attempt may have been served`;
  return new ControlPlaneRequestError(fault.code, message, { ...fault, reached: true, cause: fault.cause });
}

async function sendAlone<Response>(
  { client }: InterceptRoutes,
  call: RoutedCall<Response>,
  { signal, timeoutMs }: ChannelCallOptions,
): Promise<Response> {
  // Transports take 0 and less as no limit.
  const limit = { timeoutMs: Math.max(1, Math.ceil(timeoutMs)) };
  return await call.alone(client, signal === undefined ? limit : { ...limit, signal });
}

/** Pauses before the next attempt. Throws if the fault is final or the pause would outlast the call. */
async function pauseOrThrow(
  fault: ControlPlaneRequestError,
  endsAt: number,
  pauseMs: number,
  signal: AbortSignal | undefined,
): Promise<void> {
  if (!isTransient(fault) || performance.now() + pauseMs >= endsAt) throw fault;
  await sleep(pauseMs, signal);
}
