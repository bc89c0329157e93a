import { setTimeout as delay } from "node:timers/promises";
import type { Pool } from "pg";
import type { LedgerListener } from "../log/events.ts";
import type { WorkspaceLogs } from "../log/workspace-logs.ts";
import type { StoreLog } from "../store/migrate.ts";
import { finishWebhookAttempt, readWebhookForAttempt } from "../store/sql/deliver-webhook.ts";
import type { RenewedWebhook } from "../store/sql/lease-webhooks.ts";
import type { StoredWebhook } from "../store/sql/webhook-columns.ts";
import { type AttemptContext, attemptValues, type MadeAttempt, makeAttempt } from "./attempt.ts";
import { createBell } from "./bell.ts";
import type { WebhookEvent } from "./event.ts";
import { batchFrom } from "./event-batch.ts";
import { createEventQueue } from "./event-queue.ts";
import type { FairGate } from "./fair-gate.ts";
import { messageFrom } from "./message.ts";
import { type NextState, stateAfter } from "./next-state.ts";
import type { DeliveryTiming } from "./schedule.ts";

/** What every deliverer of a process works with. */
export interface DelivererContext extends AttemptContext {
  readonly pool: Pool;
  readonly logs: Pick<WorkspaceLogs, "of">;
  readonly log: StoreLog;
  readonly gate: FairGate;
  readonly timing: DeliveryTiming;
  /** From 0 to 1. */
  readonly random: () => number;
  /** Names this process in leases. */
  readonly owner: string;
}

/** Delivers one webhook's events, one after the other, as long as the process holds its lease. */
export interface Deliverer {
  readonly workspaceId: string;
  readonly webhookId: string;
  readonly revision: number;
  /** Everything before this index was delivered or is no event of the webhook. */
  readonly cursor: number;
  /** Resolves when nothing is sent any more: it was stopped, or found its webhook inactive, gone or another's. */
  readonly done: Promise<void>;
  /** Takes in the webhook as a renewal of the lease found it. */
  renewed(webhook: RenewedWebhook): void;
  /** Begins no further attempt. */
  stop(): void;
  /** Stops, and ends the request under way; its event will be delivered again. */
  abort(): void;
}

/** Milliseconds between tries when the database does not answer. */
const FAULT_PAUSE_MS = 1_000;

const pause = (signal: AbortSignal): Promise<void> =>
  delay(FAULT_PAUSE_MS, undefined, { signal }).catch(() => undefined);

/** Listens to the log of a webhook's workspace as soon as it can be loaded. Gives the function that ends it. */
async function listen(
  { logs, log }: DelivererContext,
  { workspaceId, webhookId }: StoredWebhook,
  listener: LedgerListener,
  signal: AbortSignal,
): Promise<() => void> {
  while (!signal.aborted) {
    try {
      return (await logs.of(workspaceId)).subscribe(listener);
    } catch (error) {
      log.warn({ webhook_id: webhookId, reason: (error as Error).message }, "cannot listen to the log of a webhook");
      await pause(signal);
    }
  }
  return () => undefined;
}

/** Starts delivering a webhook whose lease the process has taken. */
export function startDeliverer(context: DelivererContext, webhook: StoredWebhook): Deliverer {
  const { pool, log, gate, timing, clock, random, owner } = context;
  const { workspaceId, webhookId } = webhook;
  const queue = createEventQueue(pool, webhook);
  const bell = createBell();
  const stopping = new AbortController();
  const aborting = new AbortController();
  let dueAtMs = webhook.nextAttemptAtMs ?? 0;
  let activity: "working" | "idle" | "resting" = "working";

  const stop = (): void => {
    stopping.abort();
    bell.ring();
  };

  const adopt = (changed: StoredWebhook): void => {
    if (changed.revision > queue.revision) queue.adopt(changed);
    dueAtMs = changed.nextAttemptAtMs ?? 0;
  };

  const finish = async (current: StoredWebhook, made: MadeAttempt, next: NextState): Promise<boolean> => {
    const { nextSeq, failures, failingSinceMs, nextAttemptAtMs, isActive } = next;
    const ours = [owner, current.revision, nextSeq, failures, failingSinceMs, nextAttemptAtMs, isActive];
    const values = [...attemptValues(current, made.attempt), ...ours];
    return (await pool.query({ ...finishWebhookAttempt, values })).rows.length > 0;
  };

  const send = async (current: StoredWebhook, event: WebhookEvent): Promise<void> => {
    const { name, seq } = event;
    const subject = { ...messageFrom(current, event), event: name, seq, attempt: current.failures + 1 };
    const limits = { timeoutMs: timing.attemptMs, signal: aborting.signal };
    const made = await makeAttempt(context, current, subject, limits);
    if (aborting.signal.aborted) return;
    const next = stateAfter(current, seq, made, { timing, nowMs: clock.now(), random });
    // Not recorded: the webhook was changed or taken meanwhile, which the next reading of its row tells.
    if (!(await finish(current, made, next))) return;
    dueAtMs = next.nextAttemptAtMs ?? 0;
    if (made.attempt.delivered) return queue.taken(event);
    if (next.isActive) return;
    const { attempt, error: reason } = made.attempt;
    log.warn({ workspace_id: workspaceId, webhook_id: webhookId, attempt, reason }, "webhook deactivated");
    stop();
  };

  const deliver = async (event: WebhookEvent): Promise<void> => {
    const values = [workspaceId, webhookId, owner];
    const { rows } = await pool.query<StoredWebhook>({ ...readWebhookForAttempt, values });
    const [current] = rows;
    if (current === undefined) return stop();
    adopt(current);
    // A change may have come with this row or, since the event was looked up, with a renewal.
    const isNext = queue.revision === current.revision && queue.isNext(event);
    if (isNext && dueAtMs <= clock.now() && !stopping.signal.aborted) await send(current, event);
  };

  /** Does the next thing, and gives the milliseconds to rest after it. */
  const step = async (): Promise<number> => {
    activity = "working";
    const event = await queue.next();
    if (event === undefined) {
      activity = "idle";
      return Number.POSITIVE_INFINITY;
    }
    const restMs = dueAtMs - clock.now();
    if (restMs > 0) {
      activity = "resting";
      return restMs;
    }
    await gate.run(workspaceId, stopping.signal, () => deliver(event));
    return 0;
  };

  const stepOrPause = async (): Promise<void> => {
    try {
      const restMs = await step();
      if (restMs > 0) await bell.wait(restMs);
    } catch (error) {
      log.warn({ webhook_id: webhookId, reason: (error as Error).message }, "webhook delivery failed; trying again");
      await pause(stopping.signal);
    }
  };

  const hear: LedgerListener = (events) => {
    const batch = batchFrom(events);
    if (activity === "idle" && queue.skip(batch)) return;
    // While it rests nothing is lost: what follows the event that failed is read after it.
    if (activity === "idle" || (activity === "working" && queue.wants(batch))) bell.ring();
  };

  const run = async (): Promise<void> => {
    // Before the log is first read, so that nothing falls between reading and listening.
    const unsubscribe = await listen(context, webhook, hear, stopping.signal);
    while (!stopping.signal.aborted) await stepOrPause();
    unsubscribe();
  };

  return {
    workspaceId,
    webhookId,
    done: run(),
    get revision() {
      return queue.revision;
    },
    get cursor() {
      return queue.cursor;
    },
    renewed(changed) {
      if (!changed.isActive) return stop();
      const isChanged = changed.revision > queue.revision;
      adopt(changed);
      const isDue = activity === "resting" && dueAtMs <= clock.now();
      // Decisions wake no other process: without this, those taken elsewhere would be heard of late.
      const isBehind = activity === "idle" && queue.cursor < changed.logSize;
      if (isChanged || isDue || isBehind) bell.ring();
    },
    stop,
    abort() {
      aborting.abort();
      stop();
    },
  };
}
