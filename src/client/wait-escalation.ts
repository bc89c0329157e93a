import type { Client } from "@connectrpc/connect";
import { type EscalationService, EscalationStatus } from "../../gen/agentcontrol/v1/escalation_service_pb.js";
import { EscalationTimeoutError } from "./blocked-error.ts";
import { followStream } from "./follow-stream.ts";
import { type ControlPlaneRequestError, type RequestErrorCode, requestErrorFrom } from "./request-error.ts";
import { later, sleep } from "./timers.ts";

/** A person's verdict on an escalation. */
export type EscalationVerdict = "approved" | "rejected";

/** A person's approval of an escalated action with other arguments. */
export interface EditedApproval {
  /** The approved escalation of the edited action, to present as `escalationId`; null if that action needs no approval. */
  readonly escalationId: string | null;
  /** All arguments of the edited action. */
  readonly arguments: Readonly<Record<string, unknown>>;
  /** Content that the approval covers, besides the arguments; null without an approval. */
  readonly actionContent: string | null;
}

/** Limits of a wait for an escalation. */
export interface WaitEscalationOptions {
  /** Seconds, 0 or more; `Infinity` waits for ever. Default 300. */
  readonly timeout?: number | undefined;
  /** Seconds between polls while no stream delivers, 0.05 or more. Default 2. */
  readonly pollInterval?: number | undefined;
  /** Ends the wait, which then rejects with the signal's reason. */
  readonly signal?: AbortSignal | undefined;
  /**
   * True resolves with an `EditedApproval` if a person edited the arguments. By default this resolves with `rejected`, because
   * the original action must not happen.
   */
  readonly acceptEdits?: boolean | undefined;
  /** Called with the rejection before the wait ends. Not called if the rejection cannot be read. */
  readonly onRejected?: ((rejection: Rejection) => void) | undefined;
}

/** A rejection of an escalated action. */
export interface Rejection {
  /** The person's note to the agent. */
  readonly note: string | null;
  /** The key or person that rejected; `expiry` if the time was up, `withdrawal` if every request was withdrawn. */
  readonly resolvedBy: string | null;
  /** Arguments that the person gave instead. Where two people have to agree, they are not approved yet. */
  readonly editedArguments: Readonly<Record<string, unknown>> | null;
}

/** Default time in seconds to wait for a person: five minutes. */
export const DEFAULT_ESCALATION_TIMEOUT = 300;
/** Default time between polls, seconds. */
export const DEFAULT_ESCALATION_POLL_INTERVAL = 2;
/** Minimum time between polls, seconds: polling more often would be a busy loop. */
const MIN_POLL_INTERVAL = 0.05;
/** Milliseconds that one poll may take. */
const POLL_TIMEOUT_MS = 10_000;
/** Back-off between streams: if streams are always cut, one is tried twice a minute. */
const STREAM_PAUSES = { firstMs: 1_000, maxMs: 30_000 };
/** Milliseconds over which callers spread their reconnections when a process shuts down. */
const RECONNECT_SPREAD_MS = 200;

/** Codes of faults that do not pass with time. */
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
  /** True from a stream's first message to its end. Stays false if a proxy buffers streams. */
  isDelivering: boolean;
  /** The last fault that did not end the wait. */
  lastFault: ControlPlaneRequestError | undefined;
}

/**
 * Waits until an escalation is resolved: with a stream, and by polling every `pollInterval` while no stream delivers. Rejects
 * with `EscalationTimeoutError` when the time is up, with `ControlPlaneRequestError` for a permanent fault, or with the signal's
 * reason.
 */
export async function waitForEscalation(
  client: Client<typeof EscalationService>,
  escalationId: string,
  options: WaitEscalationOptions = {},
): Promise<EscalationVerdict | EditedApproval> {
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
    isDelivering: false,
    lastFault: undefined,
  };
  const onAbort = () => ending.abort(signal?.reason);
  const timedOut = () => ending.abort(new EscalationTimeoutError(escalationId, timeout, { cause: wait.lastFault }));
  const cancel = later(timeout * 1000, timedOut);
  signal?.addEventListener("abort", onAbort, { once: true });
  try {
    const verdict = await Promise.race([rejectOnAbort(ending.signal), byStream(wait), byPolling(wait)]);
    if (verdict === "approved") return verdict;
    const { acceptEdits = false, onRejected } = options;
    if (onRejected !== undefined) await readRejection(wait, onRejected);
    if (!acceptEdits) return verdict;
    const edit = await Promise.race([rejectOnAbort(ending.signal), readEdit(wait)]);
    if (edit === undefined) return verdict;
    return edit.waitsFor === undefined ? edit.approval : await otherPerson(wait, edit.waitsFor, edit.approval, options);
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

/** Follows the escalation's stream to the verdict. */
async function byStream(wait: Wait): Promise<EscalationVerdict> {
  const { client, escalationId, signal } = wait;
  const messages = followStream({
    open: (ending) => client.waitEscalation({ escalationId }, { signal: ending, timeoutMs: 0 }),
    signal,
    pauses: STREAM_PAUSES,
    onLost(fault) {
      wait.isDelivering = false;
      const isShutdown = fault !== undefined && noteFault(wait, fault).reason === "SHUTTING_DOWN";
      return isShutdown ? Math.random() * RECONNECT_SPREAD_MS : undefined;
    },
  });
  for await (const { escalation } of messages) {
    wait.isDelivering = true;
    const verdict = escalation === undefined ? undefined : escalationVerdict(escalation.status);
    if (verdict !== undefined) return verdict;
  }
  throw signal.reason;
}

/** Polls the status whenever no stream delivers. */
async function byPolling(wait: Wait): Promise<EscalationVerdict> {
  for (;;) {
    await sleep(wait.pollMs, wait.signal);
    if (wait.isDelivering) continue;
    const verdict = await attempt(wait, () => poll(wait));
    if (verdict !== undefined) return verdict;
  }
}

async function poll({ client, escalationId, signal }: Wait): Promise<EscalationVerdict | undefined> {
  const { status } = await client.getEscalationStatus({ escalationId }, { signal, timeoutMs: POLL_TIMEOUT_MS });
  return escalationVerdict(status);
}

/** Reads the rejection, in a single attempt: the rejection also holds without its reason. */
async function readRejection(
  { client, escalationId, signal }: Wait,
  tell: (rejection: Rejection) => void,
): Promise<void> {
  const limits = { signal, timeoutMs: POLL_TIMEOUT_MS };
  const { escalation } = await client.getEscalation({ escalationId }, limits).catch(() => ({ escalation: undefined }));
  if (escalation === undefined) return;
  const { note = null, resolvedBy = null, editedArguments = null } = escalation;
  tell({ note, resolvedBy, editedArguments });
}

/** An edit of an escalation. */
interface Edit {
  readonly approval: EditedApproval;
  /** Escalation that another person still has to answer before the edit is an approval; undefined if it is one. */
  readonly waitsFor: string | undefined;
}

/** Reads the edit of a rejected escalation; undefined if nobody edited it. */
async function readEdit(wait: Wait): Promise<Edit | undefined> {
  for (;;) {
    const read = await attempt(wait, async () => ({ edit: await editOf(wait) }));
    if (read !== undefined) return read.edit;
    await sleep(wait.pollMs, wait.signal);
  }
}

async function editOf({ client, escalationId, signal }: Wait): Promise<Edit | undefined> {
  const limits = { signal, timeoutMs: POLL_TIMEOUT_MS };
  const { escalation } = await client.getEscalation({ escalationId }, limits);
  if (escalation?.editedArguments === undefined) return undefined;
  const { editedArguments, replacedBy = null } = escalation;
  const approval = { escalationId: replacedBy, arguments: editedArguments, actionContent: null };
  if (replacedBy === null) return { approval, waitsFor: undefined };
  const { escalation: edited } = await client.getEscalation({ escalationId: replacedBy }, limits);
  const waitsFor = edited?.status === EscalationStatus.APPROVED ? undefined : replacedBy;
  return { approval: { ...approval, actionContent: edited?.actionContent ?? null }, waitsFor };
}

/** Waits until another person has answered an edited action, whose edit is an approval then. That person may edit it again. */
async function otherPerson(
  { client, signal }: Wait,
  escalationId: string,
  approval: EditedApproval,
  options: WaitEscalationOptions,
): Promise<EscalationVerdict | EditedApproval> {
  const verdict = await waitForEscalation(client, escalationId, {
    ...options,
    timeout: Number.POSITIVE_INFINITY,
    signal,
  });
  return verdict === "approved" ? approval : verdict;
}

/** Runs one attempt. After a temporary fault it returns undefined. */
async function attempt<T>(wait: Wait, run: () => Promise<T | undefined>): Promise<T | undefined> {
  try {
    return await run();
  } catch (error) {
    wait.signal.throwIfAborted();
    noteFault(wait, error);
    return undefined;
  }
}

/** Keeps a temporary fault for the end of the wait, and returns it. Throws a permanent fault. */
function noteFault(wait: Wait, error: unknown): ControlPlaneRequestError {
  const fault = requestErrorFrom(error);
  if (FINAL_CODES.has(fault.code)) throw fault;
  wait.lastFault = fault;
  return fault;
}

function escalationVerdict(status: EscalationStatus): EscalationVerdict | undefined {
  if (status === EscalationStatus.APPROVED) return "approved";
  return status === EscalationStatus.REJECTED ? "rejected" : undefined;
}
