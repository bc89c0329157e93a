import type { StoredWebhook } from "../store/sql/change-webhook.ts";
import {
  claimWebhooks,
  pruneWebhookDeliveries,
  type RenewedWebhook,
  releaseWebhooks,
  renewWebhooks,
} from "../store/sql/deliver-webhook.ts";
import { Deliverer, type DelivererContext } from "./deliverer.ts";
import { DAY_MS } from "./retry-schedule.ts";

/** Maximum webhooks that one statement leases, so that processes that start together share them. */
const CLAIM_PAGE = 200;
/** Milliseconds for which recorded attempts are kept. */
const KEPT_MS = 30 * DAY_MS;
const PRUNE_INTERVAL_MS = 3_600_000;
/** Maximum attempts that one statement removes. */
const PRUNE_PAGE = 5_000;

/**
 * Delivers the webhooks that this process leases. One process at a time delivers a webhook; when its lease expires, another
 * process takes over.
 */
export class Delivery {
  readonly #context: DelivererContext;
  readonly #deliverers = new Map<string, Deliverer>();
  #renewedAt = performance.now();
  #ticking: Promise<void> | undefined;
  #isStarted = false;
  #isWoken = false;
  #timers: NodeJS.Timeout[] = [];
  #closing: Promise<void> | undefined;

  constructor(context: DelivererContext) {
    this.#context = context;
  }

  /** Number of webhooks with something to deliver. */
  get waiting(): number {
    let waiting = 0;
    for (const deliverer of this.#deliverers.values()) if (deliverer.isWaiting) waiting += 1;
    return waiting;
  }

  /** Begins to deliver. */
  start(): void {
    this.#isStarted = true;
    const { tickMs } = this.#context.timing;
    this.#timers = [
      setInterval(() => this.wake(), tickMs),
      setInterval(() => void this.#pruneOrWarn(), PRUNE_INTERVAL_MS),
    ];
    this.wake();
    void this.#pruneOrWarn();
  }

  /** Looks for new and changed webhooks now instead of at the next tick. */
  wake(): void {
    if (!this.#isStarted || this.#closing !== undefined) return;
    this.#isWoken = true;
    this.#ticking ??= this.#tickWhileWoken();
  }

  /** Stops beginning attempts, gives requests in flight some time to finish, and releases the leases. Idempotent. */
  close(): Promise<void> {
    this.#closing ??= this.#drain();
    return this.#closing;
  }

  async #tickWhileWoken(): Promise<void> {
    while (this.#isWoken && this.#closing === undefined) {
      this.#isWoken = false;
      await this.#tick();
    }
    this.#ticking = undefined;
  }

  async #tick(): Promise<void> {
    const { log, timing } = this.#context;
    try {
      await this.#renewLeases();
      if (this.#closing === undefined) await this.#claimLeases();
    } catch (error) {
      log.warn({ reason: (error as Error).message }, "cannot renew the leases of webhooks");
      // By then another process may have leased the webhooks.
      if (performance.now() - this.#renewedAt >= timing.leaseMs) this.#abortAll();
    }
  }

  async #renewLeases(): Promise<void> {
    const { pool, owner, timing } = this.#context;
    const held = [...this.#deliverers.values()];
    const startedAt = performance.now();
    const ids = [held.map((each) => each.workspaceId), held.map((each) => each.webhookId)];
    const progress = [held.map((each) => each.cursor), held.map((each) => each.revision)];
    const values = [owner, timing.leaseMs, ...ids, ...progress];
    const { rows } = await pool.query<RenewedWebhook>({ ...renewWebhooks, values });
    this.#renewedAt = startedAt;
    const renewed = new Map(rows.map((row) => [row.webhookId, row]));
    for (const deliverer of held) {
      const row = renewed.get(deliverer.webhookId);
      if (row === undefined) deliverer.abort();
      else deliverer.leaseRenewed(row);
    }
  }

  async #claimLeases(): Promise<void> {
    const { pool, owner, timing } = this.#context;
    for (;;) {
      const values = [owner, timing.leaseMs, [...this.#deliverers.keys()], CLAIM_PAGE];
      const { rows } = await pool.query<StoredWebhook>({ ...claimWebhooks, values });
      for (const webhook of rows) this.#deliver(webhook);
      if (rows.length < CLAIM_PAGE) return;
    }
  }

  #deliver(webhook: StoredWebhook): void {
    const deliverer = new Deliverer(this.#context, webhook);
    this.#deliverers.set(webhook.webhookId, deliverer);
    void deliverer.done.then(() => this.#deliverers.delete(webhook.webhookId));
  }

  #abortAll(): void {
    for (const deliverer of this.#deliverers.values()) deliverer.abort();
  }

  async #pruneOrWarn(): Promise<void> {
    const { pool, clock, log } = this.#context;
    const values = [clock.now() - KEPT_MS, PRUNE_PAGE];
    try {
      for (let removed = PRUNE_PAGE; removed === PRUNE_PAGE && this.#closing === undefined; ) {
        removed = (await pool.query({ ...pruneWebhookDeliveries, values })).rowCount ?? 0;
      }
    } catch (error) {
      log.warn({ reason: (error as Error).message }, "cannot remove old webhook deliveries");
    }
  }

  async #drain(): Promise<void> {
    const { pool, owner, timing } = this.#context;
    for (const timer of this.#timers) clearInterval(timer);
    await this.#ticking;
    const left = [...this.#deliverers.values()];
    for (const deliverer of left) deliverer.stop();
    const timeout = setTimeout(() => this.#abortAll(), timing.drainMs);
    await Promise.all(left.map(({ done }) => done));
    clearTimeout(timeout);
    // A lease that is not released expires by itself.
    await pool.query({ ...releaseWebhooks, values: [owner] }).catch(() => undefined);
  }
}
