import type { Pool } from "pg";
import { Gauge, type Registry } from "prom-client";

/** Milliseconds after which the database counts as away. */
const ANSWER_MS = 2_000;

/** A number that scrapes read from the database. Scrapes that come while it is read share the answer. */
export class ScrapedFigure {
  readonly #read: () => Promise<number>;
  #reading: Promise<number | undefined> | undefined;

  constructor(read: () => Promise<number>) {
    this.#read = read;
  }

  /** Resolves with the number; undefined if the database does not answer in time. */
  async now(): Promise<number | undefined> {
    this.#reading ??= this.#read()
      .catch(() => undefined)
      .finally(() => {
        this.#reading = undefined;
      });
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<undefined>((resolve) => {
      timer = setTimeout(() => resolve(undefined), ANSWER_MS);
    });
    const figure = await Promise.race([this.#reading, late]);
    clearTimeout(timer);
    return figure;
  }
}

/** Adds the gauges of the database and of this process's connections to it. */
export function measureDatabase(registry: Registry, pool: Pool): void {
  const registers = [registry];
  const answers = new ScrapedFigure(async () => (await pool.query("select 1")).rows.length);
  new Gauge({
    name: "acp_database_up",
    help: "Whether the database answers within two seconds (1) or not (0).",
    registers,
    aggregator: "min",
    async collect() {
      const isUp = (await answers.now()) ?? 0;
      // The pool of a process that stops says nothing about the database.
      if (pool.ending) this.remove();
      else this.set(isUp);
    },
  });
  new Gauge({
    name: "acp_pool_connections",
    help: "Connections to the database in use (`busy`) and unused (`idle`), and the callers that wait for one (`waiting`).",
    labelNames: ["state"],
    registers,
    collect() {
      this.set({ state: "busy" }, pool.totalCount - pool.idleCount);
      this.set({ state: "idle" }, pool.idleCount);
      this.set({ state: "waiting" }, pool.waitingCount);
    },
  });
}
