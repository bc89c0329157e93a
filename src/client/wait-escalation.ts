import type { Client } from "@connectrpc/connect";
import type { EscalationService } from "../../gen/agentcontrol/v1/escalation_service_pb.js";
import { createBackOff, later, sleep } from "./back-off.ts";
import { EscalationTimeoutError } from "./blocked-error.ts";
import { type EscalationVerdict, verdictFrom } from "./escalation-verdict.ts";
import { followEscalation, type StreamHealth } from "./follow-escalation.ts";
import { type ControlPlaneRequestError, type RequestErrorCode, requestErrorFrom } from "./request-error.ts";

/** How an escalation is waited for. */
export interface WaitEscalationOptions {
  /** Seconds, 0 or more; `Infinity` waits for ever. Default 300. */
  readonly timeout?: number | undefined;
  /** Seconds between looks at the status while no stream delivers, 0.05 or more. Default 2. */
  readonly pollInterval?: number | undefined;
  /** Ends the wait; it rejects with the signal's reason. */
  readonly signal?: AbortSignal | undefined;
}

/** Seconds; a person who was called has five minutes. */
export const DEFAULT_ESCALATION_TIMEOUT = 300;
/** Seconds. */
export const DEFAULT_ESCALATION_POLL_INTERVAL = 2;
/** Seconds: below it polling would be a busy loop. */
const LEAST_POLL_INTERVAL = 0.05;
/** Milliseconds that one look at the status may take. */
const POLL_TIMEOUT_MS = 10_000;
const FIRST_PAUSE_MS = 1_000;
/** Milliseconds within which those who waited on a process that stops go to another; not all in the same moment. */
const MOVE_MS = 200;
/** A way that cuts streams is tried again twice a minute. */
const MOST_PAUSE_MS = 30_000;

/** Faults that waiting does not heal. */
const FINAL: ReadonlySet<RequestErrorCode> = new Set([
  "INVALID_ARGUMENT",
  "NOT_FOUND",
  "PERMISSION_DENIED",
  "UNAUTHENTICATED",
]);

interface Wait {
  readonly client: Client<typeof EscalationService>;
  readonly escalationId: string;
  readonly pollMs: number;
  /** Ends both ways of waiting. */
  readonly signal: AbortSignal;
  readonly health: StreamHealth;
  /** The last fault that did not end the wait. */
  lastFault: ControlPlaneRequestError | undefined;
}

/**
 * Waits until an escalation is resolved, by the server's stream; while no stream delivers, by looking at the status
 * every `pollInterval`. Rejects with `EscalationTimeoutError` when the time is up, with `ControlPlaneRequestError` for
 * a fault that waiting does not heal, or with the signal's reason.
 */
export async function waitForEscalation(
  client: Client<typeof EscalationService>,
  escalationId: string,
  options: WaitEscalationOptions = {},
): Promise<EscalationVerdict> {
  const { timeout = DEFAULT_ESCALATION_TIMEOUT, pollInterval = DEFAULT_ESCALATION_POLL_INTERVAL, signal } = options;
  assertSeconds("timeout", timeout, 0);
  assertSeconds("pollInterval", pollInterval, LEAST_POLL_INTERVAL);
  signal?.throwIfAborted();
  const ending = new AbortController();
  const wait: Wait = {
    client,
    escalationId,
    // A look falls into every wait, however short.
    pollMs: Math.max(LEAST_POLL_INTERVAL, Math.min(pollInterval, timeout / 2)) * 1000,
    signal: ending.signal,
    health: { isDelivering: false },
    lastFault: undefined,
  };
  const onAbort = () => ending.abort(signal?.reason);
  const timedOut = () => ending.abort(new EscalationTimeoutError(escalationId, timeout, { cause: wait.lastFault }));
  const cancel = later(timeout * 1000, timedOut);
  signal?.addEventListener("abort", onAbort, { once: true });
  try {
    return await Promise.race([aborted(ending.signal), byStream(wait), byPolling(wait)]);
  } finally {
    cancel();
    signal?.removeEventListener("abort", onAbort);
    ending.abort();
  }
}

function assertSeconds(name: string, value: number, least: number): void {
  if (!(value >= least)) throw new RangeError(`${name} must be ${least} seconds or more, not \`${value}\``);
}

function aborted(signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason), { once: true }));
}

/** Opens the stream again and again, with growing pauses, until it brings the verdict. */
async function byStream(wait: Wait): Promise<EscalationVerdict> {
  const backOff = createBackOff({ firstMs: FIRST_PAUSE_MS, mostMs: MOST_PAUSE_MS });
  for (;;) {
    const openedAt = performance.now();
    const faultBefore = wait.lastFault;
    const verdict = await attempt(wait, () =>
      followEscalation(wait.client, wait.escalationId, { signal: wait.signal, health: wait.health }),
    );
    if (verdict !== undefined) return verdict;
    // Only a stream that lived shows that the way is sound; one that is cut at once, again and again, is not.
    if (performance.now() - openedAt > MOST_PAUSE_MS) backOff.reset();
    const isMoving = wait.lastFault !== faultBefore && wait.lastFault?.reason === "SHUTTING_DOWN";
    await sleep(isMoving ? Math.random() * MOVE_MS : backOff.next(), wait.signal);
  }
}

/** Looks at the status whenever no stream delivers. */
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
  return verdictFrom(status);
}

/** Runs one look; a fault that may pass counts as no verdict yet. */
async function attempt(
  wait: Wait,
  look: () => Promise<EscalationVerdict | undefined>,
): Promise<EscalationVerdict | undefined> {
  try {
    return await look();
  } catch (error) {
    wait.signal.throwIfAborted();
    const fault = requestErrorFrom(error);
    if (FINAL.has(fault.code)) throw fault;
    wait.lastFault = fault;
    return undefined;
  }
}
