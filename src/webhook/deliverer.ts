import { setTimeout as delay } from "node:timers/promises";
import type { Pool } from "pg";
import type { Semaphore } from "../async/semaphore.ts";
import type { LedgerEvent } from "../log/events.ts";
import type { WorkspaceLogs } from "../log/workspace-logs.ts";
import type { StoreLog } from "../store/migrate.ts";
import type { StoredWebhook } from "../store/sql/change-webhook.ts";
import {
  finishWebhookAttempt,
  holdWebhook,
  type RenewedWebhook,
  readWebhookForAttempt,
} from "../store/sql/deliver-webhook.ts";
import { attemptByChannel, type ChannelSender } from "./channel.ts";
import { EventQueue, logSpanFrom, type WebhookEvent } from "./event-queue.ts";
import type { WebhookMetrics } from "./metrics.ts";
import { type AttemptContext, type AttemptResult, attemptValues, messageFrom, postAttempt } from "./post-attempt.ts";
import { type DeliveryTiming, type NextState, stateAfter } from "./retry-schedule.ts";

/** Dependencies that all deliverers of a process share. */
export interface DelivererContext extends AttemptContext {
  readonly pool: Pool;
  readonly logs: Pick<WorkspaceLogs, "of">;
  readonly log: StoreLog;
  /** Returns the semaphore of requests to receivers of one kind: `webhook`, or the kind of a channel. */
  readonly semaphoreOf: (kind: string) => Semaphore;
  readonly timing: DeliveryTiming;
  /** Returns a number from 0 to 1. */
  readonly random: () => number;
  /** Identifies this process in leases. */
  readonly owner: string;
  /** Default: nothing counts attempts. */
  readonly metrics?: Pick<WebhookMetrics, "count"> | undefined;
  /** Tells people through their channels. Default: channels wait. */
  readonly channels?: ChannelSender | undefined;
}

/** Milliseconds for which a channel waits that this process cannot serve. */
const UNSERVED_MS = 60_000;
/** Milliseconds between attempts while the database does not answer. */
const FAULT_PAUSE_MS = 1_000;
/** Maximum delay of a timer. A longer wait ends early, which is harmless. */
const MAX_TIMER_MS = 2_147_483_647;

const pause = (signal: AbortSignal): Promise<void> =>
  delay(FAULT_PAUSE_MS, undefined, { signal }).catch(() => undefined);

/** Wake-up signal for one waiter. A signal that is raised between two waits ends the second wait at once. */
class Signal {
  #isRaised = false;
  #wake = (): void => undefined;

  raise(): void {
    this.#isRaised = true;
    this.#wake();
  }

  /** Resolves when the signal is raised, or after some milliseconds unless they are `Infinity`. */
  async wait(ms: number): Promise<void> {
    if (!this.#isRaised) {
      const { promise, resolve } = Promise.withResolvers<void>();
      this.#wake = resolve;
      const timer = ms === Number.POSITIVE_INFINITY ? undefined : setTimeout(resolve, Math.min(ms, MAX_TIMER_MS));
      await promise;
      clearTimeout(timer);
    }
    this.#isRaised = false;
  }
}

/**
 * Delivers one webhook's events, one after the other, while the process holds its lease. Notifications of the log move the cursor
 * over entries that are not events, so that an idle webhook costs no queries.
 */
export class Deliverer {
  readonly workspaceId: string;
  readonly webhookId: string;
  /**
   * Resolves after the last request: the deliverer was stopped, or its webhook is inactive, deleted or leased by another process.
   */
  readonly done: Promise<void>;
  readonly #context: DelivererContext;
  readonly #semaphore: Semaphore;
  readonly #queue: EventQueue;
  readonly #signal = new Signal();
  readonly #stopping = new AbortController();
  readonly #aborting = new AbortController();
  #dueAtMs: number;
  #activity: "working" | "idle" | "resting" = "working";

  constructor(context: DelivererContext, webhook: StoredWebhook) {
    this.workspaceId = webhook.workspaceId;
    this.webhookId = webhook.webhookId;
    this.#context = context;
    this.#semaphore = context.semaphoreOf(webhook.kind);
    this.#queue = new EventQueue(context.pool, webhook);
    this.#dueAtMs = webhook.nextAttemptAtMs ?? 0;
    this.done = this.#run();
  }

  /** Revision of the webhook's configuration in use. */
  get revision(): number {
    return this.#queue.revision;
  }

  /** Log index before which every event of the webhook is delivered. */
  get cursor(): number {
    return this.#queue.cursor;
  }

  /** True while it has an event to deliver, or looks for one. */
  get isWaiting(): boolean {
    return this.#activity !== "idle";
  }

  /** Updates the deliverer with its webhook's row after a renewal of the lease. */
  leaseRenewed(webhook: RenewedWebhook): void {
    if (!webhook.isActive) {
      this.stop();
      return;
    }
    const isChanged = webhook.revision > this.revision;
    this.#update(webhook);
    const isDue = this.#activity === "resting" && this.#dueAtMs <= this.#context.clock.now();
    // This process is not notified of other processes' decisions, so the log's size has to be compared.
    const isBehind = this.#activity === "idle" && this.cursor < webhook.logSize;
    if (isChanged || isDue || isBehind) this.#signal.raise();
  }

  /** Stops beginning attempts. */
  stop(): void {
    this.#stopping.abort();
    this.#signal.raise();
  }

  /** Stops, and aborts the request in flight, whose event will be delivered again. */
  abort(): void {
    this.#aborting.abort();
    this.stop();
  }

  async #run(): Promise<void> {
    // Subscribes before the first read of the log, so that no entry is missed in between.
    const unsubscribe = await this.#subscribe();
    while (!this.#stopping.signal.aborted) await this.#stepOrPause();
    unsubscribe();
  }

  /** Subscribes to the workspace's log, retrying until it can be loaded. */
  async #subscribe(): Promise<() => void> {
    const { logs, log } = this.#context;
    const { signal } = this.#stopping;
    while (!signal.aborted) {
      try {
        return (await logs.of(this.workspaceId)).subscribe((entries) => this.#onEntries(entries));
      } catch (error) {
        const reason = (error as Error).message;
        log.warn({ webhook_id: this.webhookId, reason }, "cannot listen to the log of a webhook");
        await pause(signal);
      }
    }
    return () => undefined;
  }

  #onEntries(entries: readonly LedgerEvent[]): void {
    // A resting deliverer reads the entries after the failed event when it retries.
    if (this.#activity === "resting") return;
    const span = logSpanFrom(entries);
    const isSkipped = this.#activity === "idle" ? this.#queue.skip(span) : !this.#queue.hasEventsIn(span);
    if (!isSkipped) this.#signal.raise();
  }

  async #stepOrPause(): Promise<void> {
    try {
      const restMs = await this.#step();
      if (restMs > 0) await this.#signal.wait(restMs);
    } catch (error) {
      const reason = (error as Error).message;
      this.#context.log.warn({ webhook_id: this.webhookId, reason }, "webhook delivery failed; trying again");
      await pause(this.#stopping.signal);
    }
  }

  /** Takes the next step, and returns the milliseconds to rest after it. */
  async #step(): Promise<number> {
    this.#activity = "working";
    const event = await this.#queue.next();
    if (event === undefined) {
      this.#activity = "idle";
      return Number.POSITIVE_INFINITY;
    }
    const restMs = this.#dueAtMs - this.#context.clock.now();
    if (restMs > 0) {
      this.#activity = "resting";
      return restMs;
    }
    const turn = { key: this.workspaceId, signal: this.#stopping.signal };
    await this.#semaphore.run(() => this.#deliver(event), turn);
    return 0;
  }

  async #deliver(event: WebhookEvent): Promise<void> {
    const { pool, clock, owner } = this.#context;
    const values = [this.workspaceId, this.webhookId, owner];
    const { rows } = await pool.query<StoredWebhook>({ ...readWebhookForAttempt, values });
    const [webhook] = rows;
    if (webhook === undefined) return this.stop();
    this.#update(webhook);
    // The configuration may have changed in this row, or by a renewal since the event was read.
    const isNext = this.revision === webhook.revision && this.#queue.isNext(event);
    if (isNext && this.#dueAtMs <= clock.now() && !this.#stopping.signal.aborted) await this.#send(webhook, event);
  }

  async #send(webhook: StoredWebhook, event: WebhookEvent): Promise<void> {
    const { timing, clock, random, log } = this.#context;
    const { seq } = event;
    const result = await this.#attempt(webhook, event);
    if (this.#aborting.signal.aborted) return;
    if ("kind" in result) {
      if (result.kind === "skipped") return this.#queue.markDelivered(event);
      return this.#hold(webhook, result.untilMs);
    }
    this.#context.metrics?.count(result.attempt);
    const next = stateAfter(webhook, seq, result, { timing, nowMs: clock.now(), random });
    // False if the webhook was changed or leased by another process meanwhile; the next read of its row shows this.
    if (!(await this.#record(webhook, result, next))) return;
    this.#dueAtMs = next.nextAttemptAtMs ?? 0;
    if (result.attempt.delivered) return this.#queue.markDelivered(event);
    if (next.isActive) return;
    const { attempt, error: reason } = result.attempt;
    const { workspaceId, webhookId } = this;
    log.warn({ workspace_id: workspaceId, webhook_id: webhookId, attempt, reason }, "webhook deactivated");
    this.stop();
  }

  async #attempt(webhook: StoredWebhook, event: WebhookEvent) {
    const { timing, clock, channels } = this.#context;
    const bounds = { attempt: webhook.failures + 1, timeoutMs: timing.attemptMs, signal: this.#aborting.signal };
    if (webhook.kind !== "webhook") {
      if (channels === undefined) return { kind: "held", untilMs: clock.now() + UNSERVED_MS } as const;
      return attemptByChannel(channels, webhook, event, { ...bounds, clock });
    }
    const { name, seq, trace } = event;
    return postAttempt(this.#context, webhook, { ...messageFrom(webhook, event), event: name, seq, trace, ...bounds });
  }

  /** Puts the event off until a time, at which it is looked at again. */
  async #hold({ revision }: StoredWebhook, untilMs: number): Promise<void> {
    const { pool, owner } = this.#context;
    const values = [this.workspaceId, this.webhookId, owner, revision, Math.ceil(untilMs)];
    await pool.query({ ...holdWebhook, values });
    this.#dueAtMs = Math.ceil(untilMs);
  }

  async #record(webhook: StoredWebhook, { attempt }: AttemptResult, next: NextState): Promise<boolean> {
    const { pool, owner } = this.#context;
    const { nextSeq, failures, failingSinceMs, nextAttemptAtMs, isActive } = next;
    const state = [owner, webhook.revision, nextSeq, failures, failingSinceMs, nextAttemptAtMs, isActive];
    const values = [...attemptValues(webhook, attempt), ...state];
    return (await pool.query({ ...finishWebhookAttempt, values })).rows.length > 0;
  }

  #update(webhook: StoredWebhook): void {
    if (webhook.revision > this.revision) this.#queue.replaceConfig(webhook);
    this.#dueAtMs = webhook.nextAttemptAtMs ?? 0;
  }
}
