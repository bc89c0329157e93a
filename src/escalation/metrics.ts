import type { Pool } from "pg";
import { Gauge, Histogram, type Registry } from "prom-client";
import { ScrapedFigure } from "../store/metrics.ts";
import { countPending, readWaits } from "../store/sql/read-escalations.ts";

/** Buckets in seconds, from a person at the screen to one on Monday. */
const BUCKETS_SECONDS = [1, 5, 15, 30, 60, 120, 300, 900, 3_600, 14_400, 86_400, 259_200];

/** Measures how many actions wait for a person, and for how long. */
export class EscalationMetrics {
  readonly #pool: Pool;
  readonly #seconds: Histogram;

  constructor(registry: Registry, pool: Pool) {
    this.#pool = pool;
    const registers = [registry];
    const pending = new ScrapedFigure(
      async () => (await pool.query<{ count: number }>(countPending)).rows[0]?.count ?? 0,
    );
    new Gauge({
      name: "acp_escalations_pending",
      help: "Escalations that wait for a person, in all workspaces; every process says the same number.",
      registers,
      aggregator: "max",
      async collect() {
        const count = await pending.now();
        // An old number would look like an answer.
        if (count === undefined) this.remove();
        else this.set(count);
      },
    });
    this.#seconds = new Histogram({
      name: "acp_escalation_seconds",
      help: "Seconds from an escalation to its end: an approval, a rejection, an edit, a withdrawal or its expiry.",
      buckets: BUCKETS_SECONDS,
      registers,
    });
  }

  /** Counts escalations that this process has resolved. If the database does not answer now, they are left out. */
  readonly onResolved = (workspaceId: string, escalationIds: readonly string[]): void => {
    this.#pool.query<{ seconds: number }>({ ...readWaits, values: [workspaceId, escalationIds] }).then(
      ({ rows }) => {
        for (const { seconds } of rows) this.#seconds.observe(Math.max(0, seconds));
      },
      () => undefined,
    );
  };
}
