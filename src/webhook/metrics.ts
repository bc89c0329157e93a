import { Counter, Gauge, type Registry } from "prom-client";
import type { Attempt } from "./post-attempt.ts";

/** Measures the delivery of webhooks. */
export class WebhookMetrics {
  readonly #deliveries: Counter<"result">;

  /** `waiting` returns the number of webhooks of this process that have something to deliver. */
  constructor(registry: Registry, waiting: () => number) {
    const registers = [registry];
    new Gauge({
      name: "acp_webhooks_waiting",
      help: "Webhooks with an event that is not delivered yet, also while they wait for the next attempt.",
      registers,
      collect() {
        this.set(waiting());
      },
    });
    this.#deliveries = new Counter({
      name: "acp_webhook_deliveries_total",
      help: "Attempts to deliver an event, by result.",
      labelNames: ["result"],
      registers,
    });
  }

  /** Counts an attempt: `delivered`, `refused` by the receiver's status, or `unreachable` without a response. */
  count({ delivered, statusCode }: Pick<Attempt, "delivered" | "statusCode">): void {
    this.#deliveries.inc({ result: delivered ? "delivered" : statusCode === null ? "unreachable" : "refused" });
  }
}
