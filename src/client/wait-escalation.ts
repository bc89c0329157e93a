import type { Client } from "@connectrpc/connect";
import { type EscalationService, EscalationStatus } from "../../gen/agentcontrol/v1/escalation_service_pb.js";
import { createBackOff, later, sleep } from "./back-off.ts";
import { EscalationTimeoutError } from "./blocked-error.ts";
import { type LiveStreamOptions, liveStream } from "./live-stream.ts";
import { type ControlPlaneRequestError, type RequestErrorCode, requestErrorFrom } from "./request-error.ts";

/** A person's verdict on an escalation. */
export type EscalationVerdict = "approved" | "rejected";

/** Limits of a wait for an escalation. */
export interface WaitEscalationOptions {
  /** Seconds, 0 or more; `Infinity` waits for ever. Default 300. */
  readonly timeout?: number | undefined;
  /** Seconds between polls while no stream delivers, 0.05 or more. Default 2. */
  readonly pollInterval?: number | undefined;
  /** Ends the wait, which then rejects with the signal's reason. */
  readonly signal?: AbortSignal | undefined;
}

/** Seconds: an approver has five minutes. */
export const DEFAULT_ESCALATION_TIMEOUT = 300;
/** Seconds. */
export const DEFAULT_ESCALATION_POLL_INTERVAL = 2;
/** Seconds: polling more often would be a busy loop. */
const MIN_POLL_INTERVAL = 0.05;
/** Milliseconds that one poll may take. */
const POLL_TIMEOUT_MS = 10_000;
const FIRST_PAUSE_MS = 1_000;
/** Milliseconds over which the callers of a process that shuts down spread their next connections. */
const RECONNECT_SPREAD_MS = 200;
/** Milliseconds: where streams are always cut, one is tried twice a minute. */
const MAX_PAUSE_MS = 30_000;

/** Faults that do not pass with time. */
const FINAL_CODES: ReadonlySet<RequestErrorCode> = new Set([
  "INVALID_ARGUMENT",
  "NOT_FOUND",
  "PERMISSION_DENIED",
  "UNAUTHENTICATED",
]);

/** State that streaming and polling share during one wait. */
interface Wait {
  readonly client: Client<typeof EscalationService>;
  readonly escalationId: string;
  readonly pollMs: number;
  /** Ends streaming and polling. */
  readonly signal: AbortSignal;
  readonly health: StreamHealth;
  /** The last fault that did not end the wait. */
  lastFault: ControlPlaneRequestError | undefined;
}

/**
 * Waits until an escalation is resolved: by a stream, and by polling every `pollInterval` while no stream delivers. Rejects
 * with `EscalationTimeoutError` when the time is up, with `ControlPlaneRequestError` for a fault that does not pass with
 * time, or with the signal's reason.
 */
export async function waitForEscalation(
  client: Client<typeof EscalationService>,
  escalationId: string,
  options: WaitEscalationOptions = {},
): Promise<EscalationVerdict> {
  const { timeout = DEFAULT_ESCALATION_TIMEOUT, pollInterval = DEFAULT_ESCALATION_POLL_INTERVAL, signal } = options;
  assertSeconds("timeout", timeout, 0);
  assertSeconds("pollInterval", pollInterval, MIN_POLL_INTERVAL);
  signal?.throwIfAborted();
  const ending = new AbortController();
  const wait: Wait = {
    client,
    escalationId,
    // Polls at least once, however short the wait.
    pollMs: Math.max(MIN_POLL_INTERVAL, Math.min(pollInterval, timeout / 2)) * 1000,
    signal: ending.signal,
    health: { isDelivering: false },
    lastFault: undefined,
  };
  const onAbort = () => ending.abort(signal?.reason);
  const timedOut = () => ending.abort(new EscalationTimeoutError(escalationId, timeout, { cause: wait.lastFault }));
  const cancel = later(timeout * 1000, timedOut);
  signal?.addEventListener("abort", onAbort, { once: true });
  try {
    return await Promise.race([rejectOnAbort(ending.signal), byStream(wait), byPolling(wait)]);
  } finally {
    cancel();
    signal?.removeEventListener("abort", onAbort);
    ending.abort();
  }
}

function assertSeconds(name: string, value: number, min: number): void {
  if (!(value >= min)) throw new RangeError(`${name} must be ${min} seconds or more, not \`${value}\``);
}

function rejectOnAbort(signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason), { once: true }));
}

/** Reopens the stream, with growing pauses, until it delivers the verdict. */
async function byStream(wait: Wait): Promise<EscalationVerdict> {
  const backOff = createBackOff({ firstMs: FIRST_PAUSE_MS, maxMs: MAX_PAUSE_MS });
  for (;;) {
    const openedAt = performance.now();
    const faultBefore = wait.lastFault;
    const verdict = await attempt(wait, () =>
      followEscalation(wait.client, wait.escalationId, { signal: wait.signal, health: wait.health }),
    );
    if (verdict !== undefined) return verdict;
    // Only a stream that lasted shows that the connection is sound; elsewhere streams are cut again and again.
    if (performance.now() - openedAt > MAX_PAUSE_MS) backOff.reset();
    const isShutdown = wait.lastFault !== faultBefore && wait.lastFault?.reason === "SHUTTING_DOWN";
    await sleep(isShutdown ? Math.random() * RECONNECT_SPREAD_MS : backOff.next(), wait.signal);
  }
}

/** Polls the status whenever no stream delivers. */
async function byPolling(wait: Wait): Promise<EscalationVerdict> {
  for (;;) {
    await sleep(wait.pollMs, wait.signal);
    if (wait.health.isDelivering) continue;
    const verdict = await attempt(wait, () => poll(wait));
    if (verdict !== undefined) return verdict;
  }
}

async function poll({ client, escalationId, signal }: Wait): Promise<EscalationVerdict | undefined> {
  const { status } = await client.getEscalationStatus({ escalationId }, { signal, timeoutMs: POLL_TIMEOUT_MS });
  return escalationVerdict(status);
}

/** Runs one attempt; a temporary fault counts as no verdict yet. */
async function attempt(
  wait: Wait,
  run: () => Promise<EscalationVerdict | undefined>,
): Promise<EscalationVerdict | undefined> {
  try {
    return await run();
  } catch (error) {
    wait.signal.throwIfAborted();
    const fault = requestErrorFrom(error);
    if (FINAL_CODES.has(fault.code)) throw fault;
    wait.lastFault = fault;
    return undefined;
  }
}

/** Liveness of a stream. */
export interface StreamHealth {
  /** True from a stream's first message to its end; stays false where a proxy buffers streams. */
  isDelivering: boolean;
}

/** Limits of one stream, and the health that it reports. */
export interface FollowOptions extends LiveStreamOptions {
  readonly health: StreamHealth;
}

/**
 * Follows one WaitEscalation stream to its end. Returns the verdict, or undefined when the stream ended without one. Rejects
 * when the stream breaks, and with UNAVAILABLE when it is silent for too long.
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
      const verdict = escalation === undefined ? undefined : escalationVerdict(escalation.status);
      if (verdict !== undefined) return verdict;
    }
    return undefined;
  } finally {
    health.isDelivering = false;
  }
}

function escalationVerdict(status: EscalationStatus): EscalationVerdict | undefined {
  if (status === EscalationStatus.APPROVED) return "approved";
  return status === EscalationStatus.REJECTED ? "rejected" : undefined;
}
