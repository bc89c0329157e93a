import { pruneWebhookDeliveries } from "../store/sql/deliver-webhook.ts";
import { claimWebhooks, type RenewedWebhook, releaseWebhooks, renewWebhooks } from "../store/sql/lease-webhooks.ts";
import type { StoredWebhook } from "../store/sql/webhook-columns.ts";
import { type Deliverer, type DelivererContext, startDeliverer } from "./deliverer.ts";
import { DAY_MS } from "./schedule.ts";

/** Delivers the webhooks of this process: those whose lease it holds. */
export interface Delivery {
  start(): void;
  /** Looks now for webhooks that were made or changed. */
  poke(): void;
  /** Begins no further attempt, lets those under way finish for a while, and gives the leases back. MAY be called again. */
  close(): Promise<void>;
}

/** Webhooks that one statement takes, so that processes that start together share them. */
const CLAIM_PAGE = 200;
/** Milliseconds that attempts stay in the list. */
const KEPT_MS = 30 * DAY_MS;
/** Milliseconds between removals of old attempts. */
const PRUNE_MS = 3_600_000;
/** Attempts that one statement removes. */
const PRUNE_PAGE = 5_000;

/** Creates the delivery. Nothing happens before `start`. */
export function createDelivery(context: DelivererContext): Delivery {
  const { pool, log, timing, owner, clock } = context;
  const deliverers = new Map<string, Deliverer>();
  let renewedAt = performance.now();
  let ticking: Promise<void> | undefined;
  let isStarted = false;
  let isPoked = false;
  let timers: NodeJS.Timeout[] = [];
  let closing: Promise<void> | undefined;

  const begin = (webhook: StoredWebhook): void => {
    const deliverer = startDeliverer(context, webhook);
    deliverers.set(webhook.webhookId, deliverer);
    void deliverer.done.then(() => {
      deliverers.delete(webhook.webhookId);
    });
  };

  const renew = async (): Promise<void> => {
    const held = [...deliverers.values()];
    const startedAt = performance.now();
    const values = [
      ...[owner, timing.leaseMs, held.map((each) => each.workspaceId), held.map((each) => each.webhookId)],
      ...[held.map((each) => each.cursor), held.map((each) => each.revision)],
    ];
    const { rows } = await pool.query<RenewedWebhook>({ ...renewWebhooks, values });
    renewedAt = startedAt;
    const renewed = new Map(rows.map((row) => [row.webhookId, row]));
    for (const deliverer of held) {
      const row = renewed.get(deliverer.webhookId);
      if (row === undefined) deliverer.abort();
      else deliverer.renewed(row);
    }
  };

  const claim = async (): Promise<void> => {
    for (;;) {
      const values = [owner, timing.leaseMs, [...deliverers.keys()], CLAIM_PAGE];
      const { rows } = await pool.query<StoredWebhook>({ ...claimWebhooks, values });
      for (const row of rows) begin(row);
      if (rows.length < CLAIM_PAGE) return;
    }
  };

  const tick = async (): Promise<void> => {
    try {
      await renew();
      if (closing === undefined) await claim();
    } catch (error) {
      log.warn({ reason: (error as Error).message }, "cannot renew the leases of webhooks");
      if (performance.now() - renewedAt < timing.leaseMs) return;
      // Another process may deliver them by now.
      for (const deliverer of deliverers.values()) deliverer.abort();
    }
  };

  const poke = (): void => {
    if (!isStarted || closing !== undefined) return;
    isPoked = true;
    ticking ??= (async () => {
      while (isPoked && closing === undefined) {
        isPoked = false;
        await tick();
      }
      ticking = undefined;
    })();
  };

  const prune = async (): Promise<void> => {
    const values = [clock.now() - KEPT_MS, PRUNE_PAGE];
    for (let removed = PRUNE_PAGE; removed === PRUNE_PAGE && closing === undefined; ) {
      removed = (await pool.query({ ...pruneWebhookDeliveries, values })).rowCount ?? 0;
    }
  };

  const pruneOrLog = (): void => {
    prune().catch((error: Error) => log.warn({ reason: error.message }, "cannot remove old webhook deliveries"));
  };

  const close = async (): Promise<void> => {
    for (const timer of timers) clearInterval(timer);
    await ticking;
    const left = [...deliverers.values()];
    for (const deliverer of left) deliverer.stop();
    const abortAll = setTimeout(() => {
      for (const deliverer of left) deliverer.abort();
    }, timing.drainMs);
    await Promise.all(left.map(({ done }) => done));
    clearTimeout(abortAll);
    // A lease that is not given back runs out by itself.
    await pool.query({ ...releaseWebhooks, values: [owner] }).catch(() => undefined);
  };

  return {
    start() {
      isStarted = true;
      timers = [setInterval(poke, timing.tickMs), setInterval(pruneOrLog, PRUNE_MS)];
      poke();
      pruneOrLog();
    },
    poke,
    close() {
      closing ??= close();
      return closing;
    },
  };
}
